"""Options at the edge of sense: each is refused in words, or means what it says."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.strategies import contract

import fewlabels
from fewlabels.errors import UsageError
from fewlabels.strategies import Margin

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


WITH_MAX_POOL = [
    name
    for name in fewlabels.strategies.names()
    if hasattr(fewlabels.strategies.resolve(name), "max_pool")
]
REFUSED = [
    *((name, {"max_pool": 0}, r"max_pool is 0.*at least 1") for name in WITH_MAX_POOL),
    ("albl", {"arms": (Margin, Margin)}, "Margin'> is not a strategy object"),
    ("albl", {"arms": ("margin", "npc")}, "'margin' is not a strategy object; give"),
    ("albl", {"arms": (Margin(),)}, "number of arms is 1; it must be at least 2"),
    ("albl", {"delta": 1.0}, "delta is 1.0; it must be above 0 and below 1"),
    ("badge", {"first": "larges"}, "first called 'larges'"),
    ("bait", {"likelihood": "binry"}, "likelihood called 'binry'"),
    ("bait", {"oversample": 0.5}, r"oversample is 0\.5; "),
    ("bait", {"regularization": 0}, "regularization is 0; it must be above 0"),
    ("bait", {"regularization": math.inf}, "regularization is inf"),
    ("batchbald", {"num_configurations": 0}, "num_configurations"),
    ("batchbald", {"num_samples": 1}, "num_samples"),
    ("cluster-margin", {"distance": -1.0}, "distance is -1.0; it must be at least 0"),
    ("cluster-margin", {"distance": math.nan}, "distance is nan"),
    ("cluster-margin", {"num_clusters": 0}, "num_clusters is 0"),
    ("cluster-margin", {"num_clusters": 3, "distance": 0.5}, "3 clusters or dist"),
    ("cluster-margin", {"pool_factor": 0.5}, "pool_factor is 0.5; .* at least 1"),
    ("cluster-margin", {"pool_factor": math.inf}, "pool_factor is inf"),
    ("cluster-margin", {"pool_factor": math.nan}, "pool_factor is nan"),
    ("coreset", {"method": "robus"}, "method called 'robus'"),
    ("coreset", {"outliers": 1}, "outliers is 1; it must be at least 0 and"),
    ("dal", {"max_train": 0}, "max_train is 0; it must be"),
    ("dal", {"num_parts": 0}, "num_parts is 0; it must be"),
    ("dal", {"penalty": 0.0}, "penalty is 0.0; it must be"),
    ("dal", {"penalty": math.inf}, "penalty is inf"),
    ("ev-gp", {"kernel": "widehead"}, "kernel called 'widehead'"),
    ("ev-gp", {"noise": 0}, "noise is 0; it must be above 0"),
    ("ev-gp", {"num_references": 0}, "references is 0.*at least 1"),
    ("least-confidence", {"on": "logit"}, r"on called 'logit'\. Did you mean"),
    ("margin", {"on": "logit"}, r"on called 'logit'\. Did you mean"),
    ("mlmoc", {"num_references": -1}, "references is -1.*at least 1"),
    ("mlmoc", {"ridge": -1}, "ridge is -1"),
    ("mlmoc", {"several": "sequential"}, "several called 'sequential'"),
    ("npc", {"kernel": "widehead"}, r"kernel called 'widehead'\. Did you mean"),
    ("npc", {"normalize": True, "kernel": "diffusion"}, "normalize has no effect"),
    ("npc", {"processes": 0}, "processes is 0; it must be at least 1"),
    ("npc", {"tie_tolerance": -0.1}, "tie_tolerance is -0.1"),
    ("npc", {"tie_tolerance": 1.0}, "tie_tolerance is 1.0"),
    ("npc", {"tie_tolerance": math.nan}, "tie_tolerance is nan"),
    ("npc", {"weights": "influence"}, "weights='influence' needs the kernel"),
    ("outward", {"kernel": "grph"}, "no kernel called 'grph'"),
    ("outward", {"noise": 0.0}, "noise is 0.0"),
    ("outward", {"power": -1.0}, "power is -1.0"),
    ("probcover", {"num_clusters": 1}, "num_clusters is 1; it must be at least 2"),
    ("probcover", {"purity": 1.5}, r"purity is 1\.5; .* above 0 and at most 1"),
    ("probcover", {"radius": 0}, "radius is 0; it must be above 0"),
    ("rdss", {"alpha": 1.1}, "alpha is 1.1"),
    ("rdss", {"alpha": math.nan}, "alpha is nan"),
    ("rdss", {"width": 0.0}, "width is 0.0"),
    ("sigma-opt", {"damping": 1.0}, "damping is 1.0"),
    ("typiclust", {"max_clusters": 0}, "max_clusters is 0; it must be at least 1"),
    ("uherding", {"radius": 0}, "radius is 0; it must be above 0"),
    ("uherding", {"temperature": -1.0}, r"temperature is -1\.0; .* above 0"),
    ("uherding", {"uncertainty": "margn"}, "uncertainty called 'margn'"),
]


@pytest.mark.parametrize(("name", "options", "message"), REFUSED)
def test_options_without_meaning_are_refused(name, options, message):
    with pytest.raises(UsageError, match=message):
        type(fewlabels.strategies.resolve(name))(**options)


@pytest.mark.parametrize("name", [n for n in WITH_MAX_POOL if n != "coreset"])
def test_a_part_of_a_large_pool_is_noted_in_the_record(name):
    pool, classifier = contract.problem(4)
    strategy = fewlabels.strategies.resolve(name, {"max_pool": 9})
    record = contract.chosen_by(strategy, pool, classifier).record
    assert record["subsample"] == {"considered": 9, "out_of": 42, "max_pool": 9}


NEED_LOGITS = ["badge", "bait", "cluster-margin", "egl", "entropy", "margin", "mlmoc"]


@pytest.mark.parametrize("name", NEED_LOGITS)
def test_without_logits_the_remedy_is_named(name):
    pool, classifier = contract.problem(0)
    silent = replace(classifier, logits=torch.empty(60, 0), samples=None)
    with pytest.raises(UsageError, match="There are 0 logits; give one per class"):
        contract.chosen_by(fewlabels.strategies.resolve(name), pool, silent)


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
