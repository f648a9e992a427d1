"""Vectors that somebody brings are trained on directly, by a head."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import fewlabels
from fewlabels import data, rng, training
from fewlabels.errors import UsageError
from fewlabels.experiments.acquisition import hidden
from fewlabels.experiments.evaluation import accuracy
from fewlabels.pool import Answers, ArrayImages
from fewlabels.training import views as training_rows
from fewlabels.training.views import VariedRows


def clouds(scale=50.0, middle=200.0):
    """Three clouds of vectors, far from zero and wide; and a test split of others."""
    draws = np.random.default_rng(0)
    labels = np.arange(150) % 3
    rows = draws.normal(size=(150, 6)) + 4 * np.eye(3, 6)[labels]
    rows = scale * rows + middle
    return data.load(rows[:90], labels[:90], test=(rows[90:], labels[90:]))


@pytest.mark.parametrize("network", ["linear", "mlp-16"])
def test_a_run_from_start_to_budget(network):
    trainer = training.resolve("supervised", {"network": network, "steps": 60})
    done = list(
        fewlabels.run(
            clouds(), strategy="npc", trainer=trainer, start=3, query=3, budget=9
        )
    )
    assert [one.num_labeled for one in done] == [3, 6, 9]
    assert done[-1].accuracy > 0.8


def test_vectors_are_standardized_so_that_their_scale_does_not_matter():
    trainer = training.make("supervised", network="linear", steps=20)
    logits = [
        trainer.fit(pool, rng.stream(0, "train"))
        .outputs(pool.images, torch.arange(len(pool)))
        .logits
        for pool in (clouds(1.0, 0.0), clouds(1000.0, -5000.0))
    ]
    torch.testing.assert_close(*logits, rtol=1e-3, atol=1e-3)


def with_labels(pool, num_labels=6):
    items = torch.arange(num_labels)
    return hidden(pool, num_labels).with_answers(Answers(items, pool.labels[items]))


def rewritten(pool):
    """Return a pool of the same items whose rows hold other numbers."""
    return replace(pool, images=ArrayImages(pool.images.items.flip(0)))


def test_a_finished_training_over_other_rows_is_not_this_one(tmp_path):
    trainer = training.make("supervised", network="linear", steps=3)
    pool = with_labels(clouds())

    def weights(pool, folder):
        fitted = trainer.fit(pool, rng.stream(0, "train"), workspace=folder)
        return torch.cat([one.flatten() for one in fitted.module.parameters()])

    first, again = weights(pool, tmp_path), weights(rewritten(pool), tmp_path)
    assert torch.equal(weights(rewritten(pool), None), again)
    assert not torch.equal(first, again)


def test_rows_are_hashed_for_a_workspace_alone(monkeypatch):
    def refused(*_):
        raise AssertionError("a new label would no longer take milliseconds")

    monkeypatch.setattr("fewlabels.training.views.row_digest", refused)
    pool = with_labels(clouds())
    training.make("spreading").fit(pool, rng.stream(0, "train"))


NEED_IMAGES = ("fixmatch-cta", "remixmatch")  # they change images, or turn them
OVER_ROWS = [
    name for name in training.names() if not name.startswith(("frozen-", *NEED_IMAGES))
]


@pytest.mark.parametrize("name", OVER_ROWS)
@pytest.mark.filterwarnings("ignore::fewlabels.errors.TargetWarning")
def test_every_learner_works_on_rows_with_its_defaults(name):
    pool = with_labels(clouds())
    short = {"steps": 3} if "steps" in training.options(name) else {}
    found = training.make(name, **short).fit(pool, rng.stream(0, "train"))
    outputs = found.outputs(pool.images, torch.arange(len(pool)))
    assert outputs.logits.shape == (90, 3)
    assert outputs.logits.isfinite().all()


@pytest.mark.parametrize("name", NEED_IMAGES)
def test_what_needs_images_says_so_and_what_to_take_instead(name):
    with pytest.raises(UsageError, match=r"6.*'(fix|mix)match'"):
        training.make(name).check(with_labels(clouds()))


def test_fixmatch_learns_from_views_of_rows():
    test, pool = clouds().test, with_labels(clouds(), 3)
    found = training.make("fixmatch", steps=100).fit(pool, rng.stream(0, "train"))
    plain = training.make("supervised", steps=100).fit(pool, rng.stream(0, "train"))
    assert accuracy(found, test) > max(0.8, accuracy(plain, test))


def slowly_varied(rows, item, draws):
    """A view of one item, number by number; the slow twin of ``VariedRows``."""
    which, far, chances = draws
    middle, deviation = rows.mean(axis=0), rows.std(axis=0)
    scaled = (rows - middle) / deviation
    distances = np.linalg.norm(scaled - scaled[item], axis=1)
    near = [one for one in np.argsort(distances, kind="stable") if one != item]
    other = rows[near[which % 5]]
    return [
        middle[number]
        if chances[number] < 0.2
        else value + 0.5 * far * (other[number] - value)
        for number, value in enumerate(rows[item])
    ]


def test_views_of_rows_are_those_of_the_slow_twin():
    rows = np.random.default_rng(3).normal(size=(40, 7)) * np.arange(1, 8) + 5
    items = torch.tensor([0, 7, 7, 39])
    found = VariedRows(rows).of(items, rng.stream(1, "views"))
    again = rng.stream(1, "views")
    which = torch.randint(2**31, (4,), generator=again)
    far, chances = torch.rand(4, 1, generator=again), torch.rand(4, 7, generator=again)
    expected = [
        slowly_varied(rows, item, (int(which[n]), float(far[n]), chances[n].tolist()))
        for n, item in enumerate(items.tolist())
    ]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_a_single_row_has_no_neighbor_and_stays():
    views = VariedRows(np.ones((1, 3), dtype=np.float32))
    assert views.of(torch.tensor([0]), rng.stream(0, "views")).tolist() == [[1, 1, 1]]


def test_of_a_large_pool_some_rows_serve_as_neighbors(monkeypatch):
    monkeypatch.setattr(training_rows, "_MOST_NEIGHBORS_FROM", 10)
    monkeypatch.setattr(training_rows, "_NEIGHBORS", 2)
    near = VariedRows(np.arange(100, dtype=np.float32)[:, None])._near
    assert near.shape == (100, 2)
    assert set(near.unique().tolist()) <= {0, 11, 22, 33, 44, 55, 66, 77, 88, 99}
    assert sorted(near[50].tolist()) == [44, 55]


@pytest.mark.parametrize("name", ["frozen-linear", "frozen-fixmatch"])
def test_rows_need_no_encoder(name):
    message = "Rows of 6 need no encoder.*'frozen-'"
    with pytest.raises(UsageError, match=message):
        training.make(name).fit(clouds(), rng.stream(0, "train"))
