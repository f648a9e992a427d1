import os
from pathlib import Path

import pytest

from fewlabels.data import UnreadableFile
from fewlabels.data.unreadable import left_out, warn_of
from fewlabels.errors import UnreadableFilesWarning


def test_one_file_is_named_with_its_reason():
    with pytest.warns(UnreadableFilesWarning) as caught:
        warn_of(Path("photos"), [UnreadableFile("a.png", "empty")])
    assert str(caught[0].message) == (
        "1 file in photos cannot be used and was left out: a.png (empty)."
    )
    assert caught[0].message.folder == Path("photos")


def test_no_file_is_no_warning(recwarn):
    warn_of(Path("photos"), [])
    assert not recwarn.list


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Käse 猫.png", "Käse 猫.png"),
        ("a\nb.png", r"a\nb.png"),
        ("a\0b\u2028c\x85.png", r"a\x00b\u2028c\x85.png"),
        (os.fsdecode(b"bad\xff.png"), r"bad\xff.png"),
        ("half\ud800.png", r"half\ud800.png"),
    ],
)
def test_what_cannot_be_printed_is_escaped(name, shown):
    assert str(left_out(name, "odd")) == f"{shown} (odd)"
