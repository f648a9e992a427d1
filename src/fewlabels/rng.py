"""Randomness as an argument: one named stream per purpose.

Two streams with different names are independent, and the same name gives the same
numbers on every machine, so round 7 of a run can be repeated alone. Draws of a search
are *keyed*: the numbers of draw ``i`` depend on ``i`` only, never on how many draws
were made before it or by which process.
"""

from hashlib import sha256

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator

from fewlabels.errors import whole_number

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_MANTISSA_BITS = 53


def stream(seed: int, *purpose: str | int) -> Generator:
    """Return the generator for one purpose, such as ``"query", step``.

    Example:
        >>> import torch
        >>> a, b = stream(0, "train", 3), stream(0, "train", 3)
        >>> bool(torch.equal(torch.rand(4, generator=a), torch.rand(4, generator=b)))
        True

    Args:
        seed: The seed of the whole run, a whole number of any library.
        *purpose: Words and numbers that name the purpose.

    Returns:
        A fresh CPU generator.
    """
    words = [
        part if isinstance(part, str) else whole_number("purpose", part)
        for part in purpose
    ]
    name = repr((whole_number("seed", seed), *words))
    digest = sha256(name.encode()).digest()
    return Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def fork(generator: Generator) -> int:
    """Draw a number from ``generator`` that can seed or key further streams."""
    return int(torch.randint(2**62, (1,), generator=generator))


def keyed_uniforms(
    key: int, numbers: NDArray[np.int64], width: int
) -> NDArray[np.float64]:
    """Return ``width`` uniform numbers in [0, 1) for each draw number.

    The finalizer of SplitMix64 (Steele, Lea and Flood, 2014) is applied to the pair of
    draw number and position, offset by the key. It is a hash: no draw depends on
    another.

    Args:
        key: What distinguishes this search from every other; from :func:`fork`.
        numbers: Draw numbers, shape (m,).
        width: How many numbers each draw needs.

    Returns:
        Uniform numbers, shape (m, width).
    """
    row_key = _mixed(numbers.astype(np.uint64) * _GOLDEN + np.uint64(key))
    positions = np.arange(1, width + 1, dtype=np.uint64) * _GOLDEN
    bits = _mixed(row_key[:, None] + positions[None, :])
    top = bits >> np.uint64(64 - _MANTISSA_BITS)
    return top.astype(np.float64) * 2.0**-_MANTISSA_BITS


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words so that near words become unrelated ones."""
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    return bits ^ (bits >> np.uint64(31))
