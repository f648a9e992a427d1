"""The files of CIFAR, which Python 2 has pickled, read without pickle.

A pickle is a program for a small machine with a stack. ``pickletools`` only takes its
instructions apart. The published files use some twenty of them, and this machine knows
no others. It makes numbers, bytes, tuples, lists and dictionaries; an array stays the
bytes that it was stored as. The three names that say "an array of bytes follows" are
compared as words: nothing is imported, called or built because a file names it. Every
instruction takes at least one byte and makes at most one value, so that a small file
costs little time and memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pickletools import genops
from typing import Any

from fewlabels.errors import DataError

_PROTOCOL_2 = b"\x80\x02"

_MOST_STEPS = 2**20
"""Five times what the longest of the files takes."""

_LONGEST_SHOWN = 64
_RECONSTRUCT, _ARRAY, _DTYPE = (
    "numpy.core.multiarray _reconstruct",
    "numpy ndarray",
    "numpy dtype",
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

    name: str


@dataclass(frozen=True)
class _Promised:
    """What a name was called for: the type "unsigned byte", or an array of it."""

    name: str


def read_pickled(content: bytes, where: str) -> Any:
    """Return what a file of CIFAR holds, arrays as :class:`ByteArray`.

    What is damaged, or has anything that the published files do not have, is refused
    with a :class:`DataError` that calls the file ``where``.
    """
    return _Machine(where).run(content)


class _Machine:
    """A stack, the places marked on it, and what is remembered by number."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        """Follow the instructions to the end; return what is then on top."""
        if not _PROTOCOL_2.startswith(content[: len(_PROTOCOL_2)]):
            raise self._fault("it does not begin like a pickle of Python 2")
        try:
            for number, (code, given, place) in enumerate(genops(content)):
                step = _STEPS.get(code.name)
                if step is None:
                    byte = code.code.encode("latin1")
                    raise self._fault(f"byte {place} is {byte!r}, which is unknown")
                if number > _MOST_STEPS:
                    told = f"it has more than {_MOST_STEPS:,} instructions"
                    raise self._fault(told)
                step(self, given)
        except ValueError as error:
            raise self._fault(f"it is cut off or damaged ({error})") from error
        return self._pop()

    def _fault(self, reason: str) -> DataError:
        return DataError(
            f"{self._where} is not a file of CIFAR as published: {reason}. Do not "
            "trust it; fetch the set again from its official address."
        )

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

    def push_tuple(self, count: int | None) -> None:
        self.push(tuple(self._marked() if count is None else self._popped(count)))

    def remember(self, number: int) -> None:
        self._memo[number] = value = self._pop()
        self.push(value)

    def recall(self, number: int) -> None:
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

    def push_name(self, name: str) -> None:
        if name not in {_RECONSTRUCT, _ARRAY, _DTYPE}:
            shown = name.replace(" ", ".")[:_LONGEST_SHOWN]
            raise self._fault(f"it asks for {shown!a}")
        self.push(_Named(name))

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


_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda *_: None,
    "STOP": lambda *_: None,
    "MARK": lambda machine, _: machine.mark(),
    "NONE": lambda machine, _: machine.push(value=None),
    "NEWTRUE": lambda machine, _: machine.push(value=True),
    "NEWFALSE": lambda machine, _: machine.push(value=False),
    "BININT1": _Machine.push,
    "BININT2": _Machine.push,
    "BININT": _Machine.push,
    "SHORT_BINSTRING": lambda machine, text: machine.push(text.encode("latin1")),
    "BINSTRING": lambda machine, text: machine.push(text.encode("latin1")),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "TUPLE1": lambda machine, _: machine.push_tuple(1),
    "TUPLE2": lambda machine, _: machine.push_tuple(2),
    "TUPLE3": lambda machine, _: machine.push_tuple(3),
    "TUPLE": lambda machine, _: machine.push_tuple(None),
    "BINPUT": _Machine.remember,
    "LONG_BINPUT": _Machine.remember,
    "BINGET": _Machine.recall,
    "LONG_BINGET": _Machine.recall,
    "APPENDS": lambda machine, _: machine.append_all(),
    "SETITEMS": lambda machine, _: machine.set_all(),
    "GLOBAL": _Machine.push_name,
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.build(),
}
