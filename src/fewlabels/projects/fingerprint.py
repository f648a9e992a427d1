"""What is kept of a picture: shape, lightness of 16 x 16 parts, color of 4 x 4."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

SIDE = 16
"""Side of the square whose lightness is kept."""

COLOR_SIDE = 4
"""Side of the square whose color is kept."""

VERSION = 1
"""Of what is kept."""

LAYOUT = np.dtype(
    [
        ("version", "u1"),
        ("is_grey", "u1"),
        ("orientation", "u1"),
        ("height", "<u4"),
        ("width", "<u4"),
        ("lightness", "u1", (SIDE, SIDE)),
        ("color", "u1", (COLOR_SIDE, COLOR_SIDE, 2)),
    ]
)


def unpacked(
    taken: Iterable[bytes],
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float64]]:
    """Return lightness (N, 256), color (N, 32) and aspect (N,) of N fingerprints."""
    records = np.frombuffer(b"".join(taken), dtype=LAYOUT)
    count = len(records)
    return (
        records["lightness"].reshape(count, -1),
        records["color"].reshape(count, -1),
        records["width"] / np.maximum(records["height"], 1),
    )
