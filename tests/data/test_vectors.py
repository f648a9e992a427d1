"""Rows that somebody brings: read, checked, and matched with items."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image
from pyarrow import parquet
from tests.data.pictures import save

from fewlabels import data
from fewlabels.data.derived import row_contents, row_digest
from fewlabels.data.untrusted import natural_key
from fewlabels.data.vectors import Vectors
from fewlabels.errors import DataError, FewlabelsError
from fewlabels.models.bulk import write_shard
from fewlabels.pool import ArrayImages, MappedRows

ROWS = np.arange(12, dtype=np.float64).reshape(4, 3) / 7
NAMES = ["a/1.png", "a/2.png", "b/1.png", "b/30.png"]


def table(place, **columns):
    parquet.write_table(pa.table(columns), place)


def as_lists(rows, kind=None):
    return pa.array(np.asarray(rows).tolist(), kind or pa.list_(pa.float64()))


def in_columns(rows):
    return {f"f{n}": rows[:, n] for n in range(rows.shape[1])}


WRITTEN = {
    "lists.parquet": lambda p: table(p, file_name=NAMES, vector=as_lists(ROWS)),
    "fixed.parquet": lambda p: table(
        p, vector=as_lists(ROWS, pa.list_(pa.float32(), 3)), name=NAMES
    ),
    "columns.parquet": lambda p: table(
        p, what=NAMES, label=[0, 1, 0, 1], **in_columns(ROWS)
    ),
    "folded.parquet": lambda p: table(
        p, path=pa.array(NAMES).dictionary_encode(), embedding=as_lists(ROWS)
    ),
    "named.npz": lambda p: np.savez(p, names=np.array(NAMES), x=ROWS),
    "usual.npz": lambda p: np.savez(p, names=np.array(NAMES), x=ROWS.T, rows=ROWS),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_every_form_holds_the_same(tmp_path, name):
    WRITTEN[name](tmp_path / name)
    found = Vectors.read(tmp_path / name)
    assert found.names == tuple(NAMES)
    assert found.rows.dtype == torch.float32
    np.testing.assert_allclose(found.rows, ROWS, rtol=1e-6)
    order = [2, 0, 3]
    assert found.of([]).shape == (0, 3)
    chosen = found.of([NAMES[number] for number in order])
    np.testing.assert_allclose(chosen, ROWS[order], rtol=1e-6)


def test_rows_without_names_go_by_the_natural_order_of_items(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    found = Vectors.read(tmp_path / "rows.npy")
    assert found.names is None
    items = ["10.png", "9.png", "x.png", "2.png"]
    np.testing.assert_allclose(found.of(items), ROWS[[2, 1, 3, 0]], rtol=1e-6)


def slow_place(name, names, wanted):
    """The row of an item, by its definition; None: there is none."""
    if name in names:
        return names.index(name)
    last = name.split("/")[-1]
    alike = [n for n, one in enumerate(names) if one.split("/")[-1] == last]
    rivals = [one for one in wanted if one.split("/")[-1] == last]
    if len(alike) != 1 or len(rivals) != 1:
        return None
    ends = zip(names[alike[0]].split("/")[::-1], name.split("/")[::-1], strict=False)
    return alike[0] if all(one == other for one, other in ends) else None


SHORT = st.sampled_from(["a/1", "b/1", "1", "c/2", "2", "a/b/3", "3", "d/4"])


@given(
    names=st.lists(SHORT, min_size=1, unique=True),
    wanted=st.lists(SHORT, min_size=1, unique=True),
)
@example(names=["cats/1"], wanted=["dogs/1"])
@example(names=["x/a/1"], wanted=["a/1"])
@example(names=["1"], wanted=["a/1"])
def test_names_match_by_path_or_by_an_end_whose_last_part_is_unique(names, wanted):
    rows = torch.arange(len(names), dtype=torch.float32)[:, None]
    vectors = Vectors(None, rows, tuple(names))
    places = [slow_place(name, names, wanted) for name in wanted]
    if None in places:
        message = f"{places.count(None)} of {len(wanted)} items have no row"
        with pytest.raises(FewlabelsError, match=message):
            vectors.of(wanted)
    else:
        assert vectors.of(wanted)[:, 0].tolist() == places


BAD = ROWS.copy()
BAD[2, 1] = np.nan
FAULTS = {
    "nan.npy": (lambda p: np.save(p, BAD), "1 of 4 rows.*first at index 2;"),
    "nan.npz": (
        lambda p: np.savez(p, names=np.array(NAMES), x=BAD),
        "1 of 4 rows.*first at index 2;",
    ),
    "large.npy": (lambda p: np.save(p, ROWS * 1e300), "as float32"),
    "flat.npy": (lambda p: np.save(p, ROWS[0]), r"shape \(3,\)"),
    "none.npy": (lambda p: np.save(p, ROWS[:0]), r"shape \(0, 3\)"),
    "words.npy": (lambda p: np.save(p, np.array([["a"]])), "save rows of numbers"),
    "objects.npy": (
        lambda p: np.save(p, np.array([[{}]]), allow_pickle=True),
        "not a whole array without objects",
    ),
    "cut.npy": (lambda p: p.write_bytes(b"\x93NUMPY\x01"), "not a whole array"),
    "cut.parquet": (lambda p: p.write_bytes(b"PAR1"), "cannot be read"),
    "rows.csv": (lambda p: p.write_text("1,2"), ".npy, .npz, .parquet"),
    "gone.npy": (lambda p: None, "There is no file"),
    "twice.npz": (
        lambda p: np.savez(p, names=np.array([*NAMES[:3], "a/1.png"]), x=ROWS),
        "'a/1.png' is there 2 times",
    ),
    "alike.npz": (
        lambda p: np.savez(p, names=np.array([*NAMES[:3], ".\\a/1.png"]), x=ROWS),
        "'a/1.png' is there 2 times",
    ),
    "few.npz": (
        lambda p: np.savez(p, names=np.array(NAMES[:3]), x=ROWS),
        "3 entries; give 4, one per row",
    ),
    "two.npz": (lambda p: np.savez(p, x=ROWS, y=ROWS), r"x \(4, 3\), y \(4, 3\)"),
    "empty.npz": (
        lambda p: np.savez(p, names=np.array(["a", "", "", "b"]), x=ROWS),
        "Row 2 of .*no usable name",
    ),
    "ragged.parquet": (
        lambda p: table(p, v=pa.array([[1.0, 2.0], [1.0]])),
        "row 2 has 1 numbers, not 2",
    ),
    "missing.parquet": (
        lambda p: table(p, v=pa.array([[1.0, None], [1.0, 2.0]])),
        "1 of 2 rows",
    ),
    "null.parquet": (
        lambda p: table(p, v=pa.array([[1.0], None])),
        "row 2 has 0 numbers",
    ),
    "called.parquet": (
        lambda p: parquet.write_table(pa.table([[1.0], [2.0]], ["x", "x"]), p),
        "columns x \\(double\\), x",
    ),
    "unnamed.parquet": (
        lambda p: table(p, file_name=["a", None], v=pa.array([[1.0], [2.0]])),
        "Row 2 of .*no usable name",
    ),
    "texts.parquet": (
        lambda p: table(p, a=["x"], b=["y"], v=[1.0]),
        "columns a \\(string\\), b",
    ),
    "lists.parquet": (
        lambda p: table(p, a=pa.array([[1.0]]), b=pa.array([[1.0]])),
        "columns a .*, b",
    ),
    "nothing.parquet": (lambda p: table(p, a=["x"]), "columns a \\(string\\)\\. Give"),
    "inner.parquet": (lambda p: table(p, a=pa.array([["x"]])), "not lists of numbers"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_is_said_with_numbers(tmp_path, name):
    write, message = FAULTS[name]
    write(tmp_path / name)
    with pytest.raises(FewlabelsError, match=message):
        Vectors.read(tmp_path / name)


def test_a_long_name_that_is_repeated_is_not_unfolded(tmp_path):
    table(tmp_path / "t.parquet", file_name=["x" * 10**5] * 200, v=np.zeros(200))
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counting)
    tracemalloc.start()
    try:
        with pytest.raises(FewlabelsError, match=r"Row 1 of .*no usable name"):
            Vectors.read(tmp_path / "t.parquet")
        most = counting.max_memory(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert max(most) < 4 * 10**6


@pytest.mark.parametrize("write", [as_lists, None])
def test_numbers_that_are_repeated_are_not_unfolded_to_any_number_of_bytes(
    tmp_path, monkeypatch, write
):
    rows = np.zeros((3000, 20))
    path = tmp_path / "t.parquet"
    table(path, **({"v": write(rows)} if write else in_columns(rows)))
    assert Vectors.read(path).rows.shape == rows.shape
    monkeypatch.setattr("fewlabels.data.untrusted.UNPACKED_BYTES", 10**5)
    with pytest.raises(FewlabelsError, match="would unpack to 264,000 bytes"):
        Vectors.read(path)


def test_rows_without_names_must_be_as_many_as_items(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    found = Vectors.read(tmp_path / "rows.npy")
    with pytest.raises(FewlabelsError, match=r"4 rows without names.*are 3 items"):
        found.of(["a", "b", "c"])


def test_a_folder_is_loaded_as_rows_in_the_pool_and_to_measure_on(tmp_path):
    names = [f"{kind}/{n}.png" for kind in ("cat", "dog") for n in range(8)]
    for number, name in enumerate(names):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("L", (4, 4), 9 * number).save(tmp_path / name)
    rows = np.arange(32, dtype=np.float32).reshape(16, 2)
    order = np.random.default_rng(0).permutation(16)
    file = tmp_path / "rows.npz"
    np.savez(file, names=np.array(names)[order], rows=rows[order])
    plain = data.load(tmp_path)
    pool = data.load(tmp_path, vectors=file)
    assert (pool.ids, pool.images.shape) == (plain.ids, (2,))
    for ids, images in ((pool.ids, pool.images), (pool.test.ids, pool.test.images)):
        paths = [one.rpartition("@")[0] for one in ids]
        expected = [rows[names.index(path)].tolist() for path in paths]
        assert images.read(torch.arange(len(images))).tolist() == expected
    np.save(tmp_path / "rows.npy", rows)
    assert sorted(names, key=natural_key) == names
    again = data.load(tmp_path, vectors=tmp_path / "rows.npy")
    assert torch.equal(again.images.items, pool.images.items)


def test_rows_of_a_named_set_are_those_of_the_pool_and_then_of_its_test(tmp_path):
    rows = np.arange(1797, dtype=np.float32)[:, None]
    np.save(tmp_path / "rows.npy", rows)
    pool = data.load("digits", vectors=tmp_path / "rows.npy")
    assert pool.images.items[-1].item() == 1296
    assert pool.test.images.items[0].item() == 1297
    np.save(tmp_path / "rows.npy", rows[1:])
    with pytest.raises(FewlabelsError, match=r"1796 rows.*are 1797 items"):
        data.load("digits", vectors=tmp_path / "rows.npy")


def test_what_rows_hold_is_told_by_blocks_and_of_images_by_their_ids():
    rows = torch.rand(5000, 2)
    blocks = list(row_contents(ArrayImages(rows)))
    assert b"".join(blocks) == rows.numpy().tobytes()
    assert len(blocks) > 1
    assert row_digest(ArrayImages(rows)) != row_digest(ArrayImages(rows.flip(0)))
    images = ArrayImages(torch.zeros(3, 1, 2, 2, dtype=torch.uint8))
    assert (list(row_contents(images)), row_digest(images)) == ([], "")


def test_shards_stay_in_a_file_and_are_found_by_name(tmp_path):
    (tmp_path / "images").mkdir()
    for number in range(6):
        save(tmp_path / "images" / f"{number}.png", number)
    rows = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    ids = [f"{number}.png" for number in reversed(range(6))]
    folder = tmp_path / "shards"
    folder.mkdir()
    write_shard(folder / "0.parquet", ids[:4], rows[:4], "", ())
    write_shard(folder / "1.parquet", ids[4:], rows[4:], "", ())
    pool = data.load(tmp_path / "images", vectors=folder)
    assert isinstance(pool.images.items, MappedRows)
    assert np.array_equal(pool.images.read(torch.arange(6)).numpy(), rows[::-1])
    (tmp_path / "images" / "0.png").rename(tmp_path / "images" / "new.png")
    with pytest.raises(DataError, match=r"1 of 6 items have no row.*'new\.png'"):
        data.load(tmp_path / "images", vectors=folder)
