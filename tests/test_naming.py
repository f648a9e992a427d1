import sys
from dataclasses import dataclass

import pytest

from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.naming import resolve


@dataclass(frozen=True)
class Box:
    width: int = 1
    name: str = "box"

    def __post_init__(self):
        if self.width < 0:
            raise UsageError(f"width is {self.width}; it must be at least 0.")


KNOWN = {"box": Box}


def test_a_name_with_options():
    assert resolve("thing", "box", {"width": 3}, KNOWN) == Box(3)


def test_an_object_comes_back_as_it_is():
    box = Box()
    assert resolve("thing", box, {}, KNOWN) is box
    with pytest.raises(UsageError, match=r"options \['width'\] have nowhere to go"):
        resolve("thing", box, {"width": 2}, KNOWN)


def test_an_import_path():
    assert resolve("thing", "collections:Counter", {}, KNOWN) == {}
    assert resolve("thing", "sys:flags", {}, KNOWN) is sys.flags
    assert resolve("thing", "string:digits", {}, KNOWN) == "0123456789"


@pytest.mark.parametrize(
    ("choice", "options", "error", "message"),
    [
        ("bocks", {}, UnknownNameError, "There is no thing called 'bocks'.*Known: box"),
        ("box", {"widht": 1}, UnknownNameError, "'widht'. Did you mean 'width'"),
        ("box", {"width": "wide"}, UsageError, "Option 'width' of 'box' is 'wide'"),
        ("box", {"width": -1}, UsageError, "^width is -1; it must be at least 0.$"),
        ("nosuch:Box", {}, UsageError, "could not be imported: No module named"),
        ("collections:Box", {}, UsageError, "'collections' has no 'Box'.* it defines"),
        (":Box", {}, UsageError, "could not be imported"),
        ("json:dumps", {}, UsageError, r"made with the options \[\]: missing .*'obj'"),
        ("sys:flags", {"a": 1}, UsageError, r"options \['a'\] have nowhere to go"),
    ],
)
def test_what_is_wrong_is_named(choice, options, error, message):
    with pytest.raises(error, match=message):
        resolve("thing", choice, options, KNOWN)
