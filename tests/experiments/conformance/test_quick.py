"""A quick check trains few steps, and ends within its time."""

import sys
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from torch.nn.functional import cross_entropy

from fewlabels.experiments import conformance
from fewlabels.experiments.conformance import check
from fewlabels.protocols import ignore
from fewlabels.training.learner import Learner


@dataclass(frozen=True)
class Endless:
    """A trainer that takes hours."""

    def fit(self, pool, generator, *, workspace=None, on_checkpoint=ignore):
        while True:
            try:
                time.sleep(3600)
            except Exception:  # noqa: BLE001 - as somebody may write
                continue


def outcomes(*given, **options):
    return {each.name: each.outcome for each in check(*given, **options)}


def test_a_trainer_that_takes_hours_is_left_in_time(monkeypatch):
    monkeypatch.setattr(conformance, "_SECONDS", 0.3)
    began = time.monotonic()
    found = outcomes(Endless(), kind="trainer", quick=True)
    assert time.monotonic() - began < 20
    assert set(found.values()) == {"not run"}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (
            "fixmatch-darp",
            {"network": "wrn-28-2", "steps": 2**20, "minibatch_size": 64},
        ),
        ("spreading", {}),
    ],
)
def test_few_steps_keep_all_promises_but_that_of_a_whole_training(name, options):
    found = outcomes(name, options, kind="trainer", quick=True)
    assert "failed" not in found.values()
    assert found["seeded"] == "passed"
    assert found["learns"] == "not run"


@dataclass(frozen=True, kw_only=True)
class Plain(Learner):
    """A loss of one's own: the labeled items alone."""

    def loss(self, step):
        logits = step.outputs("labeled")[0].logits
        return cross_entropy(logits, step.minibatch.labels)


@pytest.mark.parametrize("given", [Plain, Plain()])
def test_a_learner_is_checked_as_a_trainer(given, monkeypatch):
    monkeypatch.setitem(sys.modules, "my_loss", SimpleNamespace(Plain=Plain))
    found = outcomes("my_loss:Plain" if given is Plain else given, quick=True)
    assert "failed" not in found.values()
    assert found["seeded"] == "passed"
