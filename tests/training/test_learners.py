"""What a learner asks for it gets: views, layers, memory, network and average."""

import json
from dataclasses import dataclass, replace

import pytest
import torch
import torch.nn.functional as F
from tests.training.conftest import NUM_ITEMS, changed, tiny_pool
from tests.training.test_resume import StoppedError, stop_before  # noqa: F401
from tests.training.test_workspace import fit, same

from fewlabels.models import as_input
from fewlabels.training import make
from fewlabels.training.alignment import Darp
from fewlabels.training.learner import Learner, Loss
from fewlabels.training.loop import Execution
from fewlabels.training.training import Training
from fewlabels.training.views import View

SEEN = []


@dataclass(frozen=True, kw_only=True)
class Greedy(Learner):
    """Wants something of everything: two strong views, a layer, memory, the average."""

    mu: int = 3
    weight: float = 0.5

    @property
    def views(self):
        named = {
            "labeled_strong": View("strong", is_labeled=True),
            "weak": View("weak"),
        }
        strong = {f"strong_{number}": View("strong") for number in (0, 1)}
        return super().views | named | strong

    @property
    def heads(self):
        return {"projection": 5}

    def memory(self, pool):
        return {"mean": torch.zeros(5), "seen": torch.zeros(len(pool))}

    def loss(self, step):
        labeled, strong, *others = step.outputs(
            "labeled", "labeled_strong", "strong_0", "strong_1"
        )
        with torch.no_grad():
            taught = step.average(as_input(step.minibatch.views["weak"]))
        beliefs = step.pseudo_labels(
            taught.logits.softmax(dim=1), lambda rows: rows.amax(dim=1)
        )
        apart = (others[0].heads["projection"] - others[1].heads["projection"]).square()
        noise = torch.rand(1, generator=step.stream("noise"))
        step.memory["mean"].lerp_(taught.heads["projection"].mean(dim=0), 0.1)
        step.memory["seen"].index_add_(0, step.minibatch.items, torch.ones(12))
        SEEN.append((step.number, labeled, taught, beliefs, step))
        right = sum(
            F.cross_entropy(one.logits, step.minibatch.labels)
            for one in (labeled, strong)
        )
        soft = -(beliefs.probabilities * others[0].logits.log_softmax(dim=1)).sum(dim=1)
        soft = (beliefs.keeps * soft).mean()
        return Loss(right + soft + noise * self.weight * apart.mean(), {"soft": soft})


@pytest.fixture
def greedy():
    """Make a training by the greedy learner."""
    SEEN.clear()

    def put_together(*, inputs="", alignment=None, **options):
        short = {"steps": 12, "minibatch_size": 4, "save_every": 0.0} | options
        if inputs:
            short["encoder"] = "tests.models.toy:Means"
        base = make(f"{inputs}supervised", **short)
        return replace(base, learner=Greedy(), alignment=alignment)

    return put_together


DARP = Darp(warmup=0.2, refine_every=3)


@pytest.mark.parametrize(
    ("inputs", "alignment"),
    [
        ("", DARP),
        ("frozen-", None),
        pytest.param("", None, marks=pytest.mark.slow),
        pytest.param("frozen-", DARP, marks=pytest.mark.slow),
    ],
)
def test_a_learner_of_ones_own_goes_on_where_it_was(
    tmp_path,
    greedy,
    inputs,
    alignment,
    stop_before,  # noqa: F811
):
    _, stop_at = stop_before
    cache = Execution(save_every=0.0, cache=str(tmp_path / "cache"))
    options = {
        "trainer": replace(greedy(inputs=inputs, alignment=alignment), execution=cache),
        "pool": tiny_pool(shape=(1, 8, 8)),
    }
    expected = fit(None, **options)
    stop_at(7)
    with pytest.raises(StoppedError):
        fit(tmp_path / "work", **options)
    assert same(fit(tmp_path / "work", **options), expected)
    assert not same(fit(None, seed=1, **options), expected)


def test_it_is_given_what_it_asked_for(greedy, pool):
    trainer = greedy()
    fit(None, trainer, pool)
    number, labeled, taught, beliefs, step = SEEN[-1]
    assert number == 11
    views = step.minibatch.views
    names = ["labeled", "labeled_strong", "weak", "strong_0", "strong_1"]
    assert sorted(views) == sorted(names)
    assert {name: len(view) for name, view in views.items()} == dict(
        zip(names, (4, 4, 12, 12, 12), strict=True)
    )
    is_bright = views["labeled"].float().mean(dim=(1, 2, 3)) > 135
    assert torch.equal(is_bright.long(), step.minibatch.labels)
    assert not torch.equal(views["strong_0"], views["strong_1"])
    assert not torch.equal(views["labeled"], views["labeled_strong"])
    assert labeled.features.shape == (4, 64)
    assert labeled.heads["projection"].shape == (4, 5)
    assert labeled.logits.requires_grad
    assert not taught.logits.requires_grad
    assert torch.equal(beliefs.probabilities, taught.logits.softmax(dim=1))
    assert step.memory["seen"].sum() == 12 * 12
    assert len(step.memory["seen"]) == NUM_ITEMS
    assert step.memory["mean"].abs().sum() > 0


def test_its_settings_and_its_code_decide(greedy):
    trainer = greedy()
    told = trainer.identity
    assert told.type == "GreedyTrainer"
    assert told.options["weight"] == 0.5
    assert set(told.source) == {__name__}
    assert changed(trainer, weight=0.25).identity != told
    assert greedy(alignment=Darp()).identity.type == "GreedyDarpTrainer"
    json.dumps(told.model_dump())


def test_how_it_is_done_decides_nothing(tmp_path, greedy):
    trainer = greedy()
    other = Execution(prefetch=2, save_every=5.0)
    done = replace(trainer, execution=other)
    assert done == trainer
    assert done.identity == trainer.identity
    first = fit(tmp_path, trainer)
    steps = len(SEEN)
    assert same(fit(tmp_path, done), first)
    assert len(SEEN) == steps
    assert same(fit(None, done), first)


def test_a_training_is_its_parts(pool):
    known = make("frozen-fixmatch-darp", steps=9)
    parts = {name: getattr(known, name) for name in ("inputs", "learner", "schedule")}
    assert Training(**parts) == make("frozen-fixmatch", steps=9)
    assert Training(**parts, alignment=Darp()) == known
