"""Near duplicates: the same picture saved again, a little smaller or compressed anew.

A group hides images from the person who labels, so a wrong one is worse than a missed
one. Two pictures are the same here if their thumbnails agree on average *and* in every
single part, measured against the pictures' own contrast, and so do colors and
proportions. A group is a star: each member agrees with the representative, so that a
film, whose neighboring frames agree, does not become one group from end to end.

Few pairs are compared in full. The difference of two sums with signs is at most the sum
of the absolute differences; sixteen such sums (two-dimensional Walsh functions) are
therefore coordinates in which the same pictures lie close together. Pictures are put
into cells along one coordinate and sorted by a second one inside; each picture looks at
those near it in its own cell and in the two beside it.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard

from fewlabels.search.compiled import compiled

MEAN_DIFFERENCE = 2.0
"""Largest mean absolute difference of the lightness of two thumbnails, of 255."""

PART_DIFFERENCE = 10
"""Largest difference of lightness in one part; a small object makes a larger one."""

COLOUR_DIFFERENCE = 16
"""Largest difference of color in one part."""

CONTRAST_SHARE = 0.06
"""Largest mean difference as a share of a picture's own standard deviation."""

LEAST_CONTRAST = 4.0
"""Pictures with a smaller standard deviation are too plain to be told apart."""

PROPORTIONS = 1.05
"""Largest factor between the proportions of two pictures."""

MOST_LOOKED_AT = 20_000
"""How many neighbors in each cell a picture looks at that are not the same."""

MOST_COMPARED = 200
"""How many of them it is compared with in full.

Where a hundred thousand pictures are almost the same and yet differ, such as those of a
fixed camera, these two bound the time, and some near duplicates stay ungrouped.
"""

_WAVES = 4
_CHUNK = 8_192
_STRETCH = float(np.log(PROPORTIONS))


def find_first_alike(
    lightness: NDArray[np.uint8],
    color: NDArray[np.uint8],
    proportions: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Return for each of N pictures the first one that it is the same as.

    Args:
        lightness: Of square thumbnails, shape (N, side²).
        color: Of their parts, shape (N, ...).
        proportions: Width divided by height, shape (N,).

    Returns:
        Positions, shape (N,).
    """
    area = lightness.shape[1]
    rows = hadamard(_WAVES).repeat(math.isqrt(area) // _WAVES, axis=1)
    signs = np.einsum("ay,bx->abyx", rows, rows).reshape(_WAVES**2, area)
    waves = np.empty((len(lightness), _WAVES**2), dtype=np.int32)
    spread = np.empty(len(lightness))  # standard deviations
    for start in range(0, len(lightness), _CHUNK):
        some = slice(start, start + _CHUNK)
        numbers = lightness[some].astype(np.float64)  # sums are exact, in any order
        waves[some] = numbers @ signs.T
        spread[some] = numbers.std(axis=1)
    allowed = np.minimum(MEAN_DIFFERENCE, CONTRAST_SHARE * spread) * area
    allowed[spread < LEAST_CONTRAST] = -1.0
    waves = waves[:, np.argsort(-waves.std(axis=0), kind="stable")]
    cells = waves[:, 0] // int(MEAN_DIFFERENCE * area)
    cells -= cells.min()
    order = np.lexsort((waves[:, 1], cells))
    place_of = np.empty_like(order)
    place_of[order] = np.arange(len(order))
    leader = np.full(len(order), -1)
    starts = np.searchsorted(cells[order], np.arange(cells.max() + 2))
    pictures = cells, waves, lightness, color, np.log(proportions), allowed
    _search(place_of, starts, tuple(part[order] for part in pictures), leader)
    first: NDArray[np.int64] = order[leader][place_of]
    return first


@compiled
def _is_far(numbers: Any, a: int, b: int, most: Any, in_all: Any) -> bool:
    """Return whether two rows differ by more than ``most`` in one place or in all."""
    total = np.int64(0)
    for place in range(numbers.shape[1]):
        apart = abs(np.int64(numbers[a, place]) - np.int64(numbers[b, place]))
        total += apart
        if apart > most or total > in_all:
            return True
    return False


@compiled
def _search(place_of: Any, starts: Any, pictures: Any, leader: Any) -> None:
    """Write into ``leader`` at which place the representative of each picture is."""
    cells, waves, lightness, color, shape, allowed = pictures
    anything = 2**40
    for a in place_of:
        if leader[a] >= 0:
            continue
        leader[a] = a
        compared = 0
        lowest, highest = waves[a, 1] - allowed[a], waves[a, 1] + allowed[a]
        for cell in range(max(cells[a] - 1, 0), min(cells[a] + 2, len(starts) - 1)):
            first, end = starts[cell], starts[cell + 1]
            first += np.searchsorted(waves[first:end, 1], lowest)
            looked = 0
            for b in range(first, end):
                is_enough = looked >= MOST_LOOKED_AT or compared >= MOST_COMPARED
                if is_enough or waves[b, 1] > highest:
                    break
                looked += 1
                most = min(allowed[a], allowed[b])
                if leader[b] >= 0 or _is_far(waves, a, b, most, anything):
                    continue
                same = (
                    abs(shape[a] - shape[b]) <= _STRETCH
                    and not _is_far(lightness, a, b, PART_DIFFERENCE, most)
                    and not _is_far(color, a, b, COLOUR_DIFFERENCE, anything)
                )
                looked -= same
                compared += not same
                leader[b] = a if same else -1
