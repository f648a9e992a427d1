"""Targets: equal, from shares, from labels, estimated; and how badly one fits."""

import math

import pytest
import torch
from tests.training.darp.rows import EXAMPLE, TWO_EACH, random_rows

from fewlabels.errors import FewlabelsError
from fewlabels.rng import stream
from fewlabels.training import targets


def test_uniform():
    assert targets.uniform(50_000, 10).tolist() == [5000.0] * 10
    assert float(targets.uniform(7, 3).sum()) == pytest.approx(7, abs=1e-12)
    assert targets.uniform(7, 3).dtype == torch.float64


def test_from_shares():
    target = targets.from_shares(torch.tensor([1, 2, 5]), 16)
    assert target.tolist() == [2.0, 4.0, 10.0]


def test_labels_count_and_every_class_gets_something():
    target = targets.from_labels(torch.tensor([0, 0, 0, 2]), 3, 70)
    assert target.tolist() == [40.0, 10.0, 20.0]
    assert targets.from_labels(torch.tensor([]).long(), 2, 8).tolist() == [4.0, 4.0]


def calibrated(shares, num_rows, *, spread=1.0):
    """Items of normal classes, with exact posteriors for equal shares."""
    generator = stream(0, "calibrated")
    classes = torch.multinomial(shares, num_rows, replacement=True, generator=generator)
    means = spread * torch.randn(len(shares), 4, generator=generator)
    items = means[classes] + torch.randn(num_rows, 4, generator=generator)
    logits = -torch.cdist(items, means).square() / 2
    return torch.softmax(logits.double(), dim=1), classes


def em_twin(rows, rounds):
    """The estimate in plain Python, from equal shares."""
    shares = [1 / len(rows[0])] * len(rows[0])
    for _ in range(rounds):
        sums = [0.0] * len(shares)
        for row in rows:
            joint = [p * q for p, q in zip(row, shares, strict=True)]
            for k, entry in enumerate(joint):
                sums[k] += entry / sum(joint)
        shares = [entry / len(rows) for entry in sums]
    return shares


def test_the_estimate_agrees_with_the_plain_twin():
    rows, _ = calibrated(torch.tensor([0.6, 0.3, 0.1]), 60, spread=2.0)
    expected = torch.tensor(em_twin(rows.tolist(), 300), dtype=torch.float64)
    found = targets.estimated(rows) / 60
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_the_estimate_comes_nearer_to_the_truth_than_the_predictions_do():
    rows, classes = calibrated(torch.tensor([0.7, 0.2, 0.06, 0.04]), 5000)
    truth = targets.from_shares(torch.bincount(classes, minlength=4), 5000)
    found = targets.estimated(rows)
    assert float((found - truth).abs().sum() / 10_000) < targets.misfit(rows, truth) / 4


def test_a_class_that_is_never_predicted_still_gets_a_row():
    rows = torch.tensor([[0.5, 0.5, 0.0]] * 50 + [[0.25, 0.75, 0.0]] * 50)
    found = targets.estimated(rows)
    assert float(found[2]) == pytest.approx(1, rel=0.02)
    assert float(found.sum()) == pytest.approx(100, abs=1e-9)


def test_misfit():
    assert targets.misfit(EXAMPLE, EXAMPLE.sum(dim=0)) == pytest.approx(0, abs=1e-12)
    mean = EXAMPLE.mean(dim=0)
    expected = sum(abs(float(entry) - 1 / 3) for entry in mean) / 2
    assert targets.misfit(EXAMPLE, TWO_EACH) == pytest.approx(expected, abs=1e-12)
    certain = torch.tensor([[1.0, 0.0]] * 10)
    assert targets.misfit(certain, torch.tensor([1.0, 9.0])) == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: targets.uniform(0, 3), "num_rows is 0; it must be at least 1"),
        (lambda: targets.uniform(3.5, 3), r"num_rows is 3\.5"),
        (lambda: targets.from_shares(torch.ones(2, 2), 5), r"shares are \[\[1\.0"),
        (lambda: targets.from_shares(torch.tensor([1.0, 0.0]), 5), r"\[1\.0, 0\.0\]"),
        (lambda: targets.from_shares(torch.tensor([math.inf, 1.0]), 5), r"\[inf, 1"),
        (
            lambda: targets.from_labels(torch.tensor([0, -1, 3]), 3, 5),
            "2 labels are not from 0 to 2, as -1",
        ),
        (lambda: targets.estimated(2 * random_rows(5, 3, 0)), r"\(as 0: 2,"),
    ],
)
def test_what_means_nothing_is_refused(call, message):
    with pytest.raises(FewlabelsError, match=message):
        call()
