"""The loss of FixMatch, by hand and by its properties."""

import math
from dataclasses import replace

import pytest
import torch

from fewlabels import rng
from fewlabels.training import FixMatchTrainer
from fewlabels.training.fixmatch import consistency_loss


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
