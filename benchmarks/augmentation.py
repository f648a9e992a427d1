"""Strong views: a minibatch at once, and the same recipe image by image in Pillow.

    python benchmarks/augmentation.py

Minibatches of 448 color images of 32x32 (seven times 64, as in FixMatch), one thread.
The recipe is the official one: flip and mirrored shift, two operations of fourteen,
each with probability one half, at a whole level and with a sign of its own, Cutout.
Pillow starts from and ends with arrays as it likes them, channels last, and fills empty
places at once; its shift is two calls of NumPy's take. That is less work than the
official code does. Both are timed in turn, in seconds of the processor; medians are
over the turns, and only their ratio means something.
"""

import argparse
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from fewlabels.augment import preset, strong
from fewlabels.rng import stream

NUM_IMAGES, SIDE = 448, 32
SHIFT, CUTOUT = 4, 16
GREY = (127, 127, 127)
MIRRORED = np.pad(np.arange(SIDE), SHIFT, mode="reflect")
OUT = Path(__file__).parent / "results"

Pixels = NDArray[np.uint8]


def moved(image: Image.Image, *six: float) -> Image.Image:
    """Apply an affine map by the nearest pixel."""
    return image.transform(image.size, Image.Transform.AFFINE, six, fillcolor=GREY)


def factor(level: int) -> float:
    """Return the factor of an enhancer."""
    return 0.1 + 0.18 * level


OPERATIONS: dict[str, Callable[[Image.Image, int, int], Image.Image]] = {
    "identity": lambda image, *_: image,
    "autocontrast": lambda image, *_: ImageOps.autocontrast(image),
    "equalize": lambda image, *_: ImageOps.equalize(image),
    "rotate": lambda image, level, sign: image.rotate(3 * level * sign, fillcolor=GREY),
    "solarize": lambda i, level, _: ImageOps.solarize(i, 256 - int(25.6 * level)),
    "color": lambda i, level, _: ImageEnhance.Color(i).enhance(factor(level)),
    "contrast": lambda i, level, _: ImageEnhance.Contrast(i).enhance(factor(level)),
    "brightness": lambda i, level, _: ImageEnhance.Brightness(i).enhance(factor(level)),
    "sharpness": lambda i, level, _: ImageEnhance.Sharpness(i).enhance(factor(level)),
    "shear-x": lambda i, level, sign: moved(i, 1, 0.03 * level * sign, 0, 0, 1, 0),
    "translate-x": lambda i, level, sign: moved(i, 1, 0, level * sign, 0, 1, 0),
    "translate-y": lambda i, level, sign: moved(i, 1, 0, 0, 0, 1, level * sign),
    "posterize": lambda i, level, _: ImageOps.posterize(i, 4 - int(0.4 * level)),
    "shear-y": lambda i, level, sign: moved(i, 1, 0, 0, 0.03 * level * sign, 1, 0),
}
NAMES = list(OPERATIONS)


def pillow_view(pixels: Pixels, draws: random.Random) -> Pixels:
    """Return the strong view of one image, (h, w, c)."""
    top, left = draws.randrange(2 * SHIFT + 1), draws.randrange(2 * SHIFT + 1)
    columns = MIRRORED[left : left + SIDE]
    if draws.random() < 1 / 2:
        columns = SIDE - 1 - columns
    image = Image.fromarray(pixels.take(MIRRORED[top : top + SIDE], 0).take(columns, 1))
    for name in draws.choices(NAMES, k=2):
        level, sign = draws.randrange(1, 10), draws.choice((1, -1))
        if draws.random() < 1 / 2:
            image = OPERATIONS[name](image, level, sign)
    view = np.array(image)
    top, left = (draws.randrange(SIDE) - CUTOUT // 2 for _ in range(2))
    view[max(top, 0) : top + CUTOUT, max(left, 0) : left + CUTOUT] = GREY
    return view


def measured(work: Callable[[], object]) -> float:
    """Return how many seconds ``work`` takes."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def compare(num_turns: int, seed: int) -> dict[str, object]:
    """Time both in turn and return the figures."""
    generator, draws = stream(seed, "views"), random.Random(seed)
    shape = (NUM_IMAGES, 3, SIDE, SIDE)
    images = torch.randint(256, shape, generator=generator, dtype=torch.uint8)
    arrays = np.ascontiguousarray(images.permute(0, 2, 3, 1).numpy())
    settings = preset("official")

    def at_once() -> Tensor:
        return strong(images, generator, settings)

    def one_by_one() -> Pixels:
        return np.stack([pillow_view(pixels, draws) for pixels in arrays])

    at_once(), one_by_one()
    turns = [(measured(at_once), measured(one_by_one)) for _ in range(num_turns)]
    ours, pillows = (median(times) for times in zip(*turns, strict=True))
    return {
        "seed": seed,
        "turns": num_turns,
        "images": NUM_IMAGES,
        "images_per_second": {
            "at once": round(NUM_IMAGES / ours),
            "Pillow": round(NUM_IMAGES / pillows),
        },
        "milliseconds": {"at once": 1e3 * ours, "Pillow": 1e3 * pillows},
        "faster": pillows / ours,
        "faster_least": min(theirs / own for own, theirs in turns),
        "faster_most": max(theirs / own for own, theirs in turns),
    }


def main() -> None:
    """Compare, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=31)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    figures = compare(options.turns, options.seed)
    for name, rate in figures["images_per_second"].items():
        print(f"{name:<8} {rate:9,} images per second")
    print(f"ratio    {figures['faster']:9.1f}")
    OUT.mkdir(exist_ok=True)
    text = json.dumps(figures, indent=2)
    (OUT / "augmentation.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
