"""Recommended encoders by short names: where they come from, and what they cost.

The names, licenses, widths and sides of those that timm publishes are compared with
timm's own list in the tests. No download of the real weights could be tried where this
package was developed: see :attr:`Recommended.is_tried`.
"""

from collections.abc import Mapping
from typing import NamedTuple

_OPEN_CLIP = ("open_clip_config.json", "open_clip_model.safetensors", "README.md")


class Recommended(NamedTuple):
    """An encoder that has a short name."""

    source: str
    """Its name among all encoders; empty: it comes in packages."""
    license: str
    megabytes: int
    """What is downloaded."""
    width: int
    """Features of an image."""
    side: int
    """Pixels of the square that images are resized to."""
    step: int
    """The side has to be a multiple of it."""
    slowness: float
    """Processor time for an image in multiples of that of ``efficientnet-lite0``."""
    good_for: str
    files: tuple[str, ...] = ()
    """Which files are downloaded; empty: the usual ones."""
    is_tried: bool = False
    """Whether it was tried with its real weights, not with random ones alone."""


# fmt: off
RECOMMENDED: Mapping[str, Recommended] = {
    "efficientnet-lite0": Recommended(
        "", "apache-2.0", 17, 1280, 160, 1, 1.0,
        "a quick look at photographs", is_tried=True,
    ),
    "efficientnet-lite2": Recommended(
        "", "apache-2.0", 23, 1280, 160, 1, 1.6,
        "the default: photographs on any computer", is_tried=True,
    ),
    "mobileclip2": Recommended(
        "timm/fastvit_mci0.apple_mclip2_dfndr2b", "apple-amlr",
        46, 1024, 256, 32, 12.0, "photographs; for research only",
    ),
    "dinov2-small": Recommended(
        "timm/vit_small_patch14_dinov2.lvd142m", "apache-2.0",
        88, 384, 224, 14, 15.0, "photographs of all kinds; the first to try",
    ),
    "dinov3-small": Recommended(
        "timm/vit_small_patch16_dinov3.lvd1689m", "dinov3-license",
        86, 384, 256, 16, 16.0, "photographs of all kinds; read its license first",
    ),
    "siglip2-base": Recommended(
        "timm/vit_base_patch16_siglip_224.v2_webli", "apache-2.0",
        372, 768, 224, 16, 42.0, "scenes, products, drawings; with a GPU",
    ),
    "dinov2-base": Recommended(
        "timm/vit_base_patch14_dinov2.lvd142m", "apache-2.0",
        346, 768, 224, 14, 56.0, "similar classes, with a GPU",
    ),
    "bioclip2": Recommended(
        "hf-hub:imageomics/bioclip-2", "mit",
        1710, 1024, 224, 14, 200.0, "species of plants, animals and fungi, with a GPU",
        files=_OPEN_CLIP,
    ),
}
# fmt: on
"""By name, the quickest first."""

STRONGER = "dinov2-small"
"""What is recommended to those who have a packaged encoder."""
