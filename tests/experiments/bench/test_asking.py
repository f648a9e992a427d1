"""What people ask for is checked before anything is done."""

import json

import pytest
from tests.experiments.bench import little

from fewlabels.errors import UsageError
from fewlabels.experiments.bench.experiment import (
    Condition,
    Experiment,
    checked,
    read_experiment,
)
from fewlabels.experiments.settings import Choice


def test_an_experiment_can_be_a_file(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\n"
        "title: Mine\n"
        "conditions: [{settings: {data: digits, trainer: supervised}}]\n"
        "strategies: [random, {name: npc, draws: 50}]\n"
        "seeds: [0, 1]\n"
        "footprint: {seconds_per_step: 0.01, megabytes: 1}\n"
    )
    found = read_experiment(file)
    assert [one.label for one in found.strategies] == ["random", "npc (draws = 50)"]
    file.write_text(file.read_text().replace("[0, 1]", "2"))  # the first two seeds
    assert read_experiment(file) == found
    file.write_text("name: mine\n")
    with pytest.raises(UsageError, match="'conditions' is missing"):
        read_experiment(file)
    with pytest.raises(UsageError, match="could not be read"):
        read_experiment(tmp_path / "nothing.yaml")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"retrainings": 10**9}, "'retrainings' is 1000000000: input should be less"),
        (
            {
                "seeds": list(range(9_091)),
                "strategies": [
                    {"name": "npc", "options": {"draws": n}} for n in range(1, 12)
                ],
            },
            "It has 100,001 runs; plan 100,000 at most",
        ),
        ({"strategies": []}, "needs a strategy; give at least one"),
        ({"seeds": 10**15}, "runs; plan 100,000 at most"),
    ],
)
def test_more_runs_than_anybody_does_are_not_planned(tmp_path, changes, message):
    content = little.experiment().model_dump(mode="json") | changes
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps(content))
    with pytest.raises(UsageError, match=message):
        read_experiment(file, allow_code=True)


def test_wrong_parts_are_told_before_anything_is_loaded():
    twice = little.experiment().model_copy(update={"seeds": (0, 0)})
    with pytest.raises(UsageError, match="is there 2 times; give each once"):
        checked(twice)
    unknown = little.experiment().model_copy(
        update={"strategies": (Choice(name="mystery"),)}
    )
    with pytest.raises(UsageError, match="mystery"):
        checked(unknown)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query": 0}, "query 0 and budget 20"),
        ({"start": 30}, "start is 30, query 5 and budget 20"),
        ({"query": 11}, "query 11 and budget 20"),
        ({"data": Choice(name="digits", options={"sise": 8})}, "'size'"),
        ({"data": Choice(name="digits", options={"size": "big"})}, "'size' is 'big'"),
    ],
)
def test_wrong_settings_are_told_once_and_not_by_every_run(changes, message):
    settings = little.experiment().conditions[0].settings
    wrong = Condition(settings=settings.model_copy(update=changes))
    with pytest.raises(UsageError, match=message):
        checked(little.experiment(conditions=(wrong,)))


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"strategies": [little.Failing()]}, "strategies.0"),
        ({"strategies": [little.Failing]}, "strategies.0"),
        ({"strategies": [{"name": "npc", "kernel": object}]}, "strategies.0"),
        (
            {"conditions": [{"settings": {"data": print}}]},
            "conditions.0.settings.data",
        ),
    ],
)
def test_parts_are_given_by_name_and_not_as_objects(changes, place):
    asked = {"name": "toy", "strategies": ["random"], "seeds": [0]}
    asked["conditions"] = [{"settings": {"data": "digits"}}]
    message = f"(?s){place}.*give a name, or an import path such as 'my_module:Name'"
    with pytest.raises(ValueError, match=message):
        Experiment(**asked | changes)


@pytest.mark.parametrize("name", ["../mine", "a/b", "", ".hidden", "two words"])
def test_a_name_that_cannot_name_a_file_is_refused(name):
    renamed = little.experiment().model_copy(update={"name": name})
    with pytest.raises(UsageError, match=r"'name' is .* files are named by it"):
        checked(renamed)


def test_the_place_of_data_does_not_depend_on_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    settings = little.experiment().conditions[0].settings
    here = settings.model_copy(update={"data": Choice(name="photos")})
    found = checked(little.experiment(conditions=(Condition(settings=here),)))
    assert found.conditions[0].settings.data.name == str(tmp_path / "photos")
    assert checked(little.experiment()) == little.experiment()


@pytest.mark.parametrize("name", ["photos-of-nobody", 5000 * "x", "nul\0"])
def test_data_that_are_not_there_are_told_before_any_run(name):
    settings = little.experiment().conditions[0].settings
    gone = settings.model_copy(update={"data": Choice(name=name)})
    with pytest.raises(
        UsageError, match=f"no data set, file or folder called '{name}'"
    ):
        checked(little.experiment(conditions=(Condition(settings=gone),)))
