"""Files of answers take no more time and memory than they are worth."""

import os

import pytest
from tests.projects.exchange.test_faults import CLASSES, HEADER, ITEMS, faults

from fewlabels.errors import DataError
from fewlabels.projects import exchange
from fewlabels.projects.exchange import read_answers


def test_a_file_that_is_too_big_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(exchange, "MAX_BYTES", 40)
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
