"""The tree of errors: complete, documented, and told apart as promised."""

import ast
import inspect
import pickle
import re
from pathlib import Path

import pytest

from fewlabels import errors

PUBLIC = [
    value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, Exception)
]


@pytest.mark.parametrize("kind", PUBLIC)
def test_everything_raised_has_one_of_two_roots(kind):
    assert issubclass(kind, errors.FewlabelsError | errors.FewlabelsWarning)
    assert not issubclass(kind, errors.FewlabelsError) or not issubclass(kind, Warning)


@pytest.mark.parametrize("kind", PUBLIC)
def test_the_drawn_tree_names_it(kind):
    assert kind.__name__ in inspect.getdoc(errors)


@pytest.mark.parametrize("kind", PUBLIC)
def test_names_say_what_they_are(kind):
    root = "Error" if issubclass(kind, errors.FewlabelsError) else "Warning"
    assert kind.__name__.endswith(root)
    assert kind.__doc__


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


def test_a_wrong_call_is_also_a_value_error():
    for kind in PUBLIC:
        assert issubclass(kind, ValueError) == issubclass(kind, errors.UsageError)


def test_an_unknown_name_suggests_the_nearest_and_lists_all():
    error = errors.UnknownNameError("strategy", "Margn", ["npc", "margin", "random"])
    assert str(error) == (
        "There is no strategy called 'Margn'. Did you mean 'margin'? "
        "Known: margin, npc, random."
    )


def test_an_unknown_name_suggests_nothing_far_fetched():
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


EDGES = ("cli/", "projects/export/card.py")  # they speak of commands
REPORTED = ("names.py", "experiments/bench/")  # still to be said otherwise


def said(path):
    """Yield the texts of a module that are not docstrings."""
    parts = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    alone = {id(one.value) for one in parts if isinstance(one, ast.Expr)}
    for one in parts:
        is_text = isinstance(one, ast.Constant) and isinstance(one.value, str)
        if is_text and id(one) not in alone:
            yield one.value


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
