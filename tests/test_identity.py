import importlib
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.experiments.runs.toy import FirstOnes, Resuming
from tests.training.conftest import tiny_pool

from fewlabels import strategies, training
from fewlabels.experiments.evaluations import mark_of
from fewlabels.names import NOT_IN_IDENTITY, Identity, identity
from fewlabels.pool import Split
from fewlabels.training.workspace import fingerprint


@dataclass(frozen=True)
class Part:
    width: float = 0.5


@dataclass(frozen=True)
class Mine:
    steps: int = 3
    part: Part = Part()
    cache: str | None = field(default=None, metadata=NOT_IN_IDENTITY)


class Plain:
    def __init__(self, rate, scale):
        self.rate, self.scale, self._seen = rate, scale, []


@pytest.mark.parametrize("name", strategies.names())
def test_all_options_of_a_strategy_are_told_and_survive_a_file(name):
    found = identity(strategies.resolve(name))
    assert not found.source
    assert Identity.model_validate_json(found.model_dump_json()) == found
    assert identity(strategies.resolve(name)) == found


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
            fingerprint(identity(trainer), pool, "", "", 0),
        )
        for trainer in (training.make(name), training.make(name, **done))
    ]
    assert marks[0] == marks[1]


def test_what_decides_nothing_is_left_out():
    assert identity(Mine(cache="here")) == identity(Mine(cache="there"))
    assert identity(Mine(steps=4)) != identity(Mine())
    assert identity(Mine(part=Part(0.25))) != identity(Mine())


def test_the_source_is_that_of_all_modules_outside():
    class Child(Resuming):
        pass

    assert set(identity(Child()).source) == {__name__, "tests.experiments.runs.toy"}
    assert set(identity(FirstOnes()).source) == {"tests.experiments.runs.toy"}


def test_the_source_of_an_own_encoder_is_a_part_of_a_training(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def made(text):
        (tmp_path / "own_encoder.py").write_text(f"from torch import nn\n{text}")
        sys.modules.pop("own_encoder", None)
        importlib.invalidate_caches()
        return identity(training.make("frozen-linear", encoder="own_encoder:net"))

    one = made("net = nn.Flatten()\n")
    assert list(one.source) == ["own_encoder"]
    assert one.source["own_encoder"] != "unknown"
    assert made("net = nn.Flatten()\n") == one
    changes = one.changes(made("net = nn.Flatten()  # another one\n"))
    assert changes == ["the source of 'own_encoder' is not what it was"]
    sys.modules.pop("own_encoder")
    assert not identity(training.make("frozen-linear", encoder="pixels")).source


def test_any_object_has_an_identity():
    one, other = Plain(0.1, Path("a")), Plain(0.1, Path("a"))
    assert identity(one) == identity(other)
    assert identity(one).options.keys() == {"rate", "scale"}
    assert identity(Plain(float("nan"), object())) == identity(
        Plain(float("nan"), object())
    )


def test_changes_are_told_one_by_one():
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
