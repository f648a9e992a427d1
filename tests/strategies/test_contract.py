import pytest
from tests.strategies import contract

from fewlabels import strategies
from fewlabels.errors import UsageError
from fewlabels.experiments.conformance import check
from fewlabels.pool import check_query

CASES = [(name, {}) for name in strategies.names()] + [
    ("margin", {"on": "logits"}),
    ("least-confidence", {"on": "logits"}),
    ("coreset", {"method": "robust"}),
    ("coreset", {"method": "robust", "outliers": 0.1, "max_pool": 12}),
    ("badge", {"first": "uniform"}),
    ("batchbald", {"num_samples": 3, "num_configurations": 12}),
    ("dal", {"num_parts": 2, "max_train": 7}),
    ("npc", {"kernel": "last-layer", "draws": 20}),
    ("npc", {"kernel": "wide-head", "draws": 20}),
    ("npc", {"kernel": "softmax", "draws": 20}),
    ("npc", {"normalize": True, "draws": 7}),
    ("npc", {"method": "greedy"}),
    ("npc", {"method": "exchange"}),
    ("npc", {"proposal": "clusters", "draws": 20}),
    ("npc", {"proposal": "typical", "draws": 20}),
    ("npc", {"kernel": "softmax", "normalize": True, "draws": 20}),
    ("npc", {"kernel": "wide-head", "normalize": True, "draws": 20}),
    ("npc", {"kernel": "diffusion", "draws": 20}),
    ("npc", {"kernel": "diffusion", "weights": "influence", "method": "greedy"}),
    ("maxdet", {"kernel": "diffusion"}),
    ("ev-gp", {"kernel": "diffusion"}),
    ("outward", {"power": 0.0}),
    ("outward", {"rank": 5, "num_neighbors": 3}),
    ("maxdet", {"kernel": "last-layer"}),
    ("maxdet", {"kernel": "wide-head"}),
    ("probcover", {"radius": 0.5}),
    ("probcover", {"max_pool": 20}),
    ("uherding", {"uncertainty": None}),
    ("uherding", {"uncertainty": "entropy", "temperature": 2.0, "max_pool": 20}),
    ("maxdet", {"kernel": "softmax"}),
    ("maxdet", {"normalize": True}),
    ("bait", {"likelihood": "binary"}),
    ("bait", {"max_pool": 20}),
    ("mlmoc", {"several": "top"}),
    ("mlmoc", {"kernel": "wide-head", "normalize": True}),
    ("mlmoc", {"kernel": "softmax"}),
    ("mlmoc", {"max_pool": 20, "num_references": 10}),
    ("ev-gp", {"kernel": "wide-head", "normalize": True}),
    ("ev-gp", {"kernel": "softmax"}),
    ("ev-gp", {"max_pool": 20, "num_references": 10}),
    ("typiclust", {"max_clusters": 3}),
    ("medoids", {"max_clusters": 3}),
    ("rdss", {"alpha": 0.0}),
    ("rdss", {"width": 0.3, "max_pool": 20}),
    ("cluster-margin", {"distance": 2.0}),
    ("cluster-margin", {"max_pool": 10}),
]


NEED_LABELS = ("dal",)
IDS = ["-".join(map(str, case)) for case in CASES]


# Every strategy, and what chooses in another way; the first of each of these with
# numbers that are quickly done. `test_chooses_distinct_candidates` has them all.
LONG = [("batchbald", {}), ("dal", {})]
SHORT = [
    ("batchbald", {"num_samples": 3, "num_configurations": 12}),
    ("dal", {"num_parts": 2, "max_train": 7}),
    ("coreset", {"method": "robust", "outliers": 0.1, "max_pool": 12}),
    ("npc", {"proposal": "clusters", "draws": 20}),
]
QUICK = [(name, {}) for name in strategies.names() if (name, {}) not in LONG] + SHORT
PROMISING = [
    pytest.param(*case, marks=[] if case in QUICK else [pytest.mark.slow])
    for case in CASES
]


@pytest.mark.parametrize(("name", "options"), PROMISING, ids=IDS)
def test_every_promise_is_kept(name, options, untouched_randomness):
    findings = list(check(name, options))
    wrong = {"failed"} if name in NEED_LABELS else {"failed", "refused"}
    assert [one for one in findings if one.outcome in wrong] == []


@pytest.mark.filterwarnings("ignore::fewlabels.errors.DegenerateGramWarning")
@pytest.mark.parametrize("num_labeled", [0, 1, 8])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_chooses_distinct_candidates(name, options, num_labeled):
    strategy = strategies.resolve(name, options)
    if not num_labeled and name in NEED_LABELS:
        with pytest.raises(UsageError, match=r"None of the 60 items .* begin with '"):
            contract.chosen_by(strategy, *contract.problem(0, 0))
        return
    pool, classifier = contract.problem(10 + num_labeled, num_labeled)
    check_query(contract.chosen_by(strategy, pool, classifier), pool, 5)


CHUNKS = {
    "fewlabels.gram.kernels._CHUNK_BYTES": 100,
    "fewlabels.search.blocks._CHUNK_LENGTH": 7,
    "fewlabels.search.clusters._CHUNK_ENTRIES": 37,
    "fewlabels.search.covering._CHUNK_ROWS": 5,
    "fewlabels.search.information._CHUNK_ENTRIES": 7 * 64,
    "fewlabels.strategies.batchbald._CHUNK_ENTRIES": 1,
    "fewlabels.strategies.inputs._CHUNK_ENTRIES": 37,
    "fewlabels.strategies.outward._CHUNK_ENTRIES": 37,
}


@pytest.mark.parametrize(("name", "options"), QUICK)
def test_any_chunk_size_gives_the_same_answer(name, options, monkeypatch):
    pool, classifier = contract.problem(7)
    strategy = strategies.resolve(name, options)
    whole = contract.chosen_by(strategy, pool, classifier, 20)
    for path, size in CHUNKS.items():
        monkeypatch.setattr(path, size)
    parts = contract.chosen_by(strategy, pool, classifier, 20)
    assert parts.indices.tolist() == whole.indices.tolist()
    assert parts.value == pytest.approx(whole.value)
