"""A file with faults is refused whole, and each fault is named by its line."""

import json

import pytest

from fewlabels.errors import AnswersError, DataError, Fault
from fewlabels.projects.exchange import read_answers

ITEMS = {
    "a.png": "1a",
    "b.png": "2b",
    "sub/c.png": "3c",
    "d, e.png": "4d",
    "caf\u00e9.png": "5e",
    "f.png": "6f",
}
ASKED = set(ITEMS.values()) - {"6f"}
CLASSES = ["cat", "dog", "3"]
HEADER = "file_name,label,status,annotator\n"


def read(path, content, *, partial=False):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_answers(
        path, items=ITEMS, asked=ASKED, classes=CLASSES, partial=partial
    )


def faults(path, content):
    """Return all faults; refused whole without partial, the same with it."""
    with pytest.raises(AnswersError) as refused:
        read(path, content)
    assert str(path) in str(refused.value)
    for fault in refused.value.faults[:20]:
        assert f"  {fault}" in str(refused.value)
    assert read(path, content, partial=True).faults == refused.value.faults
    return refused.value.faults


def answers(path, content):
    parsed = read(path, content)
    return [(one.id, one.label) for one in parsed.answers]


ROWS = [
    ("zebra.png,cat,,", "there is no image 'zebra.png' in this project."),
    ("c.png,cat,,", "there is no image 'c.png' in this project."),
    ("a.png,catt,,", "there is no class 'catt'."),
    ("a.png,unsure,skip,", "has the label 'unsure' and the status 'skip'"),
    ("a.png,zebra,,", "there is no class 'zebra'."),
    ("f.png,cat,,", "nobody asked about 'f.png'; take the row out."),
    ("a.png,cat,skip,", "is skipped and has the label 'cat'."),
    ("a.png,,maybe,", "the status 'maybe'; write 'skip' or 'unsure'."),
    (",cat,,", "names no image; fill in file_name."),
    ("d, e.png,cat,,x", "has 5 cells and the header has 4"),
    ("b.png,dog,,", "the same annotator answered about this image on line 2 already"),
    ("b.png,,skip,", "the same annotator answered about this image on line 2 already"),
]


@pytest.mark.parametrize(("row", "sentence"), ROWS)
def test_each_fault_of_a_table_has_its_line(tmp_path, row, sentence):
    content = f"{HEADER}b.png,cat,,\n\n{row}\n"
    (fault,) = faults(tmp_path / "t.csv", content)
    assert fault.line == 4
    assert sentence in fault.sentence
    good = read(tmp_path / "t.csv", content, partial=True).answers
    assert [(one.id, one.label) for one in good] == [("2b", "cat")]


def test_lines_are_counted_as_editors_do_also_after_a_name_of_two_lines(tmp_path):
    content = HEADER + '"two\nlines.png",cat,,\r\na.png,catt,,\r\n'
    lines = [fault.line for fault in faults(tmp_path / "t.csv", content)]
    assert lines == [2, 4]


def test_all_faults_are_collected(tmp_path):
    rows = "".join(f"zebra{number}.png,cat,,\n" for number in range(51))
    found = faults(tmp_path / "t.csv", HEADER + rows)
    assert [fault.line for fault in found] == list(range(2, 53))


def test_two_annotators_may_answer_about_one_image(tmp_path):
    rows = "a.png,cat,,ann\na.png,dog,,bob\na.png,cat,,ann\n"
    (fault,) = faults(tmp_path / "t.csv", HEADER + rows)
    assert fault.line == 4
    assert fault.sentence.startswith("'ann' answered about this image on line 2")


HEADERS = [
    ("a.png,cat\n", "the header has to name file_name and label, and names a.png, cat"),
    ("file_name\na.png\n", "the header has to name file_name and label"),
    ("label\ncat\n", "the header has to name file_name and label"),
    ("file_name,lable\n", "the header has to name file_name and label"),
    ("file_name,label,label\n", "the column 'label' is there twice"),
]


@pytest.mark.parametrize(("header", "sentence"), HEADERS)
def test_a_wrong_header_is_line_one(tmp_path, header, sentence):
    found = faults(tmp_path / "t.csv", header)
    assert found[0].line == 1
    assert any(sentence in fault.sentence for fault in found)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.json"])
def test_an_empty_file_is_refused(tmp_path, name):
    for content in ("", " \n\r\n", b"\xef\xbb\xbf"):
        assert faults(tmp_path / name, content) == (Fault(1, "the file is empty."),)


@pytest.mark.parametrize(("name", "content"), [("t.csv", HEADER), ("t.json", "[ ]")])
def test_a_file_without_rows_is_refused(tmp_path, name, content):
    (fault,) = faults(tmp_path / name, content)
    assert fault == Fault(1, "there is no row in the file.")


def test_a_stray_quote_is_named(tmp_path):
    found = faults(tmp_path / "t.csv", HEADER + 'a.png,cat,,\n"b.png,dog,,\n')
    assert [fault.line for fault in found] == [3]
    assert "look for a stray quote" in found[0].sentence


ENCODINGS = [
    (
        "caf\u00e9.png,cat,,".encode("latin-1"),
        3,
        "the file is not UTF-8 text: byte 48 is 0xe9; save it as UTF-8",
    ),
    (b"a\0.png,cat,,", 3, "the file is not UTF-8 text: byte 46 is 0x00"),
]


@pytest.mark.parametrize(("row", "line", "sentence"), ENCODINGS)
def test_other_encodings_are_named_with_byte_and_line(tmp_path, row, line, sentence):
    (fault,) = faults(tmp_path / "t.csv", HEADER.encode() + b"b.png,cat,,\n" + row)
    assert fault.line == line
    assert sentence in fault.sentence


def test_workbooks_and_utf_16_are_no_text(tmp_path):
    for content in (HEADER.encode("utf-16"), b"PK\x03\x04 \x00\xff and so on"):
        (fault,) = faults(tmp_path / "t.csv", content)
        assert "the file is not UTF-8 text" in fault.sentence
        assert "in Excel as 'CSV UTF-8'" in fault.sentence


@pytest.mark.parametrize(
    "time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
)
def test_a_time_outside_all_calendars_is_a_fault(tmp_path, time):
    content = f"file_name,label,time\na.png,cat,{time}\n"
    (fault,) = faults(tmp_path / "t.csv", content)
    assert fault.sentence.startswith(f"has the time '{time}'; write 2026-")


def test_a_missing_file_is_an_error_also_with_partial(tmp_path):
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_answers(
            tmp_path / "no.csv", items={}, asked=None, classes=[], partial=True
        )


def test_ids_and_names_have_to_agree(tmp_path):
    header = "file_name,id,label\n"
    rows = "a.png,id:2b,cat\nb.png,id:9z,cat\nzebra.png,id:3c,cat\n,id:8y,dog\n"
    found = faults(tmp_path / "t.csv", header + rows)
    assert [fault.line for fault in found] == [2, 3, 5]
    assert "the id is of another image than 'a.png'" in found[0].sentence
    assert "the id is of another image than 'b.png'" in found[1].sentence
    assert "there is no image '8y'" in found[2].sentence
    (moved,) = read(tmp_path / "t.csv", header + rows, partial=True).answers
    assert moved.id == "3c"


TIMES = [
    ("soon,1", "the time 'soon'; write 2026"),
    (",-1", "the lead_time '-1'; write seconds"),
    (",nan", "the lead_time 'nan'; write seconds"),
    (",long", "the lead_time 'long'; write seconds"),
]


@pytest.mark.parametrize(("cells", "sentence"), TIMES)
def test_times_have_to_be_times(tmp_path, cells, sentence):
    content = f"file_name,label,time,lead_time\na.png,cat,{cells}\n"
    (fault,) = faults(tmp_path / "t.csv", content)
    assert fault.line == 2
    assert sentence in fault.sentence


# ------------------------------------------------------------------ what is no fault

FINE = [
    "file_name;label\r\na.png;cat\r\n",
    "file_name\tlabel\na.png\tcat\n",
    "\ufefffile_name,label\na.png,cat\n",
    "sep=;\nfile_name;label\na.png;cat\n",
    " File_Name , LABEL \na.png,  cat \n",
    "\n\nfile_name,label\n\n,,\na.png,cat\n\n",
    '"file_name","label"\n"a.png","cat"\n',
    "path,label\n.\\a.png,cat\n",
    "filename,label,,\n./a.png,cat,,\n",
    "file_name,label\na.png,cat\nb.png,\nzebra.png,\n",
    "file_name,label\na.png,cat",
]


@pytest.mark.parametrize("content", FINE)
def test_what_spreadsheets_write_is_understood(tmp_path, content):
    assert answers(tmp_path / "t.csv", content) == [("1a", "cat")]


FORGIVEN = [
    ("file_name,label,notes,Notes,colour,strategy,source\n", "a.png,cat,x,y,z,,\n"),
    ("idx,file_name,label,state,timestamp\n", "7,a.png,cat,,\n"),
    ("file_name,path,label,label_2\n", "a.png,,cat,dog\n"),
    ("file_name,label\n", "a.png,Cat\n"),
    ("file_name,label\n", "a.png, CAT \n"),
]


@pytest.mark.parametrize(("header", "row"), FORGIVEN)
def test_columns_of_ones_own_and_capitals_are_no_fault(tmp_path, header, row):
    assert answers(tmp_path / "t.csv", header + row) == [("1a", "cat")]
    names = header.strip().split(",")
    cells = dict(zip(names, row.strip().split(","), strict=True))
    assert answers(tmp_path / "t.jsonl", json.dumps(cells)) == [("1a", "cat")]


def test_capitals_count_where_they_tell_two_classes_apart(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("file_name,label\na.png,Cat\nb.png,CAT\n")
    with pytest.raises(AnswersError, match="line 3: there is no class 'CAT'"):
        read_answers(path, items=ITEMS, asked=ASKED, classes=["cat", "Cat"])


@pytest.mark.parametrize(
    ("word", "kind"), [("skip", "skip"), ("Unsure", "unsure"), (" ? ", "unsure")]
)
@pytest.mark.parametrize("status", [False, True])
def test_skip_and_unsure_may_stand_in_the_column_of_labels(
    tmp_path, word, kind, status
):
    content = f"{HEADER}a.png,{word},{kind * status},\n"
    (answer,) = read(tmp_path / "t.csv", content).answers
    assert (answer.label, answer.kind) == (None, kind)


def test_a_class_may_be_called_skip(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("file_name,label\na.png,skip\nb.png,?\n")
    parsed = read_answers(path, items=ITEMS, asked=ASKED, classes=["Skip", "?"])
    assert [one.label for one in parsed.answers] == ["Skip", "?"]


def test_names_and_labels_are_found_however_they_are_written(tmp_path):
    rows = 'sub\\c.png,3.0\n"d, e.png",3\ncafe\u0301.png,dog\n'
    found = answers(tmp_path / "t.csv", "file_name,label\n" + rows)
    assert found == [("3c", "3"), ("4d", "3"), ("5e", "dog")]


def test_a_decimal_comma_is_understood(tmp_path):
    path = tmp_path / "t.csv"
    content = "file_name;label;lead_time;time\na.png;cat;2,5;2026-01-31 12:00\n"
    (answer,) = read(path, content).answers
    assert answer.payload["lead_time"] == 2.5
    assert answer.time.isoformat() == "2026-01-31T12:00:00+00:00"


# ----------------------------------------------------------------------------- JSON


def test_each_fault_of_json_lines_has_its_line(tmp_path):
    lines = [
        '{"file_name": "a.png", "label": "cat"}',
        "{broken",
        "",
        "[1, 2]",
        '{"label": "cat"}',
        '{"file_name": "b.png", "label": ["cat"]}',
        '{"file_name": "b.png", "lable": "cat"}',
        '{"file_name": "b.png", "label": 3}',
        '{"file_name": 7, "label": "cat"}',
        "[" * 100_000,
    ]
    path = tmp_path / "t.jsonl"
    found = faults(path, "\n".join(lines))
    assert [fault.line for fault in found] == [2, 4, 5, 6, 9, 10]
    assert "is not JSON: Expecting property name" in found[0].sentence
    assert "is not JSON of one object per line" in found[1].sentence
    assert "names no image" in found[2].sentence
    assert "write text or a number" in found[3].sentence
    assert "there is no image '7'" in found[4].sentence
    parsed = read(path, "\n".join(lines), partial=True)
    assert [(one.id, one.label) for one in parsed.answers] == [
        ("1a", "cat"),
        ("2b", "3"),
    ]
    assert parsed.num_unanswered == 1


def task(name, *choices, **more):
    result = [{"type": "choices", "value": {"choices": [c]}} for c in choices]
    annotation = {"completed_by": 1, "result": result, **more}
    return {"data": {"image": name}, "annotations": [annotation]}


def test_each_fault_of_an_export_has_its_task(tmp_path):
    twice = task("b.png", "dog")
    twice["annotations"] *= 2
    tasks = [
        task("a.png", "cat"),
        task("zebra.png", "cat"),
        task("sub/c.png", "catt"),
        twice,
        task("d%2C%20e.png", "cat", "dog"),
        {"image": "a.png", "choice": "cat"},
        {**task("a.png"), "annotations": {"x": 1}},
        task("a.png", result="cat"),
        task("a.png", result=[{"type": "choices", "value": {"choices": "cat"}}]),
        task("f.png", "cat"),
        task("//[x", "cat"),
        task("caf\u00e9.png", was_cancelled=True),
    ]
    content = json.dumps(tasks)
    found = faults(tmp_path / "t.json", content)
    sentences = [
        "task 2: there is no image 'zebra.png'",
        "task 3: there is no class 'catt'.",
        "task 4: '1' answered about this image in task 4 already",
        "task 5: has the 2 choices cat, dog; one is asked for.",
        "task 6: has no 'data'; export as JSON, not JSON-MIN.",
        "task 7: has annotations of another form.",
        "task 8: has annotations of another form.",
        "task 9: has annotations of another form.",
        "nobody asked about 'f.png'",
        "task 11: there is no image '//[x' in this project.",
    ]
    for fault, sentence in zip(found, sentences, strict=True):
        assert sentence in fault.sentence
    parsed = read(tmp_path / "t.json", content, partial=True)
    assert [(one.id, one.label, one.kind == "skip") for one in parsed.answers] == [
        ("1a", "cat", False),
        ("2b", "dog", False),
        ("5e", None, True),
    ]


BROKEN = [
    ('{"data": {}}', 1, "is not an array of tasks"),
    ('[\n{"data": {}},\n{"data" {}}\n]', 3, "is not JSON: Expecting ':'"),
    ('[\n{"data": {}}\n', 3, "is not JSON"),
    ('[\n{"data": {}}\n] x', 3, "is not JSON: Extra data"),
    ("[\n" + "[" * 100_000, 1, "is not JSON: it is nested too deeply"),
]


@pytest.mark.parametrize(("content", "line", "sentence"), BROKEN)
def test_a_broken_export_is_refused(tmp_path, content, line, sentence):
    (fault,) = faults(tmp_path / "t.json", content)
    assert fault.line == line
    assert sentence in fault.sentence
