"""The tree of errors is complete and documented; checks raise what they promise."""

import ast
import inspect
import pickle
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

from fewlabels import errors
from fewlabels.errors import Count, Limits, Settings, Share, UsageError, Weight, count

PUBLIC = [
    value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, Exception)
]


@pytest.mark.parametrize("kind", PUBLIC)
def test_everything_raised_has_one_of_two_roots_and_is_in_the_tree(kind):
    assert issubclass(kind, errors.FewlabelsError) != issubclass(kind, Warning)
    root = "Error" if issubclass(kind, errors.FewlabelsError) else "Warning"
    assert issubclass(kind, getattr(errors, f"Fewlabels{root}"))
    assert kind.__name__.endswith(root)
    assert kind.__doc__
    assert kind.__name__ in inspect.getdoc(errors)
    assert issubclass(kind, ValueError) == issubclass(kind, errors.UsageError)


def test_the_drawing_has_the_depth_of_the_code():
    for line in inspect.getdoc(errors).splitlines():
        name = line.strip("│├└─ ").split(" ")[0]
        kind = getattr(errors, name, None)
        if kind in PUBLIC:
            root = errors.FewlabelsError
            if issubclass(kind, Warning):
                root = errors.FewlabelsWarning
            indent = line.index(name) - 4  # the tree itself is a block, indented by 4
            generations = len([k for k in kind.__mro__ if issubclass(k, root)]) - 1
            assert indent == 4 * generations, line


def test_an_unknown_name_suggests_the_nearest_and_lists_all():
    error = errors.UnknownNameError("strategy", "Margn", ["npc", "margin", "random"])
    assert str(error) == (
        "There is no strategy called 'Margn'. Did you mean 'margin'? "
        "Known: margin, npc, random."
    )
    error = errors.UnknownNameError("data set", "zebra", iter(["npc", "digits"]))
    assert str(error) == "There is no data set called 'zebra'. Known: digits, npc."


def test_every_error_can_travel_to_another_process():
    known = errors.UnknownNameError("strategy", "margn", ["margin", "npc"])
    again = pickle.loads(pickle.dumps(known))
    assert str(again) == str(known)
    assert type(again) is errors.UnknownNameError


def test_refused_answers_list_twenty_faults_and_count_the_rest():
    faults = [errors.Fault(line, f"fault {line}.") for line in range(2, 53)]
    error = errors.AnswersError(Path("labels.csv"), faults)
    assert str(error).startswith("'labels.csv' has 51 faults, and nothing was taken")
    assert "line 21: fault 21." in str(error)
    assert "line 22:" not in str(error)
    assert "and 31 more" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.faults) == (str(error), tuple(faults))


def test_half_a_character_of_a_file_can_be_printed():
    error = errors.UnknownNameError("strategy", "\ud800", ["npc"])
    assert "'\\ud800'" in str(error)
    assert str(error).encode("utf-8")


EDGES = ("cli/", "projects/export.py")  # they speak of commands
REPORTED = ("names.py", "experiments/bench/")  # still to be said otherwise


def said(path):
    """Yield the texts of a module that are not docstrings."""
    parts = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    alone = {id(node.value) for node in parts if isinstance(node, ast.Expr)}
    for node in parts:
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in alone:
            yield node.value


def test_the_library_names_no_option_of_the_command_line():
    root = Path(errors.__file__).parent
    found = [
        (path.relative_to(root).as_posix(), text)
        for path in sorted(root.rglob("*.py"))
        if not path.relative_to(root).as_posix().startswith(EDGES + REPORTED)
        for text in said(path)
        if re.search(r"(?:^|[\s'\"])--[a-z]", text)
    ]
    assert found == []


@dataclass(frozen=True, kw_only=True)
class Options(Settings):
    number: Count = 1
    weight: Weight = 0.0
    share: Share = 0.5
    least: Annotated[float | None, Limits(at_least=1, at_most=3)] = None
    word: Literal["one", "two"] = "one"
    either: int | Literal["auto"] = 5
    shares: Annotated[Literal["even"] | tuple[float, ...], Limits(above=0)] = "even"
    words: tuple[Literal["a", "b"], ...] = ("a", "a")
    text: str = "anything"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"number": 0}, "number is 0; it must be at least 1"),
        ({"number": None}, "number is None, of type NoneType"),
        ({"number": True}, "number is True, of type bool"),
        ({"weight": -1}, "weight is -1; it must be at least 0"),
        ({"weight": float("inf")}, "weight is inf; it must be at least 0 and finite"),
        ({"share": 1}, "share is 1; it must be at least 0 and below 1"),
        ({"share": "half"}, "share is 'half', of type str"),
        ({"least": 4}, "least is 4; it must be at least 1 and at most 3"),
        ({"word": "three"}, "There is no word called 'three'.*Known: one, two"),
        ({"word": 3}, "There is no word called '3'"),
        ({"either": "own"}, "There is no either called 'own'"),
        ({"shares": "odd"}, "There is no shares called 'odd'"),
        ({"shares": (1.0, 0.0)}, r"shares is 0\.0; it must be above 0"),
        ({"words": ("a", "c")}, "There is no words called 'c'"),
    ],
)
def test_wrong_options_are_explained(options, message):
    with pytest.raises(UsageError, match=message):
        Options(**options)


def test_right_options_pass():
    Options()
    right = {"either": "auto", "shares": (1.0, 2.0), "words": (), "text": ""}
    assert Options(least=3, word="two", **right).either == "auto"


def test_a_type_that_is_not_known_here_is_not_checked():
    @dataclass(frozen=True)
    class Own(Settings):
        value: "Nowhere"  # noqa: F821

    assert Own(3).value == 3


def test_amounts():
    assert count(1000) == "1,000"


def test_an_unknown_name_when_nothing_is_known():
    error = errors.UnknownNameError("removed class", "cat", [])
    assert str(error) == "There is no removed class called 'cat'. Known: none."
