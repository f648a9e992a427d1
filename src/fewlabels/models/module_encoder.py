"""Any network as an encoder: images in, one row of features per image out.

Shapes: n images, c channels, F features.
"""

import copy
import inspect
import marshal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from types import CodeType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fewlabels.errors import ShapeError, UsageError, whole_number
from fewlabels.models import Network, as_input
from fewlabels.names import is_external, source_hash

_CHUNK = 32
_MAX_THREADS = 4  # each needs memory for the maps of its images


class ModuleEncoder:
    """A frozen copy of a network that maps float images in [-1, 1] to features.

    The network gives rows (n, F), or maps (n, F, h, w), of which the mean over all
    positions is taken. Of a :class:`fewlabels.models.Network` the input of the last
    layer is taken.

    A row depends on its image alone, down to the last bit: the network always sees 32
    images at a time, empty ones where there are fewer, because CPUs round differently
    for other numbers of them.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        name: str | None = None,
        size: int | None = None,
        repeats_grey: bool = False,
        feature_size: int | None = None,
        is_reentrant: bool = False,
        is_portable: bool = True,
    ) -> None:
        """Copy the network and name it.

        Args:
            module: The network.
            name: What identifies network, weights and preparation in a cache; None:
                the network's class, a hash of its structure, numbers and source, the
                size.
            size: Side of the square that images are brought to; None: as they are.
            repeats_grey: Whether grey images are given three equal channels.
            feature_size: Length of a row (F); None: what the network says in an
                attribute ``feature_size`` or ``num_features``, else what comes out.
            is_reentrant: Whether several threads may use the network at once. Then each
                of up to four takes 32 images, which costs far less processor time than
                all of them working on the same 32.
            is_portable: Whether all of it is torch's, so that it can be moved to
                another device and written down elsewhere.
        """
        self.module = copy.deepcopy(module).eval().requires_grad_(requires_grad=False)
        if name is None:
            suffix = "" if size is None else f"-{size}px"
            name = f"{type(module).__qualname__}-{fingerprint(module)}{suffix}"
        self.name, self.is_portable = name, is_portable
        self._size, self._repeats_grey = size, repeats_grey
        self._is_reentrant = is_reentrant
        own = (getattr(module, name, None) for name in ("feature_size", "num_features"))
        widths = (width for width in (feature_size, *own) if isinstance(width, int))
        self._feature_size = next(widths, None)

    @property
    def feature_size(self) -> int:
        """Length of a row (F).

        Raises:
            UsageError: If it was not given, and no image was embedded yet.
        """
        if self._feature_size is None:
            raise UsageError(
                f"The feature_size of '{self.name}' is not known; embed an image first."
            )
        return self._feature_size

    @property
    def side(self) -> int | None:
        """Side of images that need not be resized; None: they never are."""
        side = getattr(self.module, "side", None) if self._size is None else self._size
        return side if isinstance(side, int) else None

    def to(self, device: str) -> None:
        """Move the network to a device; rows come back to the CPU all the same."""
        if self.is_portable:
            self.module.to(device)

    def embed(self, images: Tensor) -> Tensor:
        """Return the features of images, in evaluation mode, without gradients.

        Args:
            images: uint8, shape (n, c, h, w).

        Returns:
            float32 on the CPU, shape (n, F).
        """
        if images.ndim != 4 or images.dtype != torch.uint8:
            raise ShapeError(
                f"An encoder takes uint8 images (n, channels, height, width), not "
                f"{images.dtype} of shape {tuple(images.shape)}."
            )
        if not len(images):
            return torch.empty(0, self.feature_size, dtype=torch.float32)
        chunks = torch.split(images, _CHUNK)
        is_on_cpu = all(p.device.type == "cpu" for p in self.module.parameters())
        openmp: Any = torch.backends.openmp
        before = torch.get_num_threads()
        number = min(len(chunks), _MAX_THREADS, before)
        if number > 1 and self._is_reentrant and is_on_cpu and openmp.is_available():
            set_share = partial(torch.set_num_threads, before // number)
            try:
                with ThreadPoolExecutor(number, initializer=set_share) as threads:
                    rows_nF = torch.cat(list(threads.map(self._rows, chunks)))
            finally:
                torch.set_num_threads(before)  # new threads would begin with the share
        else:
            rows_nF = torch.cat([self._rows(chunk) for chunk in chunks])
        self._feature_size = rows_nF.shape[1]
        return rows_nF

    @torch.no_grad()
    def _rows(self, chunk: Tensor) -> Tensor:
        """Return the rows of at most as many images as the network sees at a time."""
        missing = chunk.new_zeros(_CHUNK - len(chunk), *chunk.shape[1:])
        outputs: object = self._outputs(as_input(torch.cat([chunk, missing])))
        if isinstance(outputs, Tensor):
            if outputs.ndim in {2, 4} and len(outputs) == _CHUNK:
                return _average(outputs)[: len(chunk)].float().cpu()
            seen = f"shape {tuple(outputs.shape)} for {_CHUNK} images"
        else:
            seen = f"an object of type {type(outputs).__name__}"
        raise ShapeError(
            f"The encoder '{self.name}' gives {seen}; give (n, F) or (n, F, h, w)."
        )

    def rows(self, inputs: Tensor) -> Tensor:
        """Return the features of float images as one formula, unchecked.

        :meth:`embed` is what to call; this is for those who write the formula down
        elsewhere, for any number of images.

        Args:
            inputs: Images in [-1, 1], shape (n, c, h, w).

        Returns:
            Rows, shape (n, F).
        """
        return _average(self._outputs(inputs))

    def _outputs(self, inputs: Tensor) -> Tensor:
        if self._repeats_grey and inputs.shape[1] == 1:
            inputs = inputs.expand(-1, 3, -1, -1)
        side, network = self._size, self.module
        if side is not None and inputs.shape[2:] != (side, side):
            inputs = F.interpolate(inputs, side, mode="bilinear", antialias=True)
        first = next(network.parameters(), inputs)
        embed = network.embed if isinstance(network, Network) else network
        outputs: Tensor = embed(inputs.to(first.device))
        return outputs


class Grey(nn.Module):
    """Mean over colors, one number per pixel."""

    def forward(self, images: Tensor) -> Tensor:
        """Return rows: (n, c, h, w) to (n, h * w)."""
        return images.mean(dim=1).flatten(1)


def pixels(size: int = 16) -> ModuleEncoder:
    """Return an encoder of grey images brought to ``size`` x ``size`` pixels.

    For small grey images there is little better.
    """
    size = whole_number("size", size)
    name = f"pixels-{fingerprint(Grey())}-{size}px"
    return ModuleEncoder(Grey(), name=name, size=size, feature_size=size**2)


def _average(outputs: Tensor) -> Tensor:
    """Return rows; of maps, the mean over all positions."""
    return outputs.mean(dim=(2, 3)) if outputs.ndim == 4 else outputs


def fingerprint(module: nn.Module) -> str:
    """Return a hash of a network's structure, numbers and source: 16 digits.

    The source is that of classes which are neither PyTorch's nor this package's.
    """
    digest = blake2b(repr(module).encode(), digest_size=8)
    usual = vars(nn.Module())
    for part in module.modules():
        kinds = [kind for kind in type(part).__mro__ if is_external(kind.__module__)]
        kinds = [k for k in kinds if k.__module__.partition(".")[0] != torch.__name__]
        for kind in kinds:
            # A script is edited all the time; of it, the class alone counts.
            is_script = kind.__module__ == "__main__"
            digest.update(_source(kind))
            digest.update(b"" if is_script else source_hash(kind.__module__).encode())
        for name, value in vars(part).items() if kinds else ():
            if name not in usual and isinstance(value, str | int | float | tuple):
                digest.update(f"{name} {value!r}".encode())
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        plain = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(plain.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _source(kind: type) -> bytes:
    """Return the source of a class; of one typed into a console, its bytecode."""

    def placeless(code: CodeType) -> CodeType:
        """Return code that is the same in whichever line it was typed."""
        parts = [placeless(c) if isinstance(c, CodeType) else c for c in code.co_consts]
        return code.replace(co_consts=tuple(parts), co_filename="", co_firstlineno=1)

    try:
        return inspect.getsource(kind).encode()
    except (OSError, TypeError):
        codes = filter(
            None, (getattr(v, "__code__", None) for v in vars(kind).values())
        )
        # Later versions write objects in another way if others refer to them, too.
        return b"".join(marshal.dumps(placeless(code), 2) for code in codes)
