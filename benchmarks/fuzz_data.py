"""Files of data for the fuzzer: arrays, CIFAR, images, tables of files."""

import gzip
import io
import struct
import tarfile
from dataclasses import replace
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks import fuzz_mutations as mutations
from benchmarks.fuzz_mutations import Mutation, Target, json_lines
from benchmarks.python2 import dumps
from numpy.typing import NDArray
from PIL import Image
from pyarrow import parquet

from fewlabels.data import load
from fewlabels.data.cifar import CIFAR10, read_cifar_folder
from fewlabels.data.decode import decode, inspect, inspect_with_thumbnail
from fewlabels.data.idx import read_idx

Files = dict[str, bytes]
"""Files of a folder by name."""


def data_targets() -> tuple[Target, ...]:
    """Return all that read data."""
    return (*_arrays(), *_cifar(), *_images(), *_tables())


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


def _cifar() -> list[Target]:
    meta = dumps({"num_cases_per_batch": 2, "label_names": ["cat", "dog"]})
    part = dumps({"labels": [1, 0], "data": _pixels(2, 3072), "filenames": ["a", "b"]})
    batches = dict.fromkeys((*CIFAR10.train, CIFAR10.test), part)
    folder = {
        f"{CIFAR10.folder}/{name}": content
        for name, content in {**batches, CIFAR10.meta: meta}.items()
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in folder.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    archive = {CIFAR10.archive: packed.getvalue()}
    first = f"{CIFAR10.folder}/data_batch_1"
    return [
        Target("CIFAR's names", folder, {f"{CIFAR10.folder}/batches.meta": ()}, _trust),
        Target("CIFAR's images", folder, {first: ()}, _trust),
        Target(
            "CIFAR, packed",
            archive,
            {CIFAR10.archive: (mutations.damaged_gzip,) * 2},
            _trust,
        ),
    ]


def _trust(folder: Path) -> object:
    """Read CIFAR as if what is there were the published files."""
    hashes = {
        path.name: md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
    return read_cifar_folder(folder, replace(CIFAR10, md5={**CIFAR10.md5, **hashes}))


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
