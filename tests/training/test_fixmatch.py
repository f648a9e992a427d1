"""The loss of FixMatch, by hand and by its properties."""

import math
from dataclasses import replace

import pytest
import torch

from fewlabels import models, rng
from fewlabels.augment import strong, weak
from fewlabels.training import FixMatchTrainer
from fewlabels.training.fixmatch import consistency_loss
from fewlabels.training.minibatches import Minibatches
from fewlabels.training.supervised import LabeledViews


def logits_of(*rows):
    return torch.tensor(rows, dtype=torch.float64).log()


def test_a_tiny_case_by_hand():
    weak_UC = logits_of([0.97, 0.02, 0.01], [0.90, 0.05, 0.05], [0.01, 0.01, 0.98])
    strong_UC = logits_of([0.50, 0.25, 0.25], [0.10, 0.80, 0.10], [0.20, 0.20, 0.60])
    loss, kept = consistency_loss(weak_UC, strong_UC, 0.95)
    assert float(loss) == pytest.approx((math.log(2) - math.log(0.6)) / 3)
    assert float(kept) == pytest.approx(2 / 3)


def test_a_probability_at_the_threshold_counts():
    even = torch.zeros(1, 2)
    assert consistency_loss(even, even, 0.5)[1] == 1
    assert consistency_loss(even, even, 0.5001)[1] == 0


def test_no_gradient_reaches_the_weak_views():
    draws = rng.stream(0, "logits")
    weak_UC = (torch.randn(6, 3, generator=draws) * 9).requires_grad_()
    strong_UC = torch.randn(6, 3, generator=draws).requires_grad_()
    loss, kept = consistency_loss(weak_UC, strong_UC, 0.6)
    loss.backward()
    assert kept > 0
    assert weak_UC.grad is None
    probabilities = strong_UC.detach().softmax(1)
    pseudo = torch.nn.functional.one_hot(weak_UC.argmax(1), 3)
    keeps = weak_UC.detach().softmax(1).amax(1) >= 0.6
    expected = (probabilities - pseudo) * keeps[:, None] / 6
    torch.testing.assert_close(strong_UC.grad, expected)


def test_nothing_confident_costs_nothing():
    draws = rng.stream(0, "logits")
    flat = torch.zeros(5, 4)
    loss, kept = consistency_loss(flat, torch.randn(5, 4, generator=draws), 0.95)
    assert loss == 0
    assert kept == 0


def test_the_loss_of_a_step_by_hand(pool):
    """One pass over labeled, weak and strong views; then the sum of FixMatch, Eq. 5."""
    trainer = FixMatchTrainer(
        minibatch_size=4, mu=3, threshold=0.55, consistency_weight=0.7
    )
    network = models.build("wrn-10-1", (1, 4, 4), 2, rng.stream(0, "w")).train()
    passes = []
    network.register_forward_hook(lambda _, args, out: passes.append((args[0], out)))
    loss = trainer._objective(pool, 5)(network, 2)
    ((inputs, logits),) = passes
    assert len(inputs) == 4 + 12 + 12

    drawn = Minibatches(torch.arange(len(pool)), 12, 5, "unlabeled items").at(2)
    images = pool.images.read(drawn)
    weak_views = weak(images, rng.stream(5, "weak views", 2), trainer.weak)
    strong_views = strong(images, rng.stream(5, "strong views", 2), trainer.strong)
    assert torch.equal(inputs[4:16], models.as_input(weak_views))
    assert torch.equal(inputs[16:], models.as_input(strong_views))

    labels = LabeledViews(trainer, pool, 5).at(2)[1]
    logs = logits.log_softmax(1)
    expected = -sum(logs[row, labels[row]] for row in range(4)) / 4
    num_kept = 0
    for row in range(4, 16):
        if logs[row].exp().max() >= 0.55:
            num_kept += 1
            expected = expected - 0.7 * logs[row + 12, logs[row].argmax()] / 12
    assert 0 < num_kept < 12
    torch.testing.assert_close(loss.total, expected)
    assert float(loss.kept) == pytest.approx(num_kept / 12)


def test_labeled_items_stay_among_the_unlabeled(pool):
    """Every index of the pool is read within one pass of the unlabeled stream."""
    seen = set()

    class Watched:
        shape = pool.images.shape

        def __len__(self):
            return len(pool)

        def read(self, indices):
            if len(indices) > trainer.minibatch_size:
                seen.update(indices.tolist())
            return pool.images.read(indices)

    trainer = FixMatchTrainer(steps=5, minibatch_size=4, mu=2)
    trainer.fit(replace(pool, images=Watched()), rng.stream(0, "train"))
    assert seen == set(range(len(pool)))
