"""Small images for the tests."""

import numpy as np
from PIL import Image


def pixels(number, height=8, width=8, channels=1):
    """Pixels that differ from number to number."""
    random = np.random.default_rng(number)
    shape = (height, width, 3) if channels == 3 else (height, width)
    return random.integers(0, 256, shape, dtype=np.uint8)


def save(path, number=0, *, height=8, width=8, channels=1, **options):
    """Save such pixels; the extension says in which format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels(number, height, width, channels)).save(path, **options)
    return path


def tree(root, classes=("cat", "dog"), each=10, start=0):
    """Save a tree with a folder per class."""
    for place, name in enumerate(classes):
        for number in range(each):
            save(root / name / f"{number}.png", start + place * each + number)
    return root
