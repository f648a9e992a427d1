"""A loss of one's own, from outside: by its path, with all options of a training."""

import dataclasses
import sys
import types

import pytest
import torch
from tests.training.conftest import tiny_pool
from torch.nn.functional import cross_entropy

from fewlabels import rng, training
from fewlabels.errors import Count, UnknownNameError, UsageError
from fewlabels.names import identity
from fewlabels.training.learner import Learner, Loss
from fewlabels.training.training import Training
from fewlabels.training.views import View


@dataclasses.dataclass(frozen=True, kw_only=True)
class EntropyMinimum(Learner):
    mu: Count = 2
    weight: float = 0.1

    @property
    def views(self):
        return {"labeled": View("weak", is_labeled=True), "unlabeled": View("weak")}

    def loss(self, step):
        labeled, unlabeled = step.outputs("labeled", "unlabeled")
        supervised = cross_entropy(labeled.logits, step.minibatch.labels)
        rows = unlabeled.logits.softmax(dim=1)
        entropy = -(rows * rows.log()).sum(dim=1).mean()
        return Loss.of(supervised, entropy, self.weight)


@pytest.fixture
def path(monkeypatch):
    module = types.SimpleNamespace(EntropyMinimum=EntropyMinimum)
    monkeypatch.setitem(sys.modules, "my_loss", module)
    return "my_loss:EntropyMinimum"


def weights(trainer):
    made = trainer.fit(tiny_pool(), rng.stream(0, "train"))
    return torch.cat([p.flatten() for p in made.module.parameters()])


def test_the_path_of_a_learner_is_a_trainer(path):
    options = {"steps": 3, "minibatch_size": 4, "mu": 3, "weight": 0.5}
    made = training.resolve(path, options)
    assert isinstance(made, Training)
    assert made.learner == EntropyMinimum(mu=3, weight=0.5)
    assert made.schedule.steps == 3
    assert set(identity(made).source) == {__name__}
    without = weights(training.resolve(path, options | {"weight": 0.0}))
    assert not torch.equal(weights(made), without)
    with pytest.raises(UnknownNameError, match="Did you mean 'weight'"):
        training.resolve(path, {"wieght": 1})


def test_so_is_an_object(path):
    assert training.resolve(EntropyMinimum()) == training.resolve(path)


def test_an_option_that_came_later_renames_nothing():
    plain = training.make("fixmatch")
    assert "channels_last" not in identity(plain).options
    other = training.make("fixmatch", channels_last=True, steps=2, minibatch_size=4)
    assert identity(other).options["channels_last"] is True
    same = training.make("fixmatch", steps=2, minibatch_size=4)
    torch.testing.assert_close(weights(other), weights(same), rtol=0, atol=1e-3)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Supervised(Learner):
    shown: str = "labeled"
    is_bare: bool = True

    def loss(self, step):
        logits = step.outputs(self.shown)[0].logits
        total = cross_entropy(logits, step.minibatch.labels)
        return total if self.is_bare else Loss(total)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unfed(Learner):
    @property
    def views(self):
        return {"unlabeled": View("weak")}


def test_a_loss_may_be_its_total_alone():
    bare, wrapped = (
        training.resolve(Supervised(is_bare=is_bare)) for is_bare in (True, False)
    )
    few = {"steps": 2, "minibatch_size": 4}
    bare, wrapped = (
        dataclasses.replace(made, schedule=dataclasses.replace(made.schedule, **few))
        for made in (bare, wrapped)
    )
    assert torch.equal(weights(bare), weights(wrapped))


def test_a_view_that_was_not_asked_for_is_named():
    with pytest.raises(UnknownNameError, match="no view called 'strong'"):
        weights(training.resolve(Supervised(shown="strong")))


def test_a_mistyped_kind_of_view_is_refused():
    with pytest.raises(UnknownNameError, match=r"'week'\..*Known: strong, weak\."):
        View("week")


def test_views_of_unlabeled_items_need_some():
    with pytest.raises(UsageError, match="set mu above 0"):
        Unfed()
