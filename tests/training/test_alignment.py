"""FixMatch with DARP: what is stored, when it is refined, and what counts."""

import warnings

import pytest
import torch
from lightning_fabric import Fabric
from tests.training.conftest import NUM_ITEMS, tiny_pool

from fewlabels import models, rng
from fewlabels.errors import InfeasibleTargetError, TargetWarning, UsageError
from fewlabels.training import FixMatchDarpTrainer, alignment, darp
from fewlabels.training.distributed import ProcessGroup

CLASSES = 3


def begun(num_classes=CLASSES, **options):
    """Return the objective of a trainer on the tiny pool."""
    settings = {"steps": 100, "minibatch_size": 4, "mu": 2, "threshold": 0.6}
    trainer = FixMatchDarpTrainer.small(**settings | options)
    pool = tiny_pool(num_classes=num_classes)
    views = trainer.views(pool)
    return trainer.objective(pool, views, 5, ProcessGroup(Fabric(accelerator="cpu")))


def rows(num, seed=0, sharpness=2.0):
    draws = rng.stream(seed, "rows")
    return (sharpness * torch.randn(num, CLASSES, generator=draws)).softmax(dim=1)


def fed(objective, step, seed=0, sharpness=2.0):
    """Give predictions for all items as those of one step; return the labels."""
    items = torch.arange(NUM_ITEMS)
    found = rows(NUM_ITEMS, seed, sharpness)
    return found, objective.pseudo_labels(found, items, step)


def test_predictions_are_stored_as_they_come():
    objective = begun()
    assert (objective.stored_NC == 1 / CLASSES).all()
    items = torch.tensor([3, 7, 9])
    objective.pseudo_labels(rows(3), items, 0)
    assert torch.equal(objective.stored_NC[items], rows(3))
    untouched = torch.ones(NUM_ITEMS, dtype=torch.bool)
    untouched[items] = False
    assert (objective.stored_NC[untouched] == 1 / CLASSES).all()


def test_the_weak_views_of_the_step_are_what_is_stored():
    objective = begun()
    network = models.build("wrn-10-1", (1, 4, 4), CLASSES, rng.stream(0, "w")).train()
    passes = []
    network.register_forward_hook(lambda _, args, out: passes.append(out.detach()))
    minibatch = objective.minibatch(0)
    objective.loss(network, minibatch, 0)
    expected = passes[0].split([4, 8, 8])[1].softmax(dim=1)
    last = {int(item): row for item, row in zip(minibatch.items, expected, strict=True)}
    for item, row in last.items():
        assert torch.equal(objective.stored_NC[item], row)


def test_it_is_plain_fixmatch_before_the_warm_up_ends():
    objective = begun(warmup=0.4)
    found, labels = fed(objective, step=39)
    assert torch.equal(labels.classes, found.argmax(dim=1))
    assert torch.equal(labels.keeps, found.amax(dim=1) >= 0.6)
    assert list(labels.figures) == ["kept-raw"]
    assert not objective.counts.any()


@pytest.mark.parametrize(
    ("step", "refines"), [(39, False), (40, True), (45, False), (50, True), (99, False)]
)
def test_it_refines_after_the_warm_up_every_few_steps(step, refines):
    objective = begun(warmup=0.4, refine_every=10)
    fed(objective, step)
    assert objective.counts.tolist() == [int(refines), 0]


def test_refined_rows_are_those_of_the_whole_stored_matrix():
    objective = begun(warmup=0, capacity=None)
    found, labels = fed(objective, step=0)
    target = torch.full((CLASSES,), NUM_ITEMS / CLASSES, dtype=torch.float64)
    expected = darp.refine(found, target, capacity=None)
    torch.testing.assert_close(objective.refined_NC, expected)
    assert torch.equal(labels.classes, expected.argmax(dim=1))
    assert (labels.classes != found.argmax(dim=1)).any()


def test_between_refinements_the_refined_rows_stay():
    objective = begun(warmup=0, refine_every=10)
    _, first = fed(objective, step=0)
    kept = objective.refined_NC.clone()
    found, second = fed(objective, step=1, seed=1)
    assert torch.equal(objective.refined_NC, kept)
    assert torch.equal(second.classes, first.classes)
    assert torch.equal(objective.stored_NC, found)


@pytest.mark.parametrize("mask_on", ["refined", "raw", "both"])
def test_whose_confidence_counts(mask_on):
    objective = begun(warmup=0, mask_on=mask_on)
    found, labels = fed(objective, step=0)
    raw = found.amax(dim=1) >= 0.6
    refined = objective.refined_NC.amax(dim=1) >= 0.6
    assert (raw != refined).any()
    expected = {"raw": raw, "refined": refined, "both": raw & refined}[mask_on]
    assert torch.equal(labels.keeps, expected)
    assert float(labels.figures["kept-raw"]) == pytest.approx(float(raw.float().mean()))
    share = float(refined.float().mean())
    assert float(labels.figures["kept-refined"]) == pytest.approx(share)


def test_an_impossible_target_is_said_once_counted_and_skipped(monkeypatch):
    objective = begun(warmup=0, refine_every=1)

    def impossible(*_, **__):
        raise InfeasibleTargetError("no such matrix")

    monkeypatch.setattr(alignment.darp, "solve", impossible)
    with pytest.warns(TargetWarning, match=r"step 0 was skipped.*no such matrix"):
        found, labels = fed(objective, step=0)
    assert torch.equal(labels.classes, found.argmax(dim=1))
    assert objective.counts.tolist() == [0, 1]
    _, labels = fed(objective, step=1)
    assert int(labels.figures["skipped-refinements"]) == 2


def test_the_last_of_an_items_predictions_is_stored():
    objective = begun()
    items = torch.arange(4096) % 7
    found = rows(4096)
    for _ in range(5):
        objective.pseudo_labels(found, items, 0)
        assert torch.equal(objective.stored_NC[0], found[4095 - 4095 % 7])


def test_predictions_that_are_no_numbers_are_not_stored():
    objective = begun(warmup=0, refine_every=1)
    fed(objective, step=0)
    before = objective.stored_NC.clone()
    lost = torch.full((NUM_ITEMS, CLASSES), float("nan"))
    objective.pseudo_labels(lost, torch.arange(NUM_ITEMS), 1)
    assert torch.equal(objective.stored_NC, before)


def test_a_target_that_plainly_does_not_fit_is_said_once():
    objective = begun(warmup=0, refine_every=1, capacity=None)
    uneven = rows(NUM_ITEMS)
    uneven[:, 0] += 3
    uneven /= uneven.sum(dim=1, keepdim=True)
    items = torch.arange(NUM_ITEMS)
    with pytest.warns(TargetWarning, match=r"8\d% as '0' and .*against 33% and 33%"):
        objective.pseudo_labels(uneven, items, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        objective.pseudo_labels(uneven, items, 1)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("uniform", [1 / 3, 1 / 3, 1 / 3]),
        ((0.5, 0.3, 0.2), [0.5, 0.3, 0.2]),
        ((5, 3, 2), [0.5, 0.3, 0.2]),
        ("labeled", [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_targets(target, expected):
    objective = begun(target=target)
    pool = objective.minibatcher.pool
    shares = objective.settings.wanted(pool, rows(NUM_ITEMS)) / NUM_ITEMS
    assert shares.tolist() == pytest.approx(expected)


def test_an_estimated_target_follows_the_predictions():
    objective = begun(target="estimated")
    sure = torch.eye(CLASSES)[[0] * 20 + [1] * 15 + [2] * 5] * 0.98 + 0.02 / 3
    shares = objective.settings.wanted(objective.minibatcher.pool, sure) / NUM_ITEMS
    assert shares.tolist() == pytest.approx([0.5, 0.375, 0.125], abs=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warmup": 1.0}, "warmup is 1.0"),
        ({"refine_every": 0}, "refine_every is 0"),
        ({"mask_on": "none"}, "mask_on called 'none'"),
        ({"target": "even"}, "target called 'even'"),
        ({"capacity": 0.5}, "capacity is 0.5; below 1"),
        ({"capacity": float("nan")}, "capacity is nan"),
        ({"target": (0.5, -0.1)}, "every share must be a number above zero"),
        ({"solver": "secant"}, "solver called 'secant'"),
    ],
)
def test_settings_that_make_no_sense_are_explained(options, message):
    with pytest.raises(UsageError, match=message):
        FixMatchDarpTrainer.small(**options)


def test_a_target_for_another_number_of_classes_is_explained():
    with pytest.raises(UsageError, match="target gives 2 shares, and there are 3"):
        FixMatchDarpTrainer.small(target=(0.5, 0.5)).check(tiny_pool(num_classes=3))
