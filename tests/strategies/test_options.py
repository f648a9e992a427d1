"""Options at the edge of sense: each is refused in words, or means what it says."""

import math

import numpy as np
import pytest

import fewlabels
from fewlabels.errors import UsageError

ROWS = np.random.default_rng(0).normal(size=(40, 5))
LOGITS = np.random.default_rng(1).normal(size=(20, 40, 3))


def chosen(name, options, rows=ROWS):
    return fewlabels.select(
        name,
        features=rows,
        logits=LOGITS,
        labeled=[3, 9, 11],
        labels=[0, 1, 2],
        size=5,
        seed=0,
        options=options,
    ).tolist()


@pytest.mark.parametrize(
    "name",
    [
        "coreset",
        "batchbald",
        "probcover",
        "cluster-margin",
        "bait",
        "mlmoc",
        "ev-gp",
        "uherding",
        "rdss",
    ],
)
@pytest.mark.parametrize("limit", [0, -1])
def test_a_pool_of_nothing_is_refused(name, limit):
    with pytest.raises(UsageError, match=rf"max_pool is {limit}.*at least 1"):
        chosen(name, {"max_pool": limit})


@pytest.mark.parametrize("name", ["mlmoc", "ev-gp"])
@pytest.mark.parametrize("count", [0, -1])
def test_a_mean_over_no_references_is_refused(name, count):
    with pytest.raises(UsageError, match=rf"references is {count}.*at least 1"):
        chosen(name, {"num_references": count})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cluster-margin", {"pool_factor": math.nan}),
        ("cluster-margin", {"pool_factor": math.inf}),
        ("cluster-margin", {"distance": math.nan}),
        ("bait", {"regularization": math.inf}),
        ("dal", {"penalty": math.inf}),
        ("npc", {"tie_tolerance": math.nan}),
        ("npc", {"tie_tolerance": -0.1}),
        ("npc", {"tie_tolerance": 1.0}),
        ("rdss", {"alpha": 1.1}),
        ("rdss", {"alpha": math.nan}),
        ("rdss", {"width": 0.0}),
        ("outward", {"power": -1.0}),
        ("outward", {"noise": 0.0}),
        ("sigma-opt", {"damping": 1.0}),
        ("npc", {"weights": "influence"}),
        ("npc", {"normalize": True, "kernel": "diffusion"}),
    ],
)
def test_numbers_without_meaning_are_refused(name, options):
    with pytest.raises(UsageError, match=next(iter(options))):
        chosen(name, options)


@pytest.mark.parametrize(
    ("name", "option", "large", "enough"),
    [
        ("cluster-margin", "pool_factor", 1e300, 37 / 5),
        ("cluster-margin", "num_clusters", 10**30, 37),
        ("bait", "oversample", 1e300, 37 / 5),
        ("probcover", "radius", 1e300, 2.1),
        ("npc", "processes", 10**30, 1),
    ],
)
def test_more_than_there_is_means_everything(name, option, large, enough):
    assert chosen(name, {option: large}) == chosen(name, {option: enough})


def test_a_width_whose_square_underflows_still_covers_what_is_chosen():
    tiny, small = ({"radius": width} for width in (1e-200, 1e-9))
    assert chosen("uherding", tiny) == chosen("uherding", small)
    assert len(chosen("uherding", {"radius": 1e300})) == 5


@pytest.mark.filterwarnings("ignore::fewlabels.errors.DegenerateGramWarning")
@pytest.mark.parametrize("name", fewlabels.strategies.names())
def test_items_with_equal_features_are_all_alike(name):
    assert len(set(chosen(name, {}, rows=np.zeros_like(ROWS[:, :1])))) == 5
