"""Checksums in files of JSON, so that damage is noticed before it is believed.

A sealed object ends with a field ``"checksum"``: a hash of all the text before it. One
letter of an id or one digit of a result that changes on the disk would else be read as
if it had been written. Whoever changes such a file on purpose removes the field.
"""

import re
from hashlib import sha256

FIELD = "checksum"
"""The last field of a sealed object."""

_LENGTH = 16
_LONGEST = 80  # characters that a seal takes, with some blanks
_END = re.compile(rf',\s*"{FIELD}": "([0-9a-f]{{{_LENGTH}}})"\s*}}\s*$', re.ASCII)


def sealed(text: str) -> str:
    """Return the text of a JSON object, indented or not, with a checksum at its end.

    Example:
        >>> sealed('{"step": 0}')
        '{"step": 0, "checksum": "566b58ce7230c2ca"}'
    """
    inner = text.rstrip()[:-1].rstrip()
    is_indented = "\n" in inner
    before, after = (",\n  ", "\n}") if is_indented else (", ", "}")
    ending = text[len(text.rstrip()) :]
    return f'{inner}{before}"{FIELD}": "{_hash(inner)}"{after}{ending}'


def opened(content: str | bytes) -> str:
    """Return a JSON object without its checksum, if it has one.

    One that is not the object that was sealed raises :class:`ValueError`.
    """
    text = content.decode("utf-8") if isinstance(content, bytes) else content
    end = _END.search(text, max(0, len(text) - _LONGEST))
    if end is None:
        if f'"{FIELD}"' in text[-_LONGEST:]:
            raise ValueError("its checksum cannot be read")
        return text
    if _hash(text[: end.start()]) != end[1]:
        raise ValueError("its checksum does not fit what it says")
    return text[: end.start()] + "}"


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_LENGTH]
