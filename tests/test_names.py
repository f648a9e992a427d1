"""Names become objects or a clear error, and objects say what decides their work."""

import importlib
import json
import subprocess
import sys
from dataclasses import dataclass
from inspect import signature
from pathlib import Path

import pytest
from tests.experiments.runs.toy import FirstOnes, Resuming
from tests.training.conftest import tiny_pool

from fewlabels import names, strategies, training
from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.experiments.acquisition import mark_of
from fewlabels.names import Identity, identity, source_hash
from fewlabels.pool import Split
from fewlabels.training.training import TrainingTask
from fewlabels.training.views import Views


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
    with pytest.raises(UsageError, match=r"takes no options \['width'\]"):
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
        (
            "box",
            {"width": "wide"},
            UsageError,
            "Option 'width' of 'box' is 'wide': Input should be a valid integer",
        ),
        ("box", {"width": -1}, UsageError, "^width is -1; it must be at least 0.$"),
        ("__main__:Box", {}, UsageError, "Other processes .* give 'my_module:Box'"),
        (
            "nosuch:Box",
            {},
            UsageError,
            "could not be imported: No module named 'nosuch'",
        ),
        (
            "nosuch:Box",
            {},
            UsageError,
            "Correct the name or the module, install it, or",
        ),
        ("collections:Box", {}, UsageError, "'collections' has no 'Box'"),
        (":Box", {}, UsageError, "not of the form package.module:Name"),
        ("json:dumps", {}, UsageError, "made: missing .*'obj'"),
        ("sys:flags", {"a": 1}, UsageError, r"takes no options \['a'\]"),
    ],
)
def test_what_is_wrong_is_named(choice, options, error, message):
    with pytest.raises(error, match=message):
        resolve("thing", choice, options, KNOWN)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1 / 0", "imported: ZeroDivisionError: division by zero"),
        ("def (", r"imported: SyntaxError: invalid syntax \(failing.py, line 1\)"),
        ("import sys; sys.exit(3)", "imported: SystemExit: 3"),
        ("import sys; sys.nosuch", "AttributeError: module 'sys' has no attribute"),
        ("import nosuch", "imported: No module named 'nosuch'"),
        ("class Box:\n  def __init__(self, w): ...", "made: missing .*argument: 'w'"),
        ("def Box(): raise KeyError('w')", r"could not be made .*\[\]: KeyError: 'w'"),
        ("def Box(): raise SystemExit", "could not be made .*: SystemExit"),
    ],
)
def test_a_module_that_fails_is_explained(written, text, message):
    written("failing", text)
    with pytest.raises(UsageError, match=message) as caught:
        resolve("thing", "failing:Box", {}, KNOWN)
    assert caught.value.__cause__ is not None


def test_a_relative_path_is_refused():
    message = r"'\.a:Box' is not of the form"
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
    message = r"is not a thing: it has no method fill\(box\)"
    with pytest.raises(UsageError, match=message):
        resolve("thing", choice, options, KNOWN, method="fill(box)")


@pytest.mark.parametrize("options", [{}, {"width": 3}])
def test_a_class_in_place_of_an_object_is_refused(options):
    with pytest.raises(UsageError, match=r"is a class; give Box\("):
        resolve("thing", Box, options, KNOWN)


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
    from fewlabels.cli.embeddings import select
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


@dataclass(frozen=True)
class Part:
    width: float = 0.5


@dataclass(frozen=True)
class Mine:
    steps: int = 3
    part: Part = Part()


class Plain:
    def __init__(self, rate, scale):
        self.rate, self.scale, self._seen = rate, scale, []


@pytest.mark.parametrize("name", strategies.names())
def test_all_options_of_a_strategy_are_recorded_and_survive_a_file(name):
    recorded = identity(strategies.resolve(name))
    assert not recorded.source
    assert Identity.model_validate_json(recorded.model_dump_json()) == recorded
    assert identity(strategies.resolve(name)) == recorded


@pytest.mark.parametrize("name", training.names())
def test_all_options_of_a_trainer_but_those_that_decide_nothing(name):
    trainer = training.resolve(name)
    options = identity(trainer).options
    assert options.keys() == trainer.options.keys()
    assert not options.keys() & {"cache", "prefetch", "save_every"}
    json.dumps(options, allow_nan=False)


EXECUTION = {"cache": "here", "save_every": 1.0, "prefetch": 3}


@pytest.mark.parametrize(
    "name",
    [name for name in training.names() if EXECUTION.keys() & training.options(name)],
)
def test_how_a_training_is_done_changes_no_hash(name):
    """Workspaces, evaluations and projects know a training by its identity alone."""
    done = {
        option: value
        for option, value in EXECUTION.items()
        if option in training.options(name)
    }
    pool = tiny_pool()
    marks = [
        (
            identity(trainer),
            mark_of(trainer, pool, Split(pool.images, pool.labels, pool.ids), 0, 0),
            TrainingTask(
                trainer, pool, Views(trainer.inputs, pool), 0, None
            ).fingerprint,
        )
        for trainer in (training.make(name), training.make(name, **done))
    ]
    assert marks[0] == marks[1]


def test_options_of_parts_count():
    assert identity(Mine(steps=4)) != identity(Mine())
    assert identity(Mine(part=Part(0.25))) != identity(Mine())


def test_the_source_is_that_of_all_modules_outside():
    class Child(Resuming):
        pass

    assert set(identity(Child()).source) == {__name__, "tests.experiments.runs.toy"}
    assert set(identity(FirstOnes()).source) == {"tests.experiments.runs.toy"}


def test_the_source_of_an_own_encoder_is_a_part_of_a_training(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def encoder(text):
        (tmp_path / "own_encoder.py").write_text(f"from torch import nn\n{text}")
        sys.modules.pop("own_encoder", None)
        importlib.invalidate_caches()
        return identity(training.make("frozen-linear", encoder="own_encoder:net"))

    before = encoder("net = nn.Flatten()\n")
    assert list(before.source) == ["own_encoder"]
    assert before.source["own_encoder"] != "unknown"
    assert encoder("net = nn.Flatten()\n") == before
    changes = before.changes(encoder("net = nn.Flatten(2)\n"))
    assert changes == ["the source of 'own_encoder' is not what it was"]
    sys.modules.pop("own_encoder")
    assert not identity(training.make("frozen-linear", encoder="pixels")).source


def test_any_object_has_an_identity():
    first, second = Plain(0.1, Path("a")), Plain(0.1, Path("a"))
    assert identity(first) == identity(second)
    assert identity(first).options.keys() == {"rate", "scale"}
    assert identity(Plain(float("nan"), object())) == identity(
        Plain(float("nan"), object())
    )


def test_changes_are_listed():
    before = identity(Mine())
    now = before.model_copy(
        update={
            "type": "Yours",
            "options": {"steps": 4, "part": before.options["part"], "rate": 1.0},
            "source": {"mine": "0"},
        }
    )
    assert before.changes(before) == []
    assert before.changes(now) == [
        "the class was Mine and is now Yours",
        f"the source of '{__name__}' is not what it was",
        "the source of 'mine' is not what it was",
        "steps was 3 and is now 4",
        "rate was no option and is now 1.0",
    ]


def test_a_number_beyond_floats_is_itself():
    assert identity(Mine(steps=10**400)).options["steps"] == 10**400


# ------------------------------------------------------------ what decides a source

MODULE = '''
"""A module."""
import math

WEIGHTS = {"a": 1}


def helper(x):
    """Help."""
    return x + WEIGHTS["a"] + math.pi


class Mine:
    """A strategy."""

    def select(self):  # as asked
        return helper(2)


def plot():
    return 3


if __name__ == "__main__":
    WEIGHTS = plot()
'''


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("  # as asked", "  # differently", True),
        ('"""A strategy."""', '"""The best strategy."""', True),
        ('    """Help."""\n', "", True),
        ("return 3", "return  4", True),
        ("WEIGHTS = plot()", "print(1)", True),
        ("helper(2)", "helper(3)", False),
        ("x + WEIGHTS", "x - WEIGHTS", False),
        ('"a": 1', '"a": 2', False),
        ("import math", "import cmath as math", False),
        ("def plot", "WEIGHTS.update(a=3)\n\n\ndef plot", False),
        ("def plot", "Mine.size = 3\n\n\ndef plot", False),
        ("def plot", "for i in range(2):\n    WEIGHTS[i] = 1\n\n\ndef plot", False),
        ("def plot", "result = helper(3)\n\n\ndef plot", True),
    ],
)
def test_a_source_is_what_a_class_uses_without_comments(
    old, new, is_same, tmp_path, monkeypatch
):
    assert old in MODULE
    hashes = []
    monkeypatch.syspath_prepend(tmp_path)
    for number, text in enumerate([MODULE, MODULE.replace(old, new, 1)]):
        name = f"own_{abs(hash((old, new)))}_{number}"
        (tmp_path / f"{name}.py").write_text(text)
        module = importlib.import_module(name)
        hashes.append(identity(module.Mine()).source[name])
    assert (hashes[0] == hashes[1]) == is_same


def test_what_cannot_be_followed_counts_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    text = "globals()['Mine'] = type('Mine', (), {'x': 1, '__module__': __name__})\n"
    hashes = []
    for number, end in enumerate(["", "# comment\n"]):
        (tmp_path / f"made_{number}.py").write_text(text + end)
        module = importlib.import_module(f"made_{number}")
        hashes.append(source_hash(module.__name__, ["Mine"]))
    assert hashes[0] != hashes[1]
