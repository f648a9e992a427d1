"""Files of answers take no more time and memory than they are worth."""

import os
from difflib import get_close_matches

import pytest
from tests.projects.exchange.test_faults import CLASSES, HEADER, ITEMS, faults, read

from fewlabels.errors import DataError
from fewlabels.projects.exchange import read_answers, reader, rows


def test_a_file_that_is_too_big_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MAX_BYTES", 40)
    (fault,) = faults(tmp_path / "t.csv", HEADER + "a.png,cat,,\n")
    assert fault.sentence == "the file has 45 bytes; at most 40 are read."


@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_what_is_no_regular_file_is_not_waited_for(tmp_path, kind):
    path = tmp_path / "t.csv"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(DataError, match="cannot be read: not a regular file"):
        read_answers(path, items=ITEMS, asked=None, classes=CLASSES, partial=True)


def test_hints_are_looked_for_as_long_as_that_takes_little_time(tmp_path, monkeypatch):
    words = []

    def counted(word, names, **options):
        words.append(word)
        return get_close_matches(word, names, **options)

    monkeypatch.setattr(reader, "get_close_matches", counted)
    monkeypatch.setattr(reader, "_MAX_COMPARISONS", 20 * len(CLASSES))
    content = "".join(f"a.png,cat{number},,\n" * 2 for number in range(50))
    found = faults(tmp_path / "t.csv", HEADER + content)
    assert [fault.sentence.endswith("'cat'?") for fault in found[:60]] == (
        [True] * 40 + [False] * 20
    )
    assert len(words) == 40  # twenty for each of two readings


def test_a_header_of_any_length_is_looked_at_once_for_each_name(tmp_path, monkeypatch):
    looked = []

    def counted(word, names, *options):
        looked.append(word)
        return get_close_matches(word, names, *options)

    monkeypatch.setattr(rows, "get_close_matches", counted)
    columns = ",".join(f"column {number}" for number in range(5_000))
    content = f"file_name,label,anotator,{columns}\na.png,cat\n"
    (fault,) = faults(tmp_path / "t.csv", content)
    assert fault.sentence.endswith(
        "'anotator' means nothing here; did you mean 'annotator'?"
    )
    assert len(looked) < 20
    lines = "".join(
        f'{{"id": "1a", "label": "cat", "anotator{n}": 1}}\n' for n in range(3000)
    )
    found = read(tmp_path / "t.jsonl", lines, partial=True).faults
    assert 900 < sum("means nothing here" in one.sentence for one in found) <= 1000
