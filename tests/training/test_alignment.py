"""FixMatch with DARP: what is stored, when it is refined, and what counts."""

import warnings

import pytest
import torch
from lightning_fabric import Fabric
from tests.training.conftest import NUM_ITEMS, tiny_pool

from fewlabels import models, rng
from fewlabels.errors import InfeasibleTargetError, TargetWarning, UsageError
from fewlabels.training import alignment, darp, loop, make
from fewlabels.training import options as names_of
from fewlabels.training.devices import ProcessGroup
from fewlabels.training.learner import Minibatch
from fewlabels.training.training import TrainingTask

CLASSES = 3


def begun(num_classes=CLASSES, name="fixmatch-darp", **options):
    """Return a training on the tiny pool before its first step."""
    settings = {"steps": 100, "minibatch_size": 4, "mu": 2, "threshold": 0.6}
    known = {key: settings[key] for key in settings if key in names_of(name)}
    trainer = make(name, **known | options)
    pool = tiny_pool(num_classes=num_classes)
    task = TrainingTask(trainer, pool, trainer.inputs.of(pool, None), 5, None)
    network = models.build("wrn-10-1", (1, 4, 4), num_classes, rng.stream(0, "w"))
    return loop.Stepper(task, ProcessGroup(Fabric(accelerator="cpu")), network)


def labels_of(stepper, found, items, number):
    """Return what becomes of predictions for some items, as those of one step."""
    step = stepper.step(number, Minibatch(items[:0], items, {}))
    return stepper.learner.pseudo_labels(step, found)


def rows(num, seed=0, sharpness=2.0):
    draws = rng.stream(seed, "rows")
    return (sharpness * torch.randn(num, CLASSES, generator=draws)).softmax(dim=1)


def fed(stepper, step, seed=0, sharpness=2.0):
    """Give predictions for all items as those of one step; return the labels."""
    items = torch.arange(NUM_ITEMS)
    found = rows(NUM_ITEMS, seed, sharpness)
    return found, labels_of(stepper, found, items, step)


def test_predictions_are_stored_as_they_come():
    stepper = begun()
    assert (stepper.memory["stored"] == 1 / CLASSES).all()
    items = torch.tensor([3, 7, 9])
    labels_of(stepper, rows(3), items, 0)
    assert torch.equal(stepper.memory["stored"][items], rows(3))
    untouched = torch.ones(NUM_ITEMS, dtype=torch.bool)
    untouched[items] = False
    assert (stepper.memory["stored"][untouched] == 1 / CLASSES).all()


def test_the_weak_views_of_the_step_are_what_is_stored():
    stepper = begun()
    passes = []
    stepper.learning.train().register_forward_hook(
        lambda _, args, out: passes.append(out.logits.detach())
    )
    minibatch = stepper.minibatch(0)
    stepper.learner.loss(stepper.step(0, minibatch))
    expected = passes[0].split([4, 8, 8])[1].softmax(dim=1)
    last = {int(item): row for item, row in zip(minibatch.items, expected, strict=True)}
    for item, row in last.items():
        assert torch.equal(stepper.memory["stored"][item], row)


def test_it_is_plain_fixmatch_before_the_warm_up_ends():
    stepper = begun(warmup=0.4)
    found, labels = fed(stepper, step=39)
    assert torch.equal(labels.classes, found.argmax(dim=1))
    assert torch.equal(labels.keeps, found.amax(dim=1) >= 0.6)
    assert list(labels.figures) == ["kept-raw"]
    assert not stepper.memory["counts"].any()


@pytest.mark.parametrize(
    ("step", "refines"), [(39, False), (40, True), (45, False), (50, True), (99, False)]
)
def test_it_refines_after_the_warm_up_every_few_steps(step, refines):
    stepper = begun(warmup=0.4, refine_every=10)
    fed(stepper, step)
    assert stepper.memory["counts"].tolist() == [int(refines), 0]


def test_refined_rows_are_those_of_the_whole_stored_matrix():
    stepper = begun(warmup=0, capacity=None)
    found, labels = fed(stepper, step=0)
    target = torch.full((CLASSES,), NUM_ITEMS / CLASSES, dtype=torch.float64)
    expected = darp.refine(found, target, capacity=None)
    torch.testing.assert_close(stepper.memory["refined"], expected)
    assert torch.equal(labels.classes, expected.argmax(dim=1))
    assert (labels.classes != found.argmax(dim=1)).any()


def test_between_refinements_the_refined_rows_stay():
    stepper = begun(warmup=0, refine_every=10)
    _, first = fed(stepper, step=0)
    kept = stepper.memory["refined"].clone()
    found, second = fed(stepper, step=1, seed=1)
    assert torch.equal(stepper.memory["refined"], kept)
    assert torch.equal(second.classes, first.classes)
    assert torch.equal(stepper.memory["stored"], found)


@pytest.mark.parametrize("mask_on", ["refined", "raw", "both"])
def test_whose_confidence_counts(mask_on):
    stepper = begun(warmup=0, mask_on=mask_on)
    found, labels = fed(stepper, step=0)
    raw = found.amax(dim=1) >= 0.6
    refined = stepper.memory["refined"].amax(dim=1) >= 0.6
    assert (raw != refined).any()
    expected = {"raw": raw, "refined": refined, "both": raw & refined}[mask_on]
    assert torch.equal(labels.keeps, expected)
    assert float(labels.figures["kept-raw"]) == pytest.approx(float(raw.float().mean()))
    share = float(refined.float().mean())
    assert float(labels.figures["kept-refined"]) == pytest.approx(share)


def test_an_impossible_target_is_said_once_counted_and_skipped(monkeypatch):
    stepper = begun(warmup=0, refine_every=1)

    def impossible(*_, **__):
        raise InfeasibleTargetError("no such matrix")

    monkeypatch.setattr(alignment.darp, "solve", impossible)
    with pytest.warns(TargetWarning, match=r"step 0 was skipped.*no such matrix"):
        found, labels = fed(stepper, step=0)
    assert torch.equal(labels.classes, found.argmax(dim=1))
    assert stepper.memory["counts"].tolist() == [0, 1]
    _, labels = fed(stepper, step=1)
    assert int(labels.figures["skipped-refinements"]) == 2


def test_the_last_of_an_items_predictions_is_stored():
    stepper = begun()
    items = torch.arange(4096) % 7
    found = rows(4096)
    for _ in range(5):
        labels_of(stepper, found, items, 0)
        assert torch.equal(stepper.memory["stored"][0], found[4095 - 4095 % 7])


def test_predictions_that_are_no_numbers_are_not_stored():
    stepper = begun(warmup=0, refine_every=1)
    fed(stepper, step=0)
    before = stepper.memory["stored"].clone()
    lost = torch.full((NUM_ITEMS, CLASSES), float("nan"))
    labels_of(stepper, lost, torch.arange(NUM_ITEMS), 1)
    assert torch.equal(stepper.memory["stored"], before)


def test_a_target_that_plainly_does_not_fit_is_said_once():
    stepper = begun(warmup=0, refine_every=1, capacity=None)
    uneven = rows(NUM_ITEMS)
    uneven[:, 0] += 3
    uneven /= uneven.sum(dim=1, keepdim=True)
    items = torch.arange(NUM_ITEMS)
    with pytest.warns(TargetWarning, match=r"8\d% as '0' against 33% of"):
        labels_of(stepper, uneven, items, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labels_of(stepper, uneven, items, 1)


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
    stepper = begun(target=target)
    shares = stepper.task.training.alignment.known(stepper.task.pool, 1)
    assert shares.tolist() == pytest.approx(expected)


def test_an_estimated_target_follows_the_predictions():
    stepper = begun(target="estimated", warmup=0, refine_every=1, capacity=None)
    sure = torch.eye(CLASSES)[[0] * 20 + [1] * 15 + [2] * 5] * 0.98 + 0.02 / 3
    labels_of(stepper, sure, torch.arange(NUM_ITEMS), 0)
    shares = stepper.memory["refined"].mean(dim=0)
    assert shares.tolist() == pytest.approx([0.5, 0.375, 0.125], abs=0.02)


def test_a_target_for_another_number_of_classes_is_explained():
    with pytest.raises(UsageError, match="target has 2 entries; give 3, one per class"):
        make("fixmatch-darp", target=(0.5, 0.5)).check(tiny_pool(num_classes=3))


def test_a_step_of_darp_reads_nothing_back_from_the_device():
    """On the device "meta", whatever would copy numbers to the host is an error."""
    stepper, items = begun(), torch.tensor([3, 7, 3])
    stepper.memory["counts"][0] = 1
    for name in stepper.task.training.alignment.on_device:
        stepper.memory[name] = stepper.memory[name].to("meta")
    found = labels_of(stepper, rows(3).to("meta"), items, 1)
    assert found.probabilities.device.type == found.keeps.device.type == "meta"
    with pytest.raises((RuntimeError, NotImplementedError)):
        found.keeps.cpu()


def test_of_an_item_that_occurs_twice_the_last_prediction_stays():
    stepper, items = begun(), torch.tensor([3, 7, 3, 3])
    labels_of(stepper, rows(4), items, 0)
    stored = stepper.memory["stored"]
    assert torch.equal(stored[[3, 7]], rows(4)[[3, 1]])
    spoiled = rows(4, seed=1)
    spoiled[2, 0] = torch.nan
    before = stored.clone()
    labels_of(stepper, spoiled, items, 1)
    assert torch.equal(stepper.memory["stored"], before)
