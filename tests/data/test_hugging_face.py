"""Hugging Face data sets on this machine. Those in the folder beside are real ones.

They were saved by datasets 5.2: six images of 8 x 8 pixels, four PNG and two JPEG.
"""

import io
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from fewlabels.data import hugging_face
from fewlabels.data.hugging_face import unpack
from fewlabels.errors import DataError, UsageError

SAVED = Path(__file__).parent / "hugging_face"


@pytest.fixture
def place(tmp_path):
    shutil.copytree(SAVED, tmp_path / "sets")
    return tmp_path / "sets"


def names(folder):
    found = (one for one in folder.rglob("*") if one.is_file())
    return sorted(one.relative_to(folder).as_posix() for one in found)


NUMBERED = [f"{number:07d}.{'png' if number < 4 else 'jpg'}" for number in range(6)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("one", NUMBERED),
        ("hub", [f"train/{name}" for name in NUMBERED]),
        (
            "dict",
            ["test/0000000.jpg", "test/0000001.jpg"]
            + [f"train/000000{number}.png" for number in range(4)],
        ),
        ("dict@test", ["test/0000000.jpg", "test/0000001.jpg"]),
    ],
)
def test_images_of_every_kind_of_data_set_become_files(place, source, expected):
    folder, classes = unpack(f"hf-dataset:{place}/{source}")
    assert classes == ("even", "odd")
    assert folder == place / f"{source.replace('@', '-')}-images"
    assert names(folder) == expected
    for name in expected:
        with Image.open(folder / name) as image:
            assert image.size == (8, 8)


def test_the_bytes_are_those_of_the_data_set_and_are_written_once(place):
    table = parquet.read_table(place / "hub/data/train-00000-of-00001.parquet")
    contents = [cell["bytes"] for cell in table["image"].to_pylist()]
    folder, _ = unpack(f"hf-dataset:{place}/hub")
    assert [(folder / name).read_bytes() for name in names(folder)] == contents
    (folder / "train/0000000.png").unlink()
    assert unpack(f"hf-dataset:{place}/hub")[0] == folder
    assert len(names(folder)) == 5  # it is the user's folder by now


def test_other_sources_are_refused(place):
    with pytest.raises(UsageError, match="There is no folder"):
        unpack(f"hf-dataset:{place}/nothing")
    with pytest.raises(DataError, match="its splits: test, train"):
        unpack(f"hf-dataset:{place}/dict@valid")
    with pytest.raises(DataError, match="the split 'a/b'"):
        unpack(f"hf-dataset:{place}/dict@a/b")
    (place / "empty").mkdir()
    with pytest.raises(DataError, match="no Arrow or Parquet files"):
        unpack(f"hf-dataset:{place}/empty")


def saved(folder, cells, name="x.parquet", **columns):
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    folder.mkdir(exist_ok=True)
    table = pa.table({"picture": pa.array(cells, kind), **columns})
    parquet.write_table(table, folder / name)
    return f"hf-dataset:{folder}"


def png():
    out = io.BytesIO()
    Image.new("L", (4, 4)).save(out, "PNG")
    return out.getvalue()


def test_what_is_no_image_is_left_out_and_no_name_is_believed(tmp_path):
    cells = [
        {"bytes": b"<svg/>", "path": "../../evil.svg"},
        {"bytes": png(), "path": "../../evil.png"},
        {"bytes": None, "path": "/etc/passwd"},
        None,
        {"bytes": b"", "path": None},
    ]
    found = saved(tmp_path / "set", cells, "..-00000-of-00001.parquet")
    assert names(unpack(found)[0]) == ["0000001.png"]
    assert names(tmp_path) == [
        "set-images/0000001.png",
        "set/..-00000-of-00001.parquet",
    ]


def test_what_cannot_be_used_is_said_and_leaves_nothing(tmp_path, monkeypatch):
    none = saved(tmp_path / "none", [{"bytes": None, "path": "a.png"}])
    with pytest.raises(DataError, match="None of 1 rows for"):
        unpack(none)
    parquet.write_table(pa.table({"text": ["a"]}), tmp_path / "none/x.parquet")
    with pytest.raises(DataError, match=r"No column .* holds images: text"):
        unpack(none)
    for name in ("x.parquet", "x.arrow"):
        shutil.rmtree(tmp_path / "none")
        (tmp_path / "none").mkdir()
        (tmp_path / "none" / name).write_bytes(b"PAR1 is not enough")
        with pytest.raises(DataError, match="cannot be read"):
            unpack(none)
    monkeypatch.setattr(hugging_face, "_UNPACKED_BYTES", 1000)
    monkeypatch.setattr(hugging_face, "_UNPACKED_RATIO", 1)
    bomb = saved(tmp_path / "bomb", [{"bytes": png() * 50, "path": None}] * 500)
    with pytest.raises(DataError, match="larger than their files"):
        unpack(bomb)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bomb", "none"]


def test_a_damaged_arrow_file_is_refused(place):
    path = place / "one/data-00000-of-00002.arrow"
    whole = path.read_bytes()
    for cut in (10, 300, 1000):
        path.write_bytes(whole[:cut])
        with pytest.raises(DataError, match="cannot be read"):
            unpack(f"hf-dataset:{place}/one")
    assert not (place / "one-images").exists()
