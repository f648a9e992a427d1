"""Folders, manifests, tables and tar files hold the same images."""

import io
import tarfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.data.pictures import save
from tests.models.bulk.here import Here, rows, work

from fewlabels.errors import DataError


@pytest.fixture
def images(tmp_path):
    """Six images in two folders."""
    return [
        save(tmp_path / "images" / f"{number % 2}" / f"{number}.png", number)
        for number in range(6)
    ]


def embedded(source, tmp_path, **options):
    """Return the rows of a source by id, and what could not be read."""
    done = work(source, tmp_path / "out", **options).run(Here())
    return rows(tmp_path / "out"), {one.name: one.reason for one in done.unreadable}


@pytest.fixture
def wanted(images, tmp_path):
    """The rows of the images by file name."""
    done = work(tmp_path / "images", tmp_path / "wanted")
    done.run(Here())
    return {name.split("/")[1]: row for name, row in rows(tmp_path / "wanted").items()}


def are_wanted(found, wanted):
    return all(np.array_equal(row, wanted[name]) for name, row in found.items())


def add(tar, name, content, **facts):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for fact, value in facts.items():
        setattr(info, fact, value)
    tar.addfile(info, io.BytesIO(content))


def test_a_manifest_says_which(images, wanted, tmp_path):
    manifest = tmp_path / "images" / "some.csv"
    manifest.write_text("file_name,label\n1/3.png,cat\n0/2.png,\n")
    found, left = embedded(manifest, tmp_path)
    assert list(found) == ["0/2.png", "1/3.png"]
    assert are_wanted({k.split("/")[1]: v for k, v in found.items()}, wanted)
    assert not left


def test_tar_files_of_a_folder_are_read_where_their_images_are(
    images, wanted, tmp_path
):
    (tmp_path / "tars").mkdir()
    for number in range(2):
        with tarfile.open(tmp_path / "tars" / f"{number}.tar", "w") as tar:
            for path in images[3 * number : 3 * number + 3]:
                add(tar, path.name, path.read_bytes())
                add(tar, path.with_suffix(".cls").name, b"1")
            add(tar, "../away.png", b"x")
            add(tar, "link.png", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd")
            add(tar, "empty.png", b"")
    found, left = embedded(tmp_path / "tars", tmp_path, shard_size=2)
    assert list(found)[:2] == ["0.tar/0.png", "0.tar/1.png"]
    assert len(found) == 6
    assert are_wanted({k.split("/")[1]: v for k, v in found.items()}, wanted)
    assert set(left) == {
        f"{n}.tar/{name}" for n in (0, 1) for name in ("../away.png", "empty.png")
    }


def test_a_tar_file_that_is_cut_off_loses_its_end_alone(images, wanted, tmp_path):
    whole = tmp_path / "whole.tar"
    with tarfile.open(whole, "w") as tar:
        for path in images:
            add(tar, path.name, path.read_bytes())
        add(tar, "huge.png", b"x" * 100_000)
    content = whole.read_bytes()
    made = work(whole, tmp_path / "out")
    whole.write_bytes(content[:-60_000])
    done = made.run(Here())
    assert done.num_rows == 6
    assert [one.name for one in done.unreadable] == ["whole.tar/huge.png"]


def test_a_compressed_tar_file_is_refused(tmp_path):
    file = tmp_path / "packed.tar"
    with tarfile.open(file, "w:gz") as tar:
        add(tar, "a.png", b"x")
    with pytest.raises(DataError, match="damaged or compressed"):
        work(file, tmp_path / "out")


@pytest.mark.parametrize("is_struct", [True, False])
def test_a_table_holds_images(is_struct, images, wanted, tmp_path):
    held = [path.read_bytes() for path in images]
    cells = [{"bytes": one, "path": None} for one in held] if is_struct else held
    table = pa.table({"image": [*cells, None], "id": [*(p.name for p in images), "x"]})
    file = tmp_path / "images.parquet"
    parquet.write_table(table, file, row_group_size=4)
    found, left = embedded(file, tmp_path, shard_size=3)
    assert list(found) == [path.name for path in images]
    assert are_wanted(found, wanted)
    assert left == {"x": "empty, or not whole"}


def test_images_of_tables_without_names_go_by_their_place(images, wanted, tmp_path):
    (tmp_path / "tables").mkdir()
    for number in range(2):
        part = [path.read_bytes() for path in images[3 * number : 3 * number + 3]]
        file = tmp_path / "tables" / f"{number}.parquet"
        parquet.write_table(pa.table({"png": part}), file)
    found, _ = embedded(tmp_path / "tables", tmp_path, shard_size=2)
    names = [f"{number}.parquet:{place}" for number in range(2) for place in range(3)]
    assert list(found) == names
    places = {f"{n}.png": found[name] for n, name in enumerate(names)}
    assert are_wanted(places, wanted)


def test_a_table_without_images_is_a_manifest(images, tmp_path):
    file = tmp_path / "images" / "table.parquet"
    parquet.write_table(pa.table({"file_name": ["0/0.png", "gone.png"]}), file)
    found, left = embedded(file, tmp_path)
    assert list(found) == ["0/0.png"]
    assert left == {"gone.png": "not found"}


def test_damaged_tables_are_told(tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match=r"bad\.parquet' cannot be read"):
        work(tmp_path / "bad.parquet", tmp_path / "out")


@pytest.mark.parametrize("name", ["nowhere", "file.txt"])
def test_nothing_to_embed(name, tmp_path):
    (tmp_path / "file.txt").write_text("text")
    with pytest.raises(DataError, match="nothing to embed"):
        work(tmp_path / name, tmp_path / "out")


def test_no_image_at_all(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "photo.heic").write_bytes(b"x")
    with pytest.raises(DataError, match=r"no image.* 1 cannot be read.*heic"):
        work(tmp_path / "images", tmp_path / "out")
