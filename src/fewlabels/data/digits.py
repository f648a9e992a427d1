"""The embedded data set: 1,797 handwritten digits of 8 x 8 pixels."""

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels.data.arrays import item_ids, item_tensor
from fewlabels.pool import ArrayImages, Pool, Split

NUM_TEST = 500
"""Items to measure on; the other 1,297 are the pool."""

_LARGEST = 16


def digits_pool() -> Pool:
    """Return scikit-learn's digits, split once and for all: 1,297 items, 500 to test.

    The set has no official split. Each class gives its share of the test split: those
    items whose content hashes come first. No seed has a say in it.
    """
    items, labels, ids, held_out = _read()
    kept = torch.from_numpy(np.flatnonzero(~held_out))
    measured = torch.from_numpy(np.flatnonzero(held_out))
    return Pool.build(
        ArrayImages(items[kept]),
        labels[kept],
        tuple(map(str, range(10))),
        ids=[ids[index] for index in kept.tolist()],
        test=Split(ArrayImages(items[measured]), labels[measured]),
    )


@cache
def _read() -> tuple[Tensor, Tensor, tuple[str, ...], NDArray[np.bool_]]:
    """Return all items, their labels and ids, and which are to test; a slow file."""
    from sklearn.datasets import load_digits  # slow to import, and seldom needed

    bunch = load_digits()
    pixels = np.round(bunch.images * (255 / _LARGEST)).astype(np.uint8)
    items = item_tensor(pixels)
    ids = item_ids("digits", items)
    labels = torch.from_numpy(bunch.target.astype(np.int64))
    return items, labels, ids, _held_out(bunch.target, ids)


def _held_out(labels: NDArray[np.int64], ids: tuple[str, ...]) -> NDArray[np.bool_]:
    """Mark the items of the test split, each class by its share."""
    counts = np.bincount(labels)
    exact = counts * NUM_TEST / counts.sum()
    quotas = np.floor(exact).astype(np.int64)
    by_remainder = np.argsort(quotas - exact, kind="stable")
    quotas[by_remainder[: NUM_TEST - quotas.sum()]] += 1
    held_out = np.zeros(len(labels), dtype=np.bool_)
    for number, quota in enumerate(quotas):
        members = np.flatnonzero(labels == number).tolist()
        members.sort(key=lambda index: ids[index].partition("@")[2])
        held_out[members[:quota]] = True
    return held_out
