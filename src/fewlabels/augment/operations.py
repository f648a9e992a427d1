"""One round of RandAugment: every image is changed by the operation it drew.

Images are put in the order of their operations, so that those that drew the same lie
side by side: six kinds of tables become one lookup, five kinds of motion one gathering
of pixels. No step loops over images.

A canvas is images as uint8 with one more channel, shape (n, c + 1, h, w): 255, or 0
where an image was moved away and the place is empty. So Pillow keeps transparency.
"""

import torch
from torch import Tensor

from fewlabels.augment.geometry import MAPS, moved
from fewlabels.augment.settings import OPERATIONS, Ranges
from fewlabels.augment.strengths import argument
from fewlabels.augment.tones import BLENDS, TABLES, looked_up

_OPAQUE = 255
_FORGETFUL = ("autocontrast", "equalize", "solarize", "posterize")
"""The official code drops transparency before these: what is empty becomes black."""
_ORDER = ("identity", *TABLES, *MAPS, *BLENDS)
_PLACES = torch.tensor([_ORDER.index(name) for name in OPERATIONS])

_Part = tuple[slice, Tensor]
"""Where the images of one operation lie, and what the operation takes for each."""


def after_round(
    canvas: Tensor, operations: Tensor, levels: Tensor, signs: Tensor, ranges: Ranges
) -> Tensor:
    """Return the canvas after one operation for each image.

    The canvas is images and what is empty of them, uint8, shape (n, c + 1, h, w).
    Operations are positions in ``OPERATIONS``, levels go from 0 to 10, signs are 1 or
    -1: all of shape (n,).
    """
    places = _PLACES[operations]
    order = places.argsort(stable=True)
    arranged = canvas.index_select(0, order)
    parts = _parts(places, levels[order], signs[order], ranges, arranged)
    _look_up(arranged, parts)
    _move(arranged, parts)
    for name, (where, strengths) in parts.items():
        if name in BLENDS:
            arranged[where, :-1] = BLENDS[name](arranged[where, :-1], strengths)
        if name in _FORGETFUL:
            arranged[where, -1] = _OPAQUE
    return arranged.index_select(0, order.argsort())


def _parts(
    places: Tensor, levels: Tensor, signs: Tensor, ranges: Ranges, arranged: Tensor
) -> dict[str, _Part]:
    """Return where each operation that was drawn finds its images, in their order."""
    sides = arranged.shape[2], arranged.shape[3]
    counts = torch.bincount(places, minlength=len(_ORDER)).tolist()
    parts, begin = {}, 0
    for name, count in zip(_ORDER, counts, strict=True):
        where = slice(begin, begin + count)
        if count and name != "identity":
            strengths = argument(name, ranges, levels[where], signs[where], sides)
            parts[name] = where, strengths
        begin += count
    return parts


def _look_up(arranged: Tensor, parts: dict[str, _Part]) -> None:
    """Change, in place, the images whose operations are tables."""
    chosen = {name: part for name, part in parts.items() if name in TABLES}
    if not chosen:
        return
    num_channels = arranged.shape[1] - 1
    tables = [
        TABLES[name](arranged[where, :-1], strengths).expand(-1, num_channels, -1)
        for name, (where, strengths) in chosen.items()
    ]
    everywhere = _joined(chosen)
    colors = arranged[everywhere, :-1]
    arranged[everywhere, :-1] = looked_up(colors, torch.cat(tables))


def _move(arranged: Tensor, parts: dict[str, _Part]) -> None:
    """Change, in place, the images whose operations move pixels."""
    chosen = {name: part for name, part in parts.items() if name in MAPS}
    if not chosen:
        return
    height, width = arranged.shape[2:]
    maps = [MAPS[name](taken, height, width) for name, (_, taken) in chosen.items()]
    everywhere = _joined(chosen)
    arranged[everywhere] = moved(arranged[everywhere], torch.cat(maps))


def _joined(parts: dict[str, _Part]) -> slice:
    """Return where neighboring parts lie together."""
    spans = [where for where, _ in parts.values()]
    return slice(spans[0].start, spans[-1].stop)
