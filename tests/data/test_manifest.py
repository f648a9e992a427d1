import json

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.data.pictures import save

from fewlabels.data.manifest import manifest_pool
from fewlabels.errors import DataError, LabelError, UnreadableFilesWarning

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
        (
            one(file_name="../a.png"),
            r"Row 1 of .* names '\.\./a\.png', not a file below",
        ),
        (one(file_name="/etc/a.png"), "not a file below its folder"),
        (one(file_name="sub\\..\\..\\a.png"), "not a file below"),
        (one(file_name="C:\\a.png"), "not a file below"),
        (one(file_name=""), "names '', not a file below"),
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
        (
            "t.jsonl",
            b'{"file_name": "a.png", "label": "\\ud800"}',
            "as label; write text",
        ),
        ("t.csv", b"file_name;label\na.png;cat\n", "separated by commas"),
        (
            "t.jsonl",
            b'{"file_name": "a.png", "label": ' + b"[" * 800 + b"]" * 800 + b"}",
            r"\[+\.\.\.\]+ as label",
        ),
        ("t.csv", b"file_name,label,Label\na.png,x,y\n", "two differ in case"),
        ("t.csv", b"file_name," + b"," * 2**20, "a line has 1,048,586 characters"),
        ("t.jsonl", b"[" + b"[]," * 2**20, "characters; at most 1,048,576 are read"),
        (
            "t.csv",
            b"file_name\n/" + b"a" * 9999,
            r"names '/a+\.\.\.a+', not a file below",
        ),
    ],
)
def test_damaged_tables_are_refused(folder, name, content, message):
    (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        loaded(folder / name)


def test_a_test_split_needs_labels(folder):
    rows = [*ROWS[:3], {"file_name": "d.png", "label": None, "split": "test"}]
    with pytest.raises(LabelError, match=r"1 images of 'test'.*d\.png"):
        loaded(written(folder / "table.csv", rows))


def test_the_number_of_rows_is_bounded(folder, monkeypatch):
    monkeypatch.setattr("fewlabels.data.untrusted.MANIFEST_ROWS", 3)
    with pytest.raises(
        DataError, match=r"Row 4 of .* is one too many; split the table"
    ):
        loaded(written(folder / "table.csv", ROWS))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            pa.array([2**62], pa.timestamp("ms")),
            r"'label' holds timestamp\[ms\], not text",
        ),
        (pa.array([2**31 - 1], pa.date32()), r"'label' holds date32\[day\], not text"),
        (pa.array([2**62], pa.duration("s")), r"'label' holds duration\[s\], not text"),
        (pa.array([[1]]), "'label' holds list<"),
        (pa.array([b"cat"]), "'label' holds binary"),
        (pa.array([True]), "'label' holds bool"),
        (pa.array([1.5]), "Row 1 of .* has 1.5 as label"),
        (pa.array(["x" * 2**17 + "y"]), "a text has 131,073 bytes"),
    ],
)
def test_parquet_columns_hold_text_or_numbers(folder, column, message):
    table = pa.table({"file_name": ["a.png"], "label": column})
    parquet.write_table(table, folder / "t.parquet")
    with pytest.raises(DataError, match=message):
        loaded(folder / "t.parquet")


def test_a_long_text_that_is_repeated_is_not_unfolded(folder):
    names = [f"{number}.png" for number in range(2000)]
    words = pa.array(["x" * 10**7])
    labels = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int8()), words)
    table, path = pa.table({"file_name": names, "label": labels}), folder / "t.parquet"
    parquet.write_table(table, path, dictionary_pagesize_limit=2**30)
    assert path.stat().st_size < 10**6
    with pytest.raises(DataError, match="a text has 10,000,000 bytes"):
        loaded(path)


def test_a_table_that_unpacks_to_too_much_is_refused(folder, monkeypatch):
    monkeypatch.setattr("fewlabels.data.untrusted.UNPACKED_BYTES", 100)
    monkeypatch.setattr("fewlabels.data.parquet._UNPACKED_RATIO", 0)
    with pytest.raises(DataError, match=r"would unpack to .* bytes; at most 100"):
        loaded(written(folder / "table.parquet", ROWS))


def test_other_columns_may_hold_anything(folder):
    table = pa.Table.from_pylist(ROWS)
    table = table.append_column("taken", pa.array([2**62] * 4, pa.timestamp("ms")))
    parquet.write_table(table, folder / "t.parquet")
    assert len(loaded(folder / "t.parquet")) == 3
