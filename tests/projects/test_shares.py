"""Class shares: what the owner knows, what a training is told, what labels say."""

import warnings

import pytest
from tests.projects.toy import QUICK, answer, begin, go_on, paths, pictures, write

from fewlabels.errors import TargetWarning, UsageError
from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project
from fewlabels.projects.settings import (
    assumed_shares,
    read_shares,
    with_shares,
    without_stale_shares,
)
from fewlabels.rng import stream

LINEAR = Choice(name="frozen-linear", options={"encoder": "tests.models.toy:Means"})
SHORT = {"steps": 30, "minibatch_size": 4}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("unknown", "unknown"),
        ("even", "even"),
        ("40,60", (0.4, 0.6)),
        (" 1, 3", (0.25, 0.75)),
        ([1, 1], (0.5, 0.5)),
    ],
)
def test_shares_as_people_write_them(given, found):
    assert read_shares(given, 2) == found


@pytest.mark.parametrize("given", ["uneven", "1,2,3", "1", "0,1", "1,-1", "nan,1", ""])
def test_shares_that_cannot_be_meant(tmp_path, given):
    with pytest.raises(UsageError, match=r"'even', 'unknown' or such as 2,1"):
        begin(tmp_path, shares=given)
    assert not (tmp_path / "project").exists()


@pytest.mark.parametrize(
    ("name", "shares", "options", "meant"),
    [
        ("frozen-linear", "unknown", {}, None),
        ("frozen-linear", "even", {"shares": "even"}, (0.5, 0.5)),
        ("frozen-linear", (0.9, 0.1), {"shares": [0.9, 0.1]}, (0.9, 0.1)),
        ("fixmatch-darp", "even", {"target": "uniform"}, (0.5, 0.5)),
        ("frozen-fixmatch-darp", (0.9, 0.1), {"target": [0.9, 0.1]}, (0.9, 0.1)),
        ("fixmatch-darp", "unknown", {}, (0.5, 0.5)),  # chosen by somebody, as it is
        ("fixmatch", "unknown", {}, None),
    ],
)
def test_a_trainer_is_told_the_shares(name, shares, options, meant):
    found = with_shares(Choice(name=name), shares)
    assert found == Choice(name=name, options=options)
    assert assumed_shares(found, 2) == meant


def test_a_trainer_without_use_for_shares_says_so(tmp_path):
    message = "'supervised' has no use for class shares.* fixmatch-darp, .* ot, or"
    with pytest.raises(UsageError, match=message):
        begin(tmp_path, trainer=QUICK, shares="even")


def test_estimated_targets_assume_nothing():
    told = Choice(name="fixmatch-darp", options={"target": "estimated"})
    assert assumed_shares(told, 2) is None


def test_by_default_nothing_is_assumed(tmp_path):
    with begin(tmp_path, trainer=None) as project:
        chosen = project.settings.trainer
        assert not chosen.name.endswith("-darp")
        assert assumed_shares(chosen, 2) is None


def all_even_but_one(project):
    """Label every image that measures as even, and one of the others as odd."""
    asked = project.ask()
    names = paths(project, asked)
    rows = [(name, "even") for name in names]
    place = [one.role for one in asked.items].index("query")
    rows[place] = (names[place], "odd")
    project.tell(write(project.folder / "answers.csv", rows), annotator="ann")


@pytest.mark.parametrize("shares", ["unknown", "even"])
def test_labels_that_speak_against_the_shares_are_noted(tmp_path, shares):
    pictures(tmp_path / "images", range(44))
    options = {"budget": 24, "audit": 20, "query": 2}
    with begin(tmp_path, trainer=LINEAR, shares=shares, **options) as project:
        all_even_but_one(project)
        assert not any("assumes" in note for note in project.status().notes)
        project.train()
        notes = [one for one in project.status().notes if "assumes" in one]
        if shares == "unknown":
            assert notes == []
            return
        (note,) = notes
        assert "20 are 'even', but training assumes 50.0 %. Such an" in note
        assert "'frozen-linear' without shares" in note


def test_a_trainer_speaks_to_nobody_in_its_own_words(tmp_path):
    impossible = {"target": [0.999, 0.001], "capacity": 1.0, "warmup": 0.1}
    chosen = Choice(name="fixmatch-darp", options=SHORT | impossible)
    with begin(tmp_path, trainer=chosen) as project, warnings.catch_warnings():
        go_on(project)
        snapshot = project.snapshot()
        pool = snapshot.pool(project.images(snapshot))
        with pytest.warns(TargetWarning):
            project.trainer().fit(pool, stream(0, "train", 0))
        warnings.simplefilter("error", TargetWarning)
        assert project.train().is_new


def test_nothing_is_foretold_where_nothing_is_to_be_trained(tmp_path):
    with begin(tmp_path) as project:
        assert project.expectation() == ""
        answer(project, project.ask())
        assert "Expected: " in project.expectation()
        project.train()
        assert project.expectation() == ""


def test_the_head_of_a_project_is_kept_exported_and_read(tmp_path):
    with begin(tmp_path, trainer=LINEAR, shares="3,1") as project:
        go_on(project)
        assert project.train().is_new
        assert not project.train().is_new
        go_on(project)  # chosen with the model
        done = project.export(tmp_path / "export")
        assert done.model.number == 1  # with the labels since
    with Project.open(project.folder, allow_code=True) as again:
        assert again.settings.trainer.options["shares"] == [0.75, 0.25]


def test_a_class_that_is_added_outgrows_the_shares(tmp_path):
    with begin(tmp_path, trainer=LINEAR, shares="1,3") as project:
        go_on(project)
        project.add_classes(["neither"])
        assert project.expectation()
        assert project.train().is_new
        (note,) = [one for one in project.status().notes if "shares" in one]
        assert "given for 2 of 3 classes and are not used" in note
        assert project.ask().items


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("frozen-linear", {"shares": [0.9, 0.1]}, {"shares": "unknown"}),
        ("frozen-linear", {"shares": "even"}, {"shares": "even"}),
        ("frozen-linear", {"shares": [0.5, 0.3, 0.2]}, {"shares": [0.5, 0.3, 0.2]}),
        ("fixmatch-darp", {"target": [0.9, 0.1]}, {"target": "estimated"}),
        ("fixmatch-darp", {}, {}),
        ("my:Trainer", {"shares": [1]}, {"shares": [1]}),
    ],
)
def test_shares_of_other_classes_are_unknown(name, before, after):
    found = without_stale_shares(Choice(name=name, options=before), 3)
    assert found == Choice(name=name, options=after)
