"""Draw what weak and strong views of some data sets look like.

    python scripts/views_picture.py
    python scripts/views_picture.py --sets digits cifar10 --out views.png

Data sets are looked for where ``fewlabels.load`` looks: FEWLABELS_DATA, then the cache.
"""

import argparse
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

import fewlabels
from fewlabels.data.augment import WeakAugment, preset, strong, weak
from fewlabels.errors import FewlabelsError
from fewlabels.rng import stream

SETS = {
    # name: side to load at, preset of the strong view, mirrored or not
    "digits": (8, "small-grey", False),
    "mnist": (14, "small-grey", False),
    "fashion-mnist": (28, "official", True),
    "cifar10": (32, "official", True),
}
CLASSES = (1, 4, 7, 8)
NUM_WEAK, NUM_STRONG = 3, 6
BREAK = 0.35
"""Room between the kinds of views, in tiles."""
GAP = 0.06
"""Room between tiles, in tiles."""
OUT = Path(__file__).resolve().parent.parent / "docs" / "images" / "views.png"

Pixels = NDArray[np.uint8]


def main(arguments: list[str] | None = None) -> int:
    """Draw the picture and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        originals = {name: examples(name) for name in options.sets}
    except FewlabelsError as error:
        print(f"{error} Or choose what to draw, such as --sets digits.")
        return 1
    picture(originals, options.seed).savefig(
        options.out,
        dpi=110,
        bbox_inches="tight",
        pad_inches=0.12,
        pil_kwargs={"optimize": True},
    )
    return 0


def examples(name: str) -> Tensor:
    """Return the first image of each of some classes: (rows, c, h, w)."""
    pool = fewlabels.load(name, size=SETS[name][0])
    first = [int((pool.labels == number).nonzero()[0]) for number in CLASSES]
    return pool.images.read(torch.tensor(first))


def picture(originals: dict[str, Tensor], seed: int) -> Figure:
    """Return a figure with one panel for each data set."""
    num_across = min(2, len(originals))
    num_down = -(-len(originals) // num_across)
    with mpl.rc_context({"font.family": "DejaVu Sans", "font.size": 9}):
        figure = Figure(figsize=(5.6 * num_across, 2.8 * num_down))
        panels = list(figure.subplots(num_down, num_across, squeeze=False).flat)
        for name, axes in zip(originals, panels, strict=False):
            draw(axes, name, originals[name], seed)
        for axes in panels[len(originals) :]:
            axes.set_visible(False)
        figure.tight_layout(pad=0.8, w_pad=2.0, h_pad=1.6)
    return figure


def draw(axes: Axes, name: str, originals: Tensor, seed: int) -> None:
    """Draw originals, weak and strong views of one data set."""
    _, preset_name, flip = SETS[name]
    generator = stream(seed, "views", name)
    weaker = WeakAugment(flip=flip)
    kinds = {
        "original": [originals],
        "weak": [weak(originals, generator, weaker) for _ in range(NUM_WEAK)],
        f"strong: {preset_name}": [
            strong(originals, generator, preset(preset_name)) for _ in range(NUM_STRONG)
        ],
    }
    left = 0.0
    for title, columns in kinds.items():
        for number, column in enumerate(columns):
            for row, image in enumerate(column):
                show(axes, image, left + number, row)
        middle = left + (len(columns) - GAP) / 2
        axes.text(middle, -0.12, title, ha="center", va="bottom", color="#444444")
        left += len(columns) + BREAK
    side = originals.shape[-1]
    axes.set_title(f"{name}, {side} × {side}", loc="left", weight="bold", pad=20)
    axes.set(
        xlim=(0, left - BREAK - GAP), ylim=(len(originals) - GAP, 0), aspect="equal"
    )
    axes.axis("off")


def show(axes: Axes, image: Tensor, left: float, row: int) -> None:
    """Draw one image as a tile."""
    pixels: Pixels = image.permute(1, 2, 0).expand(-1, -1, 3).numpy()
    # Enlarged first, so that all pixels of the drawing are equally large.
    enlarged = pixels.repeat(8, axis=0).repeat(8, axis=1)
    extent = (left, left + 1 - GAP, row + 1 - GAP, row)
    axes.imshow(enlarged, extent=extent)


if __name__ == "__main__":
    sys.exit(main())
