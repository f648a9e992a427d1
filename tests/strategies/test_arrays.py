import sys
from collections import Counter

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy import stats

import fewlabels
from fewlabels import strategies
from fewlabels.errors import (
    BudgetError,
    LabelError,
    NotFiniteError,
    ShapeError,
    StrategyError,
    UnknownNameError,
    UsageError,
)
from fewlabels.pool import Query
from fewlabels.rng import stream

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(40, 12)).astype(np.float32)
LOGITS = RNG.normal(size=(40, 3))
NEED_LABELS = {"mlmoc"}


SAMPLES = LOGITS + RNG.normal(size=(20, 40, 3))


def select(strategy="npc", **changes):
    arguments = {"features": FEATURES, "logits": LOGITS, "size": 6, "seed": 0}
    if strategy == "batchbald":
        arguments["logits"] = SAMPLES
    return fewlabels.select(strategy, **arguments | changes)


@pytest.mark.parametrize("name", strategies.names())
@pytest.mark.parametrize("labeled", [(), [3], np.arange(9)])
def test_every_name_obeys_the_contract(name, labeled, untouched_randomness):
    if name == "dal" and not len(labeled):
        with pytest.raises(UsageError, match="None of the 40 items is labeled"):
            select(name, labeled=labeled)
        return
    before = FEATURES.copy(), LOGITS.copy()
    labels = np.arange(len(labeled)) % 2 if name in NEED_LABELS else None
    chosen = select(name, labeled=labeled, labels=labels)
    assert isinstance(chosen, np.ndarray)
    assert chosen.dtype == np.int64
    assert chosen.shape == (6,)
    assert len(set(chosen.tolist())) == 6
    assert not set(chosen.tolist()) & set(np.asarray(labeled).tolist())
    again = select(name, labeled=labeled, labels=labels)
    assert np.array_equal(chosen, again)
    assert np.array_equal(before[0], FEATURES)
    assert np.array_equal(before[1], LOGITS)


def test_one_random_query_is_as_good_as_two():  # paper, Sec. 5.4
    halves, wholes = Counter(), Counter()
    known = {"features": FEATURES[:5], "logits": LOGITS[:5]}
    for seed in range(1000):
        wholes[frozenset(select("random", size=2, seed=seed, **known).tolist())] += 1
        first = select("random", size=1, seed=seed, **known)
        second = select("random", size=1, seed=seed + 5000, labeled=first, **known)
        halves[frozenset([*first.tolist(), *second.tolist()])] += 1
    for counts in (halves, wholes):
        assert len(counts) == 10
        assert stats.chisquare(list(counts.values())).pvalue > 1e-3


@pytest.mark.parametrize("name", ["random", "npc"])
def test_seeds_matter(name):
    chosen = {tuple(select(name, seed=seed).tolist()) for seed in range(5)}
    assert len(chosen) > 1


@pytest.mark.parametrize("name", strategies.names())
def test_only_candidates_are_chosen(name):
    candidates, labeled = [30, 2, 7, 11, 39, 21, 5], [0, 1]
    given = {"candidates": candidates, "labeled": labeled, "labels": [0, 1]}
    assert set(select(name, **given).tolist()) <= set(candidates)
    everything = select(name, **given, size=7)
    assert sorted(everything.tolist()) == sorted(candidates)


@pytest.mark.parametrize(
    "features",
    [
        FEATURES.astype(np.float64),
        torch.from_numpy(FEATURES),
        FEATURES.tolist(),
        torch.from_numpy(FEATURES).requires_grad_(),
        FEATURES[::-1].copy()[::-1],
        FEATURES.astype(">f4"),
        FEATURES.astype(np.longdouble),
        np.ma.masked_array(FEATURES, mask=False),
        torch.from_numpy(FEATURES).to_sparse(),
        scipy.sparse.csr_array(FEATURES),
        scipy.sparse.coo_matrix(FEATURES),
        FEATURES.astype(object),
    ],
    ids=[
        "float64",
        "tensor",
        "lists",
        "gradient",
        "backwards",
        "big-endian",
        "longdouble",
        "unmasked",
        "sparse tensor",
        "sparse array",
        "sparse matrix",
        "objects",
    ],
)
def test_any_framework_gives_the_same_choice(features):
    assert np.array_equal(select("npc", features=features), select("npc"))


def test_masks_name_the_same_items_as_positions():
    plain = select(labeled=[3, 4], candidates=range(10, 40))
    mask = np.isin(np.arange(40), [3, 4])
    masked = select(labeled=mask, candidates=(np.arange(40) >= 10).tolist())
    assert np.array_equal(masked, plain)
    assert np.array_equal(
        select(labeled=torch.from_numpy(mask)), select(labeled=[3, 4])
    )


def test_nullable_columns_are_numbers():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(FEATURES).astype("Float64")
    labeled = pandas.Series([3, 4], dtype="Int64")
    chosen = select(features=table, labeled=labeled, labels=labeled - 3)
    assert np.array_equal(chosen, select(labeled=[3, 4], labels=[0, 1]))
    table.iloc[7, 2] = pandas.NA
    with pytest.raises(NotFiniteError, match=r"holds nan at \(7, 2\)"):
        select(features=table)


def test_logarithms_of_probabilities_are_logits():
    chosen = select("entropy", logits=np.log(PROBABILITIES))
    assert np.array_equal(chosen, select("entropy"))


def test_read_only_arrays_are_fine():
    frozen = FEATURES.copy()
    frozen.flags.writeable = False
    assert np.array_equal(select(features=frozen), select())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32])
def test_coarse_numbers_are_fine(dtype):
    coarse = torch.from_numpy(FEATURES * 64).to(dtype)
    same = coarse.double().numpy()
    assert np.array_equal(select(features=coarse), select(features=same))


@pytest.mark.parametrize("name", ["random", "margin", "npc"])
def test_features_of_no_width_are_refused(name):
    with pytest.raises(ShapeError, match=r"shape \(40, 0\); give col"):
        select(name, features=np.zeros((40, 0)))
    assert len(select("margin", features=np.zeros((40, 1)))) == 6


def test_whole_numbers_of_any_library_are_sizes_labels_and_seeds():
    plain = select(labeled=[3, 4], labels=[0, 2])
    changes = {"size": np.uint8(6), "seed": np.int64(0), "labels": [0.0, 2.0]}
    assert np.array_equal(select(labeled=[3, 4], **changes), plain)


def test_classes_need_no_logits():
    chosen = select(labeled=[3, 4], labels=[999, 0], logits=None)
    assert np.array_equal(chosen, select(labeled=[3, 4]))


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
    with pytest.raises(UsageError, match="has no 'Last'"):
        select("my_strategies:Last")


@pytest.mark.parametrize("what", [3, "pathlib:Path"])
def test_what_cannot_select_is_refused(what):
    with pytest.raises(UsageError, match="is not a strategy: it has no method select"):
        select(what)


def test_a_class_in_place_of_an_object_is_refused():
    with pytest.raises(UsageError, match=r"is a class; give Random\("):
        select(strategies.Random)


def test_a_record_that_is_no_json_is_refused():
    class Noting:
        def select(self, classifier, pool, size, generator, *, history=()):
            return Query(pool.candidates[:size], None, {"scores": torch.zeros(2)})

    with pytest.raises(StrategyError, match=r"record is .'scores'"):
        select(Noting())


def broken(value):
    features = FEATURES.copy()
    features[7, 2] = value
    return features


PROBABILITIES = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
MASKED = np.ma.masked_array(FEATURES, mask=FEATURES > 2)
LABELED = {"labeled": [1, 2]}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"strategy": "nbc"}, UnknownNameError, "Did you mean 'npc'"),
        (
            {"features": broken(np.nan)},
            NotFiniteError,
            r"holds nan at \(7, 2\)",
        ),
        ({"features": broken(np.inf)}, NotFiniteError, "features holds inf"),
        ({"logits": LOGITS * np.nan}, NotFiniteError, r"logits holds nan at \(0, 0\)"),
        (
            {"features": FEATURES[0]},
            ShapeError,
            r"features has shape \(12,\); give 2 axes",
        ),
        ({"features": [["a"]]}, ShapeError, "features is of type <U1; pass numbers"),
        ({"logits": LOGITS[:30]}, ShapeError, "logits has 30 entries; give 40"),
        ({"labeled": [40]}, UsageError, "run from 40 to 40, but the pool has 40"),
        ({"labeled": [1, 1]}, UsageError, "2 indices, but only 1 distinct"),
        ({"labeled": [0.5]}, UsageError, "give positions"),
        ({"labeled": [True, False]}, UsageError, "masks 2 items; give all 40"),
        (
            {"logits": PROBABILITIES},
            UsageError,
            "holds probabilities",
        ),
        (
            {"logits": np.stack([PROBABILITIES] * 2)},
            UsageError,
            "logits holds probabilities",
        ),
        (
            {"options": {"method": "greedy", "draws": 9}},
            UsageError,
            "draws would do nothing with method 'greedy'",
        ),
        (
            {"options": {"method": "exchange", "proposal": "typical"}},
            UsageError,
            "proposal would do nothing",
        ),
        (
            {"features": scipy.sparse.coo_array((10**9, 10**9))},
            ShapeError,
            r"of shape \(10{9}, 10{9}\) does not fit into memory",
        ),
        ({"labeled": [1], "candidates": [1, 2]}, UsageError, "candidates are labeled"),
        (
            {"labeled": [1, 2], "labels": [0]},
            ShapeError,
            "one for each of 2",
        ),
        (LABELED | {"labels": [0, -7]}, LabelError, "first is -7 at position 1"),
        (LABELED | {"labels": [-1, 0]}, LabelError, "from 0 to 2, the first is -1"),
        (LABELED | {"labels": [-2, 0]}, LabelError, "first is -2"),
        (
            LABELED | {"labels": [0, 7]},
            LabelError,
            "from 0 to 2, the first is 7 at position 1",
        ),
        (LABELED | {"labels": [10**9, 1]}, LabelError, "first is 1000000000"),
        (
            LABELED | {"labels": [10**9, 1], "logits": None},
            LabelError,
            "are not whole numbers from 0 to 999999",
        ),
        (LABELED | {"labels": [0.5, 1]}, LabelError, "first is 0.5"),
        (LABELED | {"labels": [0, np.nan]}, LabelError, "first is nan at position 1"),
        (
            LABELED | {"labels": ["a", "b"]},
            LabelError,
            "labels is of type <U1; give numbers",
        ),
        (LABELED | {"labels": [2**70, 1]}, LabelError, "labels is of type object"),
        ({"labeled": [[1], [2, 3]]}, ShapeError, "labeled cannot be read as an array"),
        ({"features": [[1, 2], [3]]}, ShapeError, "give rows of equal length"),
        ({"features": FEATURES * 1j}, ShapeError, "features is of type complex64"),
        (
            {"features": MASKED},
            ShapeError,
            f"{MASKED.mask.sum()} of 480 features are masked",
        ),
        (
            {"features": FEATURES.astype(float) * 1e160},
            NotFiniteError,
            r"scale all others to 1e\+60",
        ),
        ({"logits": np.zeros((0, 40, 3))}, ShapeError, r"\(0, 40, 3\); give"),
        ({"size": 4.0}, UsageError, "size is 4.0, of type float; give a whole"),
        ({"size": "4"}, UsageError, "size is '4', of type str"),
        ({"size": None}, UsageError, "size is None"),
        ({"options": [1]}, UsageError, r"options of the strategy are \[1\]"),
        ({"seed": 0.0}, UsageError, "seed is 0.0, of type float"),
        ({"strategy": None}, UsageError, "None is not a strategy"),
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


@pytest.mark.parametrize("name", strategies.names())
def test_rows_of_a_file_are_chosen_as_those_in_memory(name, tmp_path):
    np.save(tmp_path / "rows.npy", FEATURES)
    file = np.load(tmp_path / "rows.npy", mmap_mode="r")
    known = {"labeled": np.arange(9), "labels": np.arange(9) % 3}
    expected = select(name, **known).tolist()
    assert select(name, features=file, **known).tolist() == expected


def test_a_lost_number_in_a_file_is_named(tmp_path):
    rows = np.zeros((300_000, 32), dtype=np.float32)
    rows[290_000, 5] = np.inf
    np.save(tmp_path / "rows.npy", rows)
    file = np.load(tmp_path / "rows.npy", mmap_mode="r")
    with pytest.raises(NotFiniteError, match=r"holds inf at \(290000, 5\)"):
        select(features=file, logits=None)
