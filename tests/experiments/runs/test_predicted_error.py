"""What ridge regression with the untrained network's kernel says of labeled sets."""

from dataclasses import replace

import pytest
import torch
from tests.experiments.runs.toy import digits, settings, whole_run

from fewlabels import training
from fewlabels.experiments.acquisition import hidden
from fewlabels.experiments.diagnosis import ErrorPredictor, diagnose
from fewlabels.experiments.runs import replayed
from fewlabels.gram import wide_head_kernel
from fewlabels.pool import UNKNOWN
from fewlabels.rng import stream


@pytest.fixture(scope="module")
def pool():
    return digits()


@pytest.fixture(scope="module")
def untrained(pool):
    trainer = training.resolve(settings().trainer.name, settings().trainer.options)
    return trainer.fit(hidden(pool, 20), stream(settings().seed, "train", 0))


@pytest.fixture(scope="module")
def predictor(untrained, pool):
    return ErrorPredictor.of(untrained, pool)


def test_a_run_is_judged_by_the_network_it_began_with(
    tmp_path, pool, untrained, monkeypatch
):
    _, folder = whole_run(tmp_path / "run", pool)
    monkeypatch.setattr("fewlabels.experiments.diagnosis._MOST_ITEMS", len(pool))
    rows = list(diagnose(folder, pool))
    every = torch.arange(len(pool))
    features = untrained.outputs(pool.images, every).features
    gram = wide_head_kernel(features).block(every, every)
    ridge = 1e-6 * float(gram.diagonal().mean()) * torch.eye(20).double()
    targets = torch.eye(10)[pool.labels].double() - 0.1
    for row, (_, known) in zip(rows, replayed(folder, pool, settings()), strict=True):
        chosen, size = known.labeled, len(known.labeled)
        inside = gram[chosen][:, chosen] + ridge[:size, :size]
        guesses = gram[:, chosen] @ torch.linalg.solve(inside, targets[chosen])
        error = (guesses - targets).square().sum() / targets.square().sum()
        assert row.predicted.error == pytest.approx(float(error), rel=1e-6)
        assert row.predicted.is_from_labels
    without = next(iter(diagnose(folder, pool, whole_pool=False)))
    assert without.predicted is None
    assert without.to_json()["predicted_error"] is None


def test_random_sets_are_what_they_are_on_average(predictor, pool):
    drawn = [torch.randperm(len(pool), generator=stream(k, "set")) for k in range(60)]
    found = [predictor.predict(order[:20]) for order in drawn]
    mean = sum(one.error for one in found) / len(found)
    assert found[0].random_error == pytest.approx(mean, rel=0.1)
    for mode in range(3):
        own = sum(one.modes[mode][1] for one in found) / len(found)
        assert found[0].modes[mode][2] == pytest.approx(own, rel=0.3, abs=0.01)


def test_without_all_labels_a_gaussian_process_is_the_target(untrained, pool):
    labels = pool.labels.clone()
    labels[3] = UNKNOWN
    predictor = ErrorPredictor.of(untrained, replace(pool, labels=labels))
    few, many = (predictor.predict(torch.arange(size)) for size in (10, 40))
    assert not few.is_from_labels
    # The largest mode holds most of such a target.
    assert few.modes[0][0] > 0.5
    assert 0 < many.error < few.error < 1
    assert 0 < many.random_error < few.random_error < 1
