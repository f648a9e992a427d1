from pathlib import Path

import pytest

from fewlabels.data import FilesLeftOutWarning, UnreadableFile
from fewlabels.data.unreadable import warn_of


def test_one_file_is_named_with_its_reason():
    with pytest.warns(FilesLeftOutWarning) as caught:
        warn_of(Path("photos"), [UnreadableFile("a.png", "empty")])
    assert str(caught[0].message) == (
        "1 file in photos cannot be used and was left out: a.png (empty)."
    )
    assert caught[0].message.folder == Path("photos")


def test_no_file_is_no_warning(recwarn):
    warn_of(Path("photos"), [])
    assert not recwarn.list
