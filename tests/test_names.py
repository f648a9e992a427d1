import subprocess
import sys
from dataclasses import dataclass
from inspect import signature

import pytest

from fewlabels import names
from fewlabels.errors import UnknownNameError, UsageError


@dataclass(frozen=True)
class Box:
    width: int = 1
    name: str = "box"

    def __post_init__(self):
        if self.width < 0:
            raise UsageError(f"width is {self.width}; it must be at least 0.")


KNOWN = {"box": Box}


def resolve(kind, choice, options, known, *, method="__repr__()"):
    return names.resolve(kind, choice, options, known, method=method)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write a module into a folder of its own, which is the current one."""
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text(text)

    return write


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
        ("box", {"width": "wide"}, UsageError, "width is 'wide', of type str; give"),
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1 / 0", "imported: ZeroDivisionError: division by zero. Give it as"),
        ("def (", r"imported: SyntaxError: invalid syntax \(failing.py, line 1\)"),
        ("import sys; sys.exit(3)", "imported: SystemExit: 3. Give it as"),
        ("import sys; sys.nosuch", "AttributeError: module 'sys' has no attribute"),
        ("import nosuch", "imported: No module named 'nosuch'"),
        ("class Box:\n  def __init__(self, w): ...", r"\[\]: missing .*argument: 'w'"),
        ("def Box(): raise KeyError('w')", r"could not be made .*\[\]: KeyError: 'w'"),
        ("def Box(): raise SystemExit", "could not be made .*: SystemExit. Correct"),
    ],
)
def test_a_module_that_fails_is_told_in_a_sentence(written, text, message):
    written("failing", text)
    with pytest.raises(UsageError, match=message) as caught:
        resolve("thing", "failing:Box", {}, KNOWN)
    assert caught.value.__cause__ is not None


def test_a_relative_path_is_refused():
    message = r"'\.a:Box' could not be imported: that names no module"
    with pytest.raises(UsageError, match=message):
        resolve("thing", ".a:Box", {}, KNOWN)


NO_CODE = ["box", "onnx:a.onnx", "local-dir:/a", "hf-hub:a/b@c", "C:\\a", "a b:c", ":a"]


@pytest.mark.parametrize("text", NO_CODE)
def test_what_is_no_import_path_is_neither_asked_about_nor_imported(text):
    assert not list(names.import_paths([text]))
    names.check_code("file", [text], allowed=False)
    with pytest.raises(UsageError):
        names.import_object("thing", text)


@pytest.mark.parametrize("text", ["a:b", "a.b:C", "onnx:model", "vectors:Rows"])
def test_what_could_be_imported_is_asked_about(text):
    with pytest.raises(UsageError, match="names code to import"):
        names.check_code("file", {"options": [text]}, allowed=False)


def test_the_current_folder_is_looked_in_last_and_only_for_the_moment(written):
    written("of_mine", "import sys\nwhere = list(sys.path)\nsys.path.insert(0, 'kept')")
    written("colorsys", "shadow = 1")
    before = [place for place in sys.path if place]
    sys.path[:] = before
    try:
        assert resolve("thing", "of_mine:where", {}, KNOWN) == [*before, ""]
        assert sys.path == ["kept", *before]
    finally:
        sys.path[:] = before
    with pytest.raises(UsageError, match="'colorsys' has no 'shadow'"):
        resolve("thing", "colorsys:shadow", {}, KNOWN)


@pytest.mark.parametrize("choice", [None, 3, "os:path", "builtins:int", "json:loads"])
def test_what_lacks_the_method_is_refused(choice):
    options = {"s": "{}"} if choice == "json:loads" else {}
    message = r"is not a thing: it has no method fill\(box\). See protocols.Thing"
    with pytest.raises(UsageError, match=message):
        resolve("thing", choice, options, KNOWN, method="fill(box)")


def test_a_class_in_place_of_an_object_is_refused():
    with pytest.raises(UsageError, match=r"a class where a thing is needed.*: Box\("):
        resolve("thing", Box, {}, KNOWN)


@pytest.mark.parametrize("options", [[1], "width", {1: 2}, 3])
def test_options_are_names_and_values(options):
    with pytest.raises(UsageError, match=r"options of the thing are .*; give a dict"):
        resolve("thing", "box", options, KNOWN)


def test_fields_that_cannot_be_checked_are_taken_as_they_are(written):
    written(
        "free",
        "from dataclasses import dataclass\n"
        "class Other: ...\n"
        "@dataclass\n"
        "class Box:\n"
        "  other: Other\n",
    )
    assert resolve("thing", "free:Box", {"other": 3}, KNOWN).other == 3
    with pytest.raises(UsageError, match="missing a required argument: 'other'"):
        resolve("thing", "free:Box", {}, KNOWN)


def test_the_default_strategy_is_the_same_everywhere():
    pytest.importorskip("skactiveml")
    from fewlabels import run
    from fewlabels.cli.select import select
    from fewlabels.experiments.settings import RunSettings
    from fewlabels.projects.settings import NewProject, ProjectSettings
    from fewlabels.strategies.skactiveml import FewlabelsQuery

    for function in (run, FewlabelsQuery, select):
        default = signature(function).parameters["strategy"].default
        assert default == names.DEFAULT_STRATEGY
    for settings in (NewProject, ProjectSettings, RunSettings):
        default = settings.model_fields["strategy"].default
        assert default.name == names.DEFAULT_STRATEGY


def test_the_default_strategy_is_known_without_torch():
    code = "import sys, fewlabels.names; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
