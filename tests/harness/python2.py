"""Pickles as Python 2 wrote them, such as the published files of CIFAR."""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 1000


def dumps(value: object) -> bytes:
    """Pickle a value with protocol 2, byte for byte as Python 2's cPickle did.

    Args:
        value: Dictionaries, lists, words, numbers and arrays of bytes.

    Returns:
        The pickle.
    """
    return b"\x80\x02" + _Writer().written(value) + b"."


class _Writer:
    """Counts what is remembered, as the pickler does."""

    def __init__(self) -> None:
        self._count = 0

    def written(self, value: object) -> bytes:
        """Return the instructions that make a value."""
        match value:
            case int():
                made = _number(value)
            case bytes():
                made = _text(value) + self._put()
            case str():
                made = _text(value.encode()) + self._put()
            case list():
                made = b"]" + self._put() + self._appended(value)
            case np.ndarray():
                made = self._array(value)
            case dict():
                made = b"}" + self._put() + b"(" + self._pairs(value) + b"u"
            case _:
                raise TypeError(type(value))
        return made

    def _put(self) -> bytes:
        self._count += 1
        if self._count < 256:
            return b"q" + bytes([self._count])
        return b"r" + struct.pack("<I", self._count)

    def _appended(self, values: list[Any]) -> bytes:
        return b"".join(
            b"(" + b"".join(map(self.written, values[i : i + _AT_ONCE])) + b"e"
            for i in range(0, len(values), _AT_ONCE)
        )

    def _pairs(self, table: dict[Any, Any]) -> bytes:
        return b"".join(
            self.written(key) + self.written(value) for key, value in table.items()
        )

    def _array(self, array: NDArray[Any]) -> bytes:
        by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
        put = self._put
        made = b"cnumpy.core.multiarray\n_reconstruct\n" + put()
        made += b"cnumpy\nndarray\n" + put() + b"K\x00\x85" + put()
        made += _text(b"b") + put() + b"\x87" + put() + b"R" + put() + b"(K\x01"
        made += b"".join(map(_number, array.shape)) + b"\x86" + put()
        made += b"cnumpy\ndtype\n" + put() + _text(array.dtype.str[1:].encode()) + put()
        made += b"K\x00K\x01\x87" + put() + b"R" + put() + b"(K\x03" + _text(b"|")
        made += put() + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t" + put() + b"b"
        made += b"\x88" if by_columns else b"\x89"
        return made + _text(array.tobytes("A")) + put() + b"t" + put() + b"b"


def _number(value: int) -> bytes:
    if 0 <= value < 2**8:
        return b"K" + bytes([value])
    if 0 <= value < 2**16:
        return b"M" + struct.pack("<H", value)
    return b"J" + struct.pack("<i", value)


def _text(content: bytes) -> bytes:
    if len(content) < 2**8:
        return b"U" + bytes([len(content)]) + content
    return b"T" + struct.pack("<I", len(content)) + content
