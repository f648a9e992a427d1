import sys

import numpy as np
import pytest
import torch

import fewlabels
from fewlabels import strategies
from fewlabels.errors import (
    BudgetError,
    LabelError,
    NotFiniteError,
    ShapeError,
    UnknownNameError,
    UsageError,
)
from fewlabels.rng import stream

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(40, 12)).astype(np.float32)
LOGITS = RNG.normal(size=(40, 3))


def select(strategy="npc", **changes):
    arguments = {"features": FEATURES, "logits": LOGITS, "size": 6, "seed": 0}
    return fewlabels.select(strategy, **arguments | changes)


@pytest.mark.parametrize("name", strategies.names())
@pytest.mark.parametrize("labeled", [(), [3], np.arange(9)])
def test_every_name_obeys_the_contract(name, labeled, untouched_randomness):
    before = FEATURES.copy(), LOGITS.copy()
    chosen = select(name, labeled=labeled)
    assert isinstance(chosen, np.ndarray)
    assert chosen.dtype == np.int64
    assert chosen.shape == (6,)
    assert len(set(chosen.tolist())) == 6
    assert not set(chosen.tolist()) & set(np.asarray(labeled).tolist())
    assert np.array_equal(chosen, select(name, labeled=labeled))
    assert np.array_equal(before[0], FEATURES)
    assert np.array_equal(before[1], LOGITS)


@pytest.mark.parametrize("name", ["random", "npc"])
def test_seeds_matter(name):
    chosen = {tuple(select(name, seed=seed).tolist()) for seed in range(5)}
    assert len(chosen) > 1


@pytest.mark.parametrize("name", strategies.names())
def test_only_candidates_are_chosen(name):
    candidates = [30, 2, 7, 11, 39, 21, 5]
    assert set(select(name, candidates=candidates).tolist()) <= set(candidates)
    everything = select(name, candidates=candidates, size=7)
    assert sorted(everything.tolist()) == sorted(candidates)


@pytest.mark.parametrize(
    "features",
    [
        FEATURES.astype(np.float64),
        torch.from_numpy(FEATURES),
        FEATURES.tolist(),
        torch.from_numpy(FEATURES).requires_grad_(),
    ],
    ids=["float64", "tensor", "lists", "gradient"],
)
def test_any_framework_gives_the_same_choice(features):
    assert np.array_equal(select("npc", features=features), select("npc"))


def test_read_only_arrays_are_fine():
    frozen = FEATURES.copy()
    frozen.flags.writeable = False
    assert np.array_equal(select(features=frozen), select())


def test_npc_needs_no_logits():
    assert np.array_equal(select("npc", logits=None), select("npc"))


def test_sampled_logits_are_averaged_as_probabilities():
    samples = np.stack([LOGITS, 5 * LOGITS[::-1]])
    powers = np.exp(samples)
    probabilities = (powers / powers.sum(axis=2, keepdims=True)).mean(axis=0)
    chosen = select("margin", logits=samples)
    assert np.array_equal(chosen, select("margin", logits=np.log(probabilities)))
    of_mean_logits = select("margin", logits=samples.mean(axis=0))
    assert not np.array_equal(chosen, of_mean_logits)


def test_a_generator_can_be_given():
    generator = stream(0, "query")
    assert np.array_equal(select("random", seed=generator), select("random", seed=0))
    assert not np.array_equal(select("random", seed=generator), select("random"))


def test_an_object_or_an_import_path_can_be_given(tmp_path, monkeypatch):
    (tmp_path / "my_strategies.py").write_text(
        "from fewlabels.pool import Query\n"
        "class First:\n"
        "    def __init__(self, skip=0):\n"
        "        self.skip = skip\n"
        "    def select(self, classifier, pool, size, generator, *, history=()):\n"
        "        return Query(pool.candidates[self.skip:self.skip + size])\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    chosen = select("my_strategies:First", options={"skip": 2}, labeled=[3])
    assert chosen.tolist() == [2, 4, 5, 6, 7, 8]
    from my_strategies import First

    assert select(First()).tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(UnknownNameError, match="Did you mean 'skip'"):
        select("my_strategies:First", options={"skop": 2})
    with pytest.raises(UsageError, match="has no 'Last' to use as a strategy"):
        select("my_strategies:Last")


@pytest.mark.parametrize("what", [3, "pathlib:Path"])
def test_what_cannot_select_is_refused(what):
    with pytest.raises(UsageError, match="is no strategy: it has no method select"):
        select(what)


def broken(value):
    features = FEATURES.copy()
    features[7, 2] = value
    return features


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"strategy": "nbc"}, UnknownNameError, "Did you mean 'npc'"),
        (
            {"features": broken(np.nan)},
            NotFiniteError,
            r"1 numbers .* position \(7, 2\)",
        ),
        ({"features": broken(np.inf)}, NotFiniteError, "NaN or infinite"),
        ({"logits": LOGITS * np.nan}, NotFiniteError, "logits holds 120 numbers"),
        ({"features": FEATURES[0]}, ShapeError, r"features has shape \(12,\); 2 axes"),
        ({"features": [["a"]]}, ShapeError, "features is of type <U1 where numbers"),
        ({"logits": LOGITS[:30]}, ShapeError, "features have 40 rows and logits 30"),
        ({"labeled": [40]}, UsageError, "run from 40 to 40, but the pool has 40"),
        ({"labeled": [1, 1]}, UsageError, "2 indices, but only 1 distinct"),
        ({"labeled": [0.5]}, UsageError, "flat list of whole numbers"),
        ({"labeled": [1], "candidates": [1, 2]}, UsageError, "labeled already"),
        (
            {"labeled": [1, 2], "labels": [0]},
            ShapeError,
            "one class number per labeled",
        ),
        ({"labeled": [1], "labels": [-7]}, LabelError, "the first is -7"),
        ({"labeled": [1], "labels": ["a"]}, ShapeError, "labels is of type <U1 where"),
        ({"size": 41}, BudgetError, "41 items are asked for, and there are 40"),
        ({"size": 0}, BudgetError, "0 items are asked for"),
        ({"candidates": []}, BudgetError, "there are 0 candidates"),
        (
            {"features": FEATURES[:0], "logits": None},
            BudgetError,
            "there are 0 candidates",
        ),
        ({"strategy": "nosuch:Thing"}, UsageError, "could not be imported"),
    ],
)
def test_wrong_input_is_named_with_its_numbers(changes, error, message):
    with pytest.raises(error, match=message):
        select(**changes)
