"""The loss of FixMatch, by hand and by its properties."""

import math
from dataclasses import replace

import pytest
import torch
from lightning_fabric import Fabric

from fewlabels import models, rng
from fewlabels.data.augment import preset, strong, weak
from fewlabels.training import loop, make
from fewlabels.training.devices import ProcessGroup
from fewlabels.training.fixmatch import FixMatch, consistency_loss
from fewlabels.training.learner import PseudoLabels
from fewlabels.training.loop import draw_items
from fewlabels.training.training import TrainingTask


def logits_of(*rows):
    return torch.tensor(rows, dtype=torch.float64).log()


def begun(trainer, pool, key=5):
    """Return a training before its first step, and its network."""
    task = TrainingTask(trainer, pool, trainer.inputs.of(pool, None), key, None)
    network = models.build("wrn-10-1", (1, 4, 4), 2, rng.stream(0, "w"))
    stepper = loop.Stepper(task, ProcessGroup(Fabric(accelerator="cpu")), network)
    return stepper, stepper.learning.train()


def loss_of(stepper, minibatch, number):
    return stepper.learner.loss(stepper.step(number, minibatch))


def pseudo_labels(weak_UC, threshold):
    class Plain:
        def pseudo_labels(self, probabilities_UC, is_sure):
            return PseudoLabels(probabilities_UC, is_sure(probabilities_UC))

    return FixMatch(threshold=threshold).pseudo_labels(Plain(), weak_UC.softmax(dim=1))


def test_a_tiny_case_by_hand():
    weak_UC = logits_of([0.97, 0.02, 0.01], [0.90, 0.05, 0.05], [0.01, 0.01, 0.98])
    strong_UC = logits_of([0.50, 0.25, 0.25], [0.10, 0.80, 0.10], [0.20, 0.20, 0.60])
    pseudo = pseudo_labels(weak_UC, 0.95)
    assert pseudo.keeps.tolist() == [True, False, True]
    loss = consistency_loss(strong_UC, pseudo.classes, pseudo.keeps)
    assert float(loss) == pytest.approx((math.log(2) - math.log(0.6)) / 3)


def test_a_probability_at_the_threshold_counts():
    even = torch.zeros(1, 2)
    assert pseudo_labels(even, 0.5).keeps.all()
    assert not pseudo_labels(even, 0.5001).keeps.any()


def test_the_gradient_of_the_strong_views():
    draws = rng.stream(0, "logits")
    weak_UC = torch.randn(6, 3, generator=draws) * 9
    strong_UC = torch.randn(6, 3, generator=draws).requires_grad_()
    pseudo = pseudo_labels(weak_UC, 0.6)
    assert pseudo.keeps.any()
    consistency_loss(strong_UC, pseudo.classes, pseudo.keeps).backward()
    probabilities = strong_UC.detach().softmax(1)
    one_hot = torch.nn.functional.one_hot(weak_UC.argmax(1), 3)
    keeps = weak_UC.softmax(1).amax(1) >= 0.6
    expected = (probabilities - one_hot) * keeps[:, None] / 6
    torch.testing.assert_close(strong_UC.grad, expected)


def test_nothing_confident_costs_nothing():
    draws = rng.stream(0, "logits")
    pseudo = pseudo_labels(torch.zeros(5, 4), 0.95)
    strong_UC = torch.randn(5, 4, generator=draws)
    assert consistency_loss(strong_UC, pseudo.classes, pseudo.keeps) == 0


@pytest.mark.parametrize("forward", ["joint", "split"])
def test_no_gradient_reaches_the_weak_views(pool, forward):
    trainer = make("fixmatch", minibatch_size=4, threshold=0.0, forward=forward)
    stepper, network = begun(trainer, pool)
    minibatch = stepper.minibatch(0)
    watched = []

    def watch(module, inputs, found):
        if found.logits.requires_grad:
            found.logits.register_hook(watched.append)

    network.register_forward_hook(watch)
    loss_of(stepper, minibatch, 0).total.backward()
    (gradients,) = watched
    if forward == "joint":
        assert len(gradients) == 4 + 8 + 8
        assert (gradients[4:12] == 0).all()
        gradients = torch.cat([gradients[:4], gradients[12:]])
    assert len(gradients) == 4 + 8
    assert (gradients.abs().sum(dim=1) > 0).all()


def test_split_takes_labeled_and_strong_views_apart_from_weak_ones(pool):
    trainer = make("fixmatch", minibatch_size=4, forward="split")
    stepper, network = begun(trainer, pool)
    minibatch = stepper.minibatch(3)
    passes = []
    network.register_forward_hook(
        lambda _, args, out: passes.append((args[0], out.logits))
    )
    loss_of(stepper, minibatch, 3)
    (weak_inputs, weak_logits), (inputs, logits) = passes
    assert torch.equal(weak_inputs, models.as_input(minibatch.views["weak"]))
    both = torch.cat([minibatch.views["labeled"], minibatch.views["strong"]])
    assert torch.equal(inputs, models.as_input(both))
    assert logits.requires_grad
    assert not weak_logits.requires_grad


def test_the_loss_of_a_step_by_hand(pool):
    """One pass over labeled, weak and strong views; then the sum of FixMatch, Eq. 5."""
    trainer = make(
        "fixmatch", minibatch_size=4, mu=3, threshold=0.55, consistency_weight=0.7
    )
    stepper, network = begun(trainer, pool)
    passes = []
    network.register_forward_hook(
        lambda _, args, out: passes.append((args[0], out.logits))
    )
    minibatch = stepper.minibatch(2)
    loss = loss_of(stepper, minibatch, 2)
    ((inputs, logits),) = passes
    assert len(inputs) == 4 + 12 + 12

    drawn = draw_items(torch.arange(len(pool)), 12, 5, "unlabeled items", 2)
    images = pool.images.read(drawn)
    weak_views = weak(images, rng.stream(5, "weak views", 2), trainer.inputs.weak)
    strong_views = strong(
        images, rng.stream(5, "strong views", 2), preset(trainer.inputs.strong)
    )
    assert torch.equal(inputs[4:16], models.as_input(weak_views))
    assert torch.equal(inputs[16:], models.as_input(strong_views))

    labels = minibatch.labels
    logs = logits.log_softmax(1)
    expected = -sum(logs[row, labels[row]] for row in range(4)) / 4
    num_kept = 0
    for row in range(4, 16):
        if logs[row].exp().max() >= 0.55:
            num_kept += 1
            expected = expected - 0.7 * logs[row + 12, logs[row].argmax()] / 12
    assert 0 < num_kept < 12
    torch.testing.assert_close(loss.total, expected)
    assert float(loss.figures["kept"]) == pytest.approx(num_kept / 12)


def test_labeled_items_stay_among_the_unlabeled(pool):
    """Every index of the pool is read within one pass of the unlabeled stream."""
    seen = set()

    class Watched:
        shape = pool.images.shape

        def __len__(self):
            return len(pool)

        def read(self, indices):
            if len(indices) > trainer.schedule.minibatch_size:
                seen.update(indices.tolist())
            return pool.images.read(indices)

    trainer = make("fixmatch", steps=5, minibatch_size=4, mu=2)
    trainer.fit(replace(pool, images=Watched()), rng.stream(0, "train"))
    assert seen == set(range(len(pool)))
