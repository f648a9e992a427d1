"""Reading a folder of shards."""

import os

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.shards import clustered, lists, write_shards

from fewlabels.data import shards as module
from fewlabels.data.shards import Shards
from fewlabels.errors import DataError, NotFiniteError

ROWS, LOGITS = clustered(40)
LABELS = [number % 5 if number % 7 == 0 else None for number in range(40)]


def test_items_stand_in_the_order_of_files_and_rows(tmp_path):
    ids = write_shards(tmp_path, ROWS, 5, LOGITS, LABELS)
    shards = Shards.open(tmp_path)
    assert len(shards) == 40
    np.testing.assert_array_equal(shards.embeddings()[:].numpy(), ROWS)
    np.testing.assert_array_equal(shards.logits(), LOGITS)
    places, classes = shards.labels()
    assert places.tolist() == [0, 7, 14, 21, 28, 35]
    assert classes.tolist() == [0, 2, 4, 1, 3, 0]
    some = np.array([39, 0, 17, 17, 3])
    assert shards.ids(some) == [ids[place] for place in some]
    assert shards.positions([ids[31], ids[2]]).tolist() == [31, 2]


def test_what_is_not_there_is_not_read(tmp_path):
    write_shards(tmp_path, ROWS, 2)
    shards = Shards.open(tmp_path)
    assert shards.logits() is None
    assert [len(part) for part in shards.labels()] == [0, 0]


def test_rows_are_copied_once_and_again_after_a_change(tmp_path, monkeypatch):
    write_shards(tmp_path, ROWS, 2)
    Shards.open(tmp_path).embeddings()
    (first,) = (tmp_path / ".fewlabels").glob("*.npy")
    monkeypatch.setattr(Shards, "_copy", None)  # nobody may call it now
    Shards.open(tmp_path).embeddings()
    monkeypatch.undo()
    write_shards(tmp_path, ROWS[:30], 2)
    assert Shards.open(tmp_path).embeddings().shape == (30, 6)
    assert not first.exists()


def test_a_folder_for_reading_only_is_copied_into_the_cache(tmp_path, monkeypatch):
    folder = tmp_path / "shards"
    write_shards(folder, ROWS, 2)
    monkeypatch.setenv("FEWLABELS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module.os, "access", lambda path, mode: mode != os.W_OK)
    rows = Shards.open(folder).embeddings()
    np.testing.assert_array_equal(rows[:].numpy(), ROWS)
    assert not (folder / ".fewlabels").exists()


def test_a_copy_takes_room_only_as_it_is_written(tmp_path, monkeypatch):
    write_shards(tmp_path, ROWS, 2)
    sizes, read = [], module.list_column

    def look(*arguments):
        for part in read(*arguments):
            (partial,) = (tmp_path / ".fewlabels").glob(".*.partial")
            sizes.append(partial.stat().st_size)
            yield part

    monkeypatch.setattr(module, "list_column", look)
    Shards.open(tmp_path).embeddings()
    # Else a full disk would be noticed by the system, which ends the process.
    assert sizes[0] < ROWS.nbytes


def test_a_copy_that_was_interrupted_is_begun_again(tmp_path, monkeypatch):
    write_shards(tmp_path, ROWS, 2)
    read = module.list_column

    def interrupted(*arguments):
        yield next(read(*arguments))
        raise ZeroDivisionError

    monkeypatch.setattr(module, "list_column", interrupted)
    with pytest.raises(ZeroDivisionError):
        Shards.open(tmp_path).embeddings()
    monkeypatch.undo()
    rows = Shards.open(tmp_path).embeddings()
    np.testing.assert_array_equal(rows[:].numpy(), ROWS)


@pytest.mark.parametrize("num_rows", [3, 400])
def test_wide_rows_are_read_in_parts(tmp_path, monkeypatch, num_rows):
    monkeypatch.setattr("fewlabels.data.parquet._MOST_NUMBERS", 2**20)
    rows = np.zeros((num_rows, 20_000), dtype=np.float32)  # a small file, when packed
    write_shards(tmp_path, rows, 1)
    assert Shards.open(tmp_path).embeddings().shape == rows.shape


def table(**columns):
    return pa.table(columns)


NAMES = pa.array(["a", "b"])


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (table(id=NAMES), "embedding is missing"),
        (table(embedding=lists(ROWS[:2])), "id is missing"),
        (table(id=NAMES, embedding=NAMES), "string, not lists of numbers"),
        (table(id=NAMES, embedding=pa.array([1.0, 2.0])), "double, not lists"),
        (
            table(id=NAMES, embedding=pa.array([[1.0, 2.0], [1.0]])),
            "row 2 has 1 numbers, not 2",
        ),
        (table(id=NAMES, embedding=pa.array([[1.0], None])), "row 2 has 0 numbers"),
        (table(id=NAMES, embedding=lists(ROWS[:2, :3])), "have 6 numbers in .* 3"),
    ],
)
def test_shards_that_cannot_be_read_say_what_is_wrong(tmp_path, written, words):
    write_shards(tmp_path, ROWS, 1)
    parquet.write_table(written, tmp_path / "z.parquet")
    with pytest.raises(DataError, match=words):
        Shards.open(tmp_path).embeddings()


def test_numbers_that_are_lost_are_placed(tmp_path):
    rows = ROWS.copy()
    rows[33, 2] = np.nan
    write_shards(tmp_path, rows, 3)
    with pytest.raises(NotFiniteError, match="index 33"):
        Shards.open(tmp_path).embeddings()


def test_an_empty_folder(tmp_path):
    with pytest.raises(DataError, match=r"no \.parquet files"):
        Shards.open(tmp_path)


def test_ids_that_are_not_exactly_one_item(tmp_path):
    write_shards(tmp_path, ROWS, 2)
    twice = table(id=pa.array(["image-000003", "new"]), embedding=lists(ROWS[:2]))
    parquet.write_table(twice, tmp_path / "z.parquet")
    shards = Shards.open(tmp_path)
    with pytest.raises(
        DataError, match=r"2 of 3 ids .* 'image-000003' is there 2 times"
    ):
        shards.positions(["new", "image-000003", "nobody"])


def test_labels_are_class_numbers(tmp_path):
    columns = {"id": NAMES, "embedding": lists(ROWS[:2]), "label": NAMES}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"'label' in .* is string"):
        Shards.open(tmp_path).labels()
