import json

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.data.pictures import save

from fewlabels.data.manifest import manifest_pool
from fewlabels.errors import (
    DataError,
    FewlabelsWarning,
    LabelError,
    UnreadableFilesWarning,
)

ROWS = [
    {"file_name": "a.png", "label": "dog", "split": "train"},
    {"file_name": "sub/b.png", "label": "cat", "split": None},
    {"file_name": "c.png", "label": None, "split": "train"},
    {"file_name": "d.png", "label": "cat", "split": "test"},
]


@pytest.fixture
def folder(tmp_path):
    for number, row in enumerate(ROWS):
        save(tmp_path / row["file_name"], number)
    return tmp_path


def written(path, rows):
    if path.suffix == ".csv":
        lines = [
            ",".join("" if c is None else str(c) for c in r.values()) for r in rows
        ]
        path.write_text("\n".join([",".join(rows[0]), *lines]), encoding="utf-8-sig")
    elif path.suffix == ".jsonl":
        path.write_text("\n\n".join(map(json.dumps, rows)))
    else:
        parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def loaded(path, **options):
    return manifest_pool(path, **{"size": None, "test_share": 0.2, **options})


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_all_kinds_say_the_same(folder, kind):
    pool = loaded(written(folder / f"table.{kind}", ROWS))
    assert pool.classes == ("cat", "dog")
    assert pool.labels.tolist() == [1, 0, -1]
    assert pool.candidates.tolist() == [2]
    assert pool.test.labels.tolist() == [0]
    assert pool.ids[1].startswith("sub/b.png@")


@pytest.mark.parametrize("column", ["path", "filename"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_numbers_are_labels_too(folder, kind, column):
    rows = [{column: "a.png", "label": 10}, {column: "c.png", "label": 9}]
    pool = loaded(written(folder / f"table.{kind}", rows), test_share=0)
    assert pool.classes == ("9", "10")
    assert pool.labels.tolist() == [1, 0]


def test_labels_are_left_alone_if_told_so(folder):
    pool = loaded(written(folder / "table.csv", ROWS), use_labels=False)
    assert pool.classes == ()
    assert len(pool) == 4


def test_missing_files_are_reported_like_broken_ones(folder):
    rows = [*ROWS, {"file_name": "gone.png", "label": "dog", "split": None}]
    with pytest.warns(UnreadableFilesWarning, match=r"gone\.png \(not found\)"):
        assert len(loaded(written(folder / "table.csv", rows))) == 3


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_capital_letters_in_columns_do_not_matter(folder, kind):
    rows = [{"File_Name": "a.png", " Label": "x", "SPLIT": "train"}]
    pool = loaded(written(folder / f"table.{kind}", rows), test_share=0)
    assert pool.classes == ("x",)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("column", "word"),
    [
        ("labels", "label"),
        ("lable", "label"),
        ("Label_ID", "label"),
        ("spilt", "split"),
    ],
)
def test_a_misspelt_column_is_pointed_out(folder, kind, column, word):
    rows = [{"file_name": "a.png", column: "train"}]
    message = f"a column '{column.lower()}' and none called '{word}'"
    with pytest.warns(FewlabelsWarning, match=message):
        pool = loaded(written(folder / f"table.{kind}", rows))
    assert pool.classes == ()


def test_a_label_nobody_asks_for_is_not_missed(folder):
    rows = [{"file_name": "a.png", "labels": "x"}]
    assert len(loaded(written(folder / "table.csv", rows), use_labels=False)) == 1


def test_a_parquet_table_without_files_names_its_columns(folder):
    path = written(folder / "table.parquet", [{"name": "a.png"}])
    with pytest.raises(DataError, match="has the columns name; it needs one of"):
        loaded(path)


@pytest.mark.parametrize("mark", ["\n", "\u2028", "\x85"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_names_with_line_ends_are_found(folder, kind, mark):
    name = f"x{mark}y.png"
    save(folder / name)
    text = f'file_name,label\n"{name}",cat\n'
    if kind == "jsonl":
        row = {"file_name": name, "label": "cat"}
        text = json.dumps(row, ensure_ascii=False) + "\n"
    (folder / f"table.{kind}").write_text(text, encoding="utf-8", newline="")
    pool = loaded(folder / f"table.{kind}", test_share=0)
    assert pool.ids[0].startswith(f"{name}@")


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_name_with_a_nul_is_reported(folder, kind):
    rows = [*ROWS, {"file_name": "n\0l.png", "label": "dog", "split": None}]
    message = r"n\\x00l\.png \(no file can have this name\)"
    with pytest.warns(UnreadableFilesWarning, match=message):
        assert len(loaded(written(folder / f"table.{kind}", rows))) == 3


def one(**cells):
    return [{"file_name": "a.png", "label": "x", "split": "train", **cells}]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (one(file_name="../a.png"), r"Row 1 of .* names '\.\./a\.png'.*not below"),
        (one(file_name="/etc/a.png"), "not below the manifest's folder"),
        (one(file_name="sub\\..\\..\\a.png"), "not below"),
        (one(file_name="C:\\a.png"), "not below"),
        (one(file_name=""), "names no file; fill in file_name"),
        (one(split="holdout"), "split 'holdout'; write one of train, test"),
        (one() * 2, r"Row 2 of .* names a\.png a second time"),
        ([{"name": "a.png"}], "has the columns name; it needs one of file_name"),
    ],
)
def test_wrong_rows_are_named(folder, rows, message):
    with pytest.raises(DataError, match=message):
        loaded(written(folder / "table.csv", rows))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.jsonl", b"{not json", "cannot be read"),
        ("t.jsonl", b"[1]", "not a JSON object"),
        ("t.jsonl", b'{"file_name": "a.png", "label": [1]}', r"\[1\] as label"),
        ("t.csv", b"\xff\xfe\x00", "cannot be read"),
        ("t.parquet", b"nothing", "cannot be read"),
        ("t.csv", b"file_name\n", r"t\.csv has no rows"),
        ("t.csv", b"", r"t\.csv has no rows"),
        ("t.jsonl", b"\n\n", r"t\.jsonl has no rows"),
        ("t.jsonl", b"[" * 100_000, "cannot be read"),
        ("t.jsonl", b'{"file_name": "a.png", "label": true}', "Row 1.*True as label"),
        ("t.jsonl", b'{"file_name": "a.png", "label": "\\ud800"}', "no valid text"),
        ("t.csv", b"file_name;label\na.png;cat\n", "separated by ';'; use commas"),
        ("t.csv", b"file_name\tlabel\na.png\tcat\n", "separated by '.t'; use commas"),
        ("t.csv", b"file_name,label,Label\na.png,x,y\n", "two of them differ in cap"),
    ],
)
def test_damaged_tables_are_refused(folder, name, content, message):
    (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        loaded(folder / name)


def test_a_test_split_needs_labels(folder):
    rows = [*ROWS[:3], {"file_name": "d.png", "label": None, "split": "test"}]
    with pytest.raises(LabelError, match=r"1 images of the split 'test'.*d\.png"):
        loaded(written(folder / "table.csv", rows))
