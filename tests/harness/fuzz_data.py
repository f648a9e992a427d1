"""Files of data for the fuzzer: arrays, images, tables of files."""

import gzip
import io
import struct
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image
from pyarrow import parquet
from tests.harness import fuzz_mutations as mutations
from tests.harness.fuzz_mutations import Mutation, Target, json_lines

from fewlabels.data import load
from fewlabels.data.decode import decode, inspect, inspect_with_thumbnail
from fewlabels.data.official import read_idx

Files = dict[str, bytes]
"""Files of a folder by name."""


def data_targets() -> tuple[Target, ...]:
    """Return all that read data."""
    return (*_arrays(), *_images(), *_tables())


def _pixels(*shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(7).integers(0, 256, shape, dtype=np.uint8)


def _arrays() -> list[Target]:
    def npz(**arrays: Any) -> Files:
        made = io.BytesIO()
        np.savez_compressed(made, **arrays)
        return {"a.npz": made.getvalue()}

    images = _pixels(6, 5, 5)
    words = np.array(["cat", "dog"] * 3)
    several = {
        "images": npz(x_train=images, y_train=words, x_test=images, y_test=words),
        "numbers": npz(x_train=images, y_train=np.arange(6, dtype=np.uint8)),
        "vectors": npz(x_train=np.eye(6, dtype=np.float32), classes=words[:2]),
    }
    damage = {"a.npz": (mutations.damaged_zip,) * 3}
    idx = b"\0\0\x08\x03" + struct.pack(">3I", 6, 5, 5) + images.tobytes()
    return [
        *(
            Target(f"npz of {name}", made, damage, lambda f: load(f / "a.npz"))
            for name, made in several.items()
        ),
        Target("idx", {"a": idx}, {"a": ()}, lambda f: read_idx(f / "a", 3)),
        Target(
            "idx, zipped",
            {"a.gz": gzip.compress(idx)},
            {"a.gz": (mutations.damaged_gzip,) * 2},
            lambda f: read_idx(f / "a.gz", 3),
        ),
    ]


def _images() -> list[Target]:
    found = []
    colored, grey = Image.fromarray(_pixels(12, 9, 3)), Image.fromarray(_pixels(12, 9))
    exif = Image.Exif()
    exif[0x0112] = 6
    deep = Image.fromarray(_pixels(12, 18).view("<u2"))
    clear = colored.convert("RGBA")
    for name, image, options in (
        ("png", grey, {}),
        ("png", deep, {}),
        ("png", clear, {"exif": exif}),
        ("png", colored.quantize(8), {"transparency": 3}),
        ("jpeg", colored, {"exif": exif}),
        ("jpeg", colored, {"progressive": True}),
        ("webp", clear, {"lossless": True}),
        ("bmp", colored, {}),
        ("gif", colored, {}),
        ("tiff", colored, {"compression": "tiff_lzw"}),
        ("tiff", deep, {}),
        ("ppm", colored, {}),
    ):
        made = io.BytesIO()
        image.save(made, format=name, **options)
        damage = (mutations.damaged_png,) * 2 if name == "png" else ()
        files = {"image": made.getvalue()}
        told = f"{name} ({image.mode})"
        found.append(Target(told, files, {"image": damage}, _see))
    return found


def _see(folder: Path) -> object:
    path = folder / "image"
    inspect_with_thumbnail("image", path, 16)
    return decode(inspect("image", path), (3, 16, 16))


def _tables() -> list[Target]:
    made = io.BytesIO()
    grey = Image.fromarray(_pixels(12, 9))
    grey.save(made, format="png")
    rows = [
        {"file_name": f"{name}.png", "label": label, "split": split}
        for name, label, split in (
            ("a", "cat", "train"),
            ("b", "dog", "train"),
            ("c", "cat", "test"),
        )
    ]
    files = {row["file_name"]: made.getvalue() for row in rows}
    lines = ["file_name,label,split", *(",".join(row.values()) for row in rows)]
    table = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), table)
    tables: dict[str, tuple[bytes, tuple[Mutation, ...]]] = {
        "t.csv": ("\n".join(lines).encode(), ()),
        "t.jsonl": (json_lines(rows), (mutations.damaged_json_lines,) * 2),
        "t.parquet": (table.getvalue(), ()),
    }
    return [
        Target(name, {**files, name: content}, {name: damage}, partial(_load, name))
        for name, (content, damage) in tables.items()
    ]


def _load(name: str, folder: Path) -> object:
    return load(folder / name, test_share=0.5)
