"""The files of CIFAR, which Python 2 has pickled, read without pickle.

A pickle is a program for a small machine with a stack. The published files use some
twenty of its instructions, and this machine knows no others. It makes numbers, bytes,
tuples, lists and dictionaries; an array stays the bytes that it was stored as. The
three names that say "an array of bytes follows" are compared as words: nothing is
imported, called or built because a file names it. Every instruction takes at least one
byte and makes at most one value, so that a small file costs little time and memory.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fewlabels.errors import DataError

_PROTOCOL_2 = b"\x80\x02"
_STOP = b"."

_MOST_STEPS = 2**20
"""Five times what the longest of the files takes."""

_LONGEST_NAME = 64
_RECONSTRUCT, _ARRAY, _DTYPE = (
    (b"numpy.core.multiarray", b"_reconstruct"),
    (b"numpy", b"ndarray"),
    (b"numpy", b"dtype"),
)


@dataclass(frozen=True)
class ByteArray:
    """An array of unsigned bytes, as it was stored."""

    shape: tuple[int, int]
    content: bytes = field(repr=False)
    by_columns: bool
    """Whether the bytes of a column lie together, instead of those of a row."""


@dataclass(frozen=True)
class _Named:
    """One of the three names."""

    name: tuple[bytes, bytes]


@dataclass(frozen=True)
class _Promised:
    """What a name was called for: the type "unsigned byte", or an array of it."""

    name: tuple[bytes, bytes]


def read_pickled(content: bytes, where: str) -> Any:
    """Return what a file of CIFAR holds, arrays as :class:`ByteArray`.

    What is damaged, or has anything that the published files do not have, is refused
    with a :class:`DataError` that calls the file ``where``.
    """
    return _Machine(content, where).run()


class _Machine:
    """A stack, the places marked on it, and what is remembered by number."""

    def __init__(self, content: bytes, where: str) -> None:
        self._content = content
        self._where = where
        self._place = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Follow the instructions to the end; return what is then on top."""
        if self._bytes(len(_PROTOCOL_2)) != _PROTOCOL_2:
            raise self._fault("it does not begin like a pickle of Python 2")
        for _ in range(_MOST_STEPS):
            code = self._bytes(1)
            if code == _STOP:
                return self._pop()
            step = _STEPS.get(code)
            if step is None:
                raise self._fault(
                    f"byte {self._place - 1} is {code!r}, which is unknown"
                )
            step(self)
        raise self._fault(f"it has more than {_MOST_STEPS:,} instructions")

    def _fault(self, reason: str) -> DataError:
        msg = (
            f"{self._where} is not a file of CIFAR as published: {reason}. Do not "
            "trust it; fetch the set again from its official address."
        )
        return DataError(msg)

    def _bytes(self, count: int) -> bytes:
        end = self._place + count
        if end > len(self._content):
            raise self._fault("it is cut off")
        found = self._content[self._place : end]
        self._place = end
        return found

    def _number(self, layout: str) -> int:
        found = struct.unpack(layout, self._bytes(struct.calcsize(layout)))[0]
        return int(found)

    def _pop(self) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise self._fault("an instruction takes more than there is")
        return self._stack.pop()

    def _popped(self, count: int) -> list[Any]:
        return [self._pop() for _ in range(count)][::-1]

    def _marked(self) -> list[Any]:
        """Take everything since the last mark."""
        if not self._marks:
            raise self._fault("an instruction takes more than there is")
        start = self._marks.pop()
        found = self._stack[start:]
        del self._stack[start:]
        return found

    def mark(self) -> None:
        self._marks.append(len(self._stack))

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def push_number(self, layout: str) -> None:
        self.push(self._number(layout))

    def push_bytes(self, layout: str) -> None:
        self.push(self._bytes(self._number(layout)))

    def push_tuple(self, count: int | None) -> None:
        self.push(tuple(self._marked() if count is None else self._popped(count)))

    def remember(self, layout: str) -> None:
        value = self._pop()
        self._memo[self._number(layout)] = value
        self.push(value)

    def recall(self, layout: str) -> None:
        number = self._number(layout)
        if number not in self._memo:
            raise self._fault(f"it recalls value {number}, which it has not stored")
        self.push(self._memo[number])

    def append_all(self) -> None:
        values, into = self._marked(), self._pop()
        if type(into) is not list:
            raise self._fault("it appends to something that is not a list")
        into.extend(values)
        self.push(into)

    def set_all(self) -> None:
        pairs, into = self._marked(), self._pop()
        keys = pairs[::2]
        if type(into) is not dict or len(pairs) % 2:
            raise self._fault(
                "it adds half a pair, or to something other than a dictionary"
            )
        if not all(type(key) is bytes for key in keys):
            raise self._fault("a key of a dictionary is not a word")
        into.update(zip(keys, pairs[1::2], strict=True))
        self.push(into)

    def push_name(self) -> None:
        name = (self._line(), self._line())
        if name not in {_RECONSTRUCT, _ARRAY, _DTYPE}:
            raise self._fault(f"it asks for {b'.'.join(name).decode('latin1')!a}")
        self.push(_Named(name))

    def _line(self) -> bytes:
        end = self._content.find(b"\n", self._place, self._place + _LONGEST_NAME)
        if end < 0:
            raise self._fault("a name in it has no end")
        line = self._bytes(end - self._place)
        self._place += 1
        return line

    def call(self) -> None:
        """See that an array of bytes, or its type, is asked for as always."""
        named, given = self._popped(2)
        if (named, given) == (_Named(_DTYPE), (b"u1", 0, 1)):
            self.push(_Promised(_DTYPE))
        elif (named, given) == (_Named(_RECONSTRUCT), (_Named(_ARRAY), (0,), b"b")):
            self.push(_Promised(_ARRAY))
        else:
            raise self._fault("it asks for something other than an array of bytes")

    def build(self) -> None:
        """Turn the promise of an array into an array; a type has nothing to add."""
        promised, state = self._popped(2)
        if promised == _Promised(_ARRAY):
            self.push(self._array(state))
        elif promised == _Promised(_DTYPE):
            self.push(promised)
        else:
            raise self._fault("it builds something other than an array of bytes")

    def _array(self, state: object) -> ByteArray:
        match state:
            case (
                1,
                (int(rows), int(columns)),
                promised,
                bool(by_columns),
                bytes(them),
            ):
                is_whole = min(rows, columns) >= 0 and rows * columns == len(them)
                if is_whole and promised == _Promised(_DTYPE):
                    return ByteArray((rows, columns), them, by_columns)
        raise self._fault("it has an array whose bytes do not fit its shape")


_STEPS: dict[bytes, Callable[[_Machine], None]] = {
    b"(": _Machine.mark,
    b"N": lambda machine: machine.push(value=None),
    b"\x88": lambda machine: machine.push(value=True),
    b"\x89": lambda machine: machine.push(value=False),
    b"K": lambda machine: machine.push_number("<B"),
    b"M": lambda machine: machine.push_number("<H"),
    b"J": lambda machine: machine.push_number("<i"),
    b"U": lambda machine: machine.push_bytes("<B"),
    b"T": lambda machine: machine.push_bytes("<I"),
    b"}": lambda machine: machine.push({}),
    b"]": lambda machine: machine.push([]),
    b"\x85": lambda machine: machine.push_tuple(1),
    b"\x86": lambda machine: machine.push_tuple(2),
    b"\x87": lambda machine: machine.push_tuple(3),
    b"t": lambda machine: machine.push_tuple(None),
    b"q": lambda machine: machine.remember("<B"),
    b"r": lambda machine: machine.remember("<I"),
    b"h": lambda machine: machine.recall("<B"),
    b"j": lambda machine: machine.recall("<I"),
    b"e": _Machine.append_all,
    b"u": _Machine.set_all,
    b"c": _Machine.push_name,
    b"R": _Machine.call,
    b"b": _Machine.build,
}
