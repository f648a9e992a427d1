"""The pixels themselves as features: for small grey images there is little better."""

from torch import Tensor, nn

from fewlabels.features.module_encoder import ModuleEncoder, fingerprint
from fewlabels.integers import whole_number


class Grey(nn.Module):
    """Mean over colors, one number per pixel."""

    def forward(self, images: Tensor) -> Tensor:
        """Return rows: (n, c, h, w) to (n, h * w)."""
        return images.mean(dim=1).flatten(1)


def pixels(size: int = 16) -> ModuleEncoder:
    """Return an encoder of grey images brought to ``size`` x ``size`` pixels."""
    size = whole_number("size", size)
    module = Grey()
    return ModuleEncoder(
        module,
        name=f"pixels-{fingerprint(module)}-{size}px",
        size=size,
        feature_size=size**2,
    )
