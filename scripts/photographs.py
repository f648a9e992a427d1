"""Real photographs with classes, for pictures and the film of the labeling page.

They come from GCompris, in Debian's package ``gcompris-qt-data`` (``apt-get download
gcompris-qt-data``). Only those are taken whose authors are named there, and gave them
to the public or under a Creative Commons license.
"""

import io
import random
import re
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from PIL import Image

KINDS = ("animal", "building", "fish", "power", "tool")
PLACES = {
    "explore_farm_animals/resource/animals": "animal",
    "explore_world_animals/resource/animals": "animal",
    "erase/resource": "animal",
    "categorization/resource/images/monuments": "building",
    "explore_monuments/resource": "building",
    "categorization/resource/images/fishes": "fish",
    "categorization/resource/images/renewable": "power",
    "categorization/resource/images/tools": "tool",
}
FREE = re.compile(r"public-domain|CC0|CC-BY(-SA)?-[1-4]\.\d")
LEAST = 150  # pixels of the shorter side


def photographs(package: Path, folder: Path) -> tuple[dict[str, int], str]:
    """Write each photograph twice, whole and from nearby, in a random order.

    Args:
        package: The file of the Debian package.
        folder: Where to write them; it is made.

    Returns:
        The class of each by its name, and who made them: a line each.
    """
    folder.mkdir()
    images, sources = list[tuple[Image.Image, str]](), []
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["dpkg-deb", "-x", package, place], check=True)
        known = next(Path(place).rglob("copyright")).read_text("utf-8")
        licenses = [*licensed(known)]
        found = {
            path.partition("activities/")[2]: content
            for archive in sorted(Path(place).rglob("*.rcc"))
            for path, content in files_of(archive.read_bytes())
        }
    for path in sorted(found):
        kind = next((PLACES[each] for each in PLACES if path.startswith(each)), None)
        source = next((line for name, line in licenses if fnmatch(path, name)), None)
        if kind is None or source is None or found[path][:4] != b"RIFF":
            continue
        try:
            image = Image.open(io.BytesIO(found[path])).convert("RGB")
        except OSError:
            continue  # a sound
        wide, high = image.size
        if min(wide, high) >= LEAST:
            near = (wide * 0.16, high * 0.16, wide * 0.84, high * 0.84)
            images += [(image, kind), (image.resize((wide, high), box=near), kind)]
            sources.append(f"{Path(path).stem}: {source}")
    random.Random(0).shuffle(images)
    truth = {}
    for number, (image, kind) in enumerate(images, 1000):
        image.save(folder / f"IMG_{number}.jpg", quality=93)
        truth[f"IMG_{number}.jpg"] = KINDS.index(kind)
    return truth, "\n".join(sorted(sources)) + "\n"


def licensed(text: str) -> Iterator[tuple[str, str]]:
    """Yield patterns of paths with author, license and origin, from Debian's file."""
    for block in text.split("\n\n"):
        fields = dict(re.findall(r"^(\w+):\s*(.*(?:\n[ \t]+.*)*)", block, re.MULTILINE))
        if "Files" in fields and FREE.fullmatch(fields.get("License", "").strip()):
            words = [fields[key] for key in ("Copyright", "License", "Comment")
                     if key in fields]  # fmt: skip
            line = ", ".join(" ".join(word.split()) for word in words)
            for path in fields["Files"].split():
                # The package holds WebP files that were made of those.
                name = path.partition("activities/")[2]
                yield re.sub(r"\.(jpe?g|png|webp)$", ".webp", name), line


def files_of(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield paths and contents of a resource file of Qt."""
    version, tree, data, names = struct.unpack(">4I", archive[4:20])
    size = 14 if version == 1 else 22

    def walk(node: int, folder: str) -> Iterator[tuple[str, bytes]]:
        start = tree + node * size
        name_at, flags = struct.unpack_from(">IH", archive, start)
        (length,) = struct.unpack_from(">H", archive, names + name_at)
        begin = names + name_at + 6
        name = archive[begin : begin + 2 * length].decode("utf-16-be") if node else ""
        path = f"{folder}/{name}"
        if flags & 2:
            count, child = struct.unpack_from(">II", archive, start + 6)
            for place in range(child, child + count):
                yield from walk(place, path)
            return
        (at,) = struct.unpack_from(">I", archive, start + 10)
        (length,) = struct.unpack_from(">I", archive, data + at)
        content = archive[data + at + 4 : data + at + 4 + length]
        yield path, zlib.decompress(content[4:]) if flags & 1 else content

    yield from walk(0, "")
