"""Ways to damage a file: its bytes, and what formats are made of."""

import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import yaml

WORDS = (
    *(b"null", b"true", b"[]", b"{}", b"-1", b"0", b"1e999", b"NaN", b"-0.0", b'""'),
    *(b'"\\ud800"', b"\xff", b"\x00", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\r", b"'"),
    *(b"9" * 25, b"9" * 5000, b"[" * 3000, b"{" * 3000, b"- " * 2000, b"a" * 70_000),
    *(b"//[x", b"../..", b"C:\\", b"\x1b[2J", b"0001-01-01T00:00:00+14:00", b"&a [*a]"),
)
"""What parsers trip over, put into a file anywhere."""

NUMBERS = (0, 1, 2, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5),
    *(float("inf"), float("nan"), "", "a", "\ud800", "\0", "x" * 5000, "9" * 5000),
    *([], {}, [[]], [None], [0] * 1000, {"": ""}, {"name": None}, ["a", "a"]),
    *("//[x", "0001-01-01T00:00:00+14:00", "wrn-28-99999999999999999999", "os:system"),
)

Mutation = Callable[[bytes, Random], bytes]
"""Makes a damaged file of a good one."""


@dataclass(frozen=True)
class Target:
    """A parser, and what it is fed with."""

    name: str
    files: Mapping[str, bytes]
    """A whole folder that is read without complaint."""
    damaged: Mapping[str, tuple[Mutation, ...]]
    """Which of the files are damaged, and how besides byte by byte."""
    read: Callable[[Path], object]
    """Reads the folder."""


def damaged_bytes(content: bytes, random: Random) -> bytes:
    """Change a few bytes, numbers or stretches of a file."""
    found = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        random.choice(_CHANGES)(found, random)
    return bytes(found)


def _place(found: bytearray, random: Random) -> int:
    return random.randrange(len(found) + 1)


def _bit(found: bytearray, random: Random) -> None:
    if found:
        found[random.randrange(len(found))] ^= 1 << random.randrange(8)


def _byte(found: bytearray, random: Random) -> None:
    if found:
        found[random.randrange(len(found))] = random.choice((0, 255, *b'[]{}",:\n-9'))


def _number(found: bytearray, random: Random) -> None:
    layout = random.choice(("<I", ">I", "<H", ">H", "<Q"))
    size, place = struct.calcsize(layout), _place(found, random)
    value = random.choice(NUMBERS) % 256**size
    found[place : place + size] = struct.pack(layout, value)


def _cut(found: bytearray, random: Random) -> None:
    place = _place(found, random)
    del found[place : place + random.choice((1, 8, 100, len(found)))]


def _copy(found: bytearray, random: Random) -> None:
    start, place = _place(found, random), _place(found, random)
    piece = found[start : start + random.choice((1, 10, 100))]
    found[place:place] = piece * random.choice((1, 2, 1000))


def _word(found: bytearray, random: Random) -> None:
    place = _place(found, random)
    found[place : place + random.choice((0, 1, 5))] = random.choice(WORDS)


def _digits(found: bytearray, random: Random) -> None:
    numbers = list(re.finditer(rb"\d+", found))
    if numbers:
        one = random.choice(numbers)
        found[one.start() : one.end()] = random.choice(WORDS)


_CHANGES = (_bit, _byte, _number, _cut, _copy, _word, _digits)


def damaged_value(value: Any, random: Random) -> Any:
    """Replace, remove or repeat something inside lists and dictionaries."""
    if not isinstance(value, dict | list) or not value or random.random() < 0.2:
        return random.choice(VALUES)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key, copy = random.choice(keys), value.copy()
    deed = random.random()
    if deed < 0.2:
        del copy[key]
    elif deed < 0.3 and isinstance(copy, list):
        copy.insert(key, copy[key])
    elif deed < 0.3:
        copy[random.choice(("", "x", "name", "label"))] = copy[key]
    else:
        copy[key] = damaged_value(copy[key], random)
    return copy


def damaged_json(content: bytes, random: Random) -> bytes:
    """Change what a JSON text says, and leave it one."""
    value = damaged_value(json.loads(content), random)
    return json.dumps(value).encode()


def damaged_json_lines(content: bytes, random: Random) -> bytes:
    """Change what a line of JSON says."""
    lines = content.splitlines()
    number = random.randrange(len(lines))
    lines[number] = damaged_json(lines[number], random)
    return b"\n".join(lines) + b"\n"


def damaged_yaml(content: bytes, random: Random) -> bytes:
    """Change what a YAML text says, and leave it one."""
    value = damaged_value(yaml.safe_load(content), random)
    return yaml.safe_dump(value).encode("utf-8", "surrogatepass")


def damaged_zip(content: bytes, random: Random) -> bytes:
    """Change a member of an archive and pack it again, checksums and all."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        members = {one.filename: old.read(one) for one in old.infolist()}
    name = random.choice(list(members))
    members[name] = damaged_bytes(members[name], random)
    with zipfile.ZipFile(made, "w", random.choice((0, 8))) as new:
        for one, inside in members.items():
            new.writestr(one, inside)
    return made.getvalue()


def damaged_gzip(content: bytes, random: Random) -> bytes:
    """Change what is compressed."""
    return gzip.compress(damaged_bytes(gzip.decompress(content), random), 1)


def damaged_png(content: bytes, random: Random) -> bytes:
    """Change a chunk, and let its checksum be right."""
    chunks, place = [], 8
    while place < len(content):
        size = int.from_bytes(content[place : place + 4], "big")
        chunks.append((content[place + 4 : place + 8], content[place + 8 :][:size]))
        place += 12 + size
    number = random.randrange(len(chunks))
    name, body = chunks[number]
    chunks[number] = (name, damaged_bytes(body, random))
    if random.random() < 0.2:
        chunks.insert(random.randrange(len(chunks)), random.choice(chunks))
    return content[:8] + b"".join(
        struct.pack(">I", len(body))
        + name
        + body
        + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )


def damaged_safetensors(content: bytes, random: Random) -> bytes:
    """Change what the header says of the tensors."""
    size = int.from_bytes(content[:8], "little")
    header = damaged_json(content[8 : 8 + size], random)
    return struct.pack("<Q", len(header)) + header + content[8 + size :]


def json_lines(rows: list[dict[str, Any]]) -> bytes:
    """Return rows as a line of JSON each."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
