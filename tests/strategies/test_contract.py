import json
import warnings

import pytest
from tests.strategies import contract

from fewlabels import strategies
from fewlabels.errors import BudgetError, DegenerateGramWarning, UsageError
from fewlabels.pool import Query

CASES = [(name, {}) for name in strategies.names()] + [
    ("margin", {"on": "logits"}),
    ("least-confidence", {"on": "logits"}),
    ("coreset", {"method": "robust"}),
    ("coreset", {"method": "robust", "outliers": 0.1, "max_pool": 12}),
    ("badge", {"first": "uniform"}),
    ("albl", {"version": "exp4p", "num_draws": 40}),
    ("batchbald", {"num_samples": 3, "num_configurations": 12}),
    ("dal", {"num_batches": 2, "max_train": 7}),
    ("npc", {"kernel": "last-layer"}),
    ("npc", {"kernel": "wide-head"}),
    ("npc", {"kernel": "softmax"}),
    ("npc", {"normalize": True, "draws": 7}),
    ("npc", {"method": "greedy"}),
    ("npc", {"method": "exchange"}),
    ("npc", {"proposal": "clusters"}),
    ("npc", {"proposal": "typical"}),
    ("npc", {"kernel": "softmax", "normalize": True}),
    ("npc", {"kernel": "wide-head", "normalize": True}),
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
    ("mlmoc", {"max_pool": 20, "references": 10}),
    ("ev-gp", {"kernel": "wide-head", "normalize": True}),
    ("ev-gp", {"kernel": "softmax"}),
    ("ev-gp", {"max_pool": 20, "references": 10}),
    ("typiclust", {"max_clusters": 3}),
    ("cluster-margin", {"distance": 2.0}),
    ("cluster-margin", {"max_pool": 10}),
]


NEED_LABELS = (strategies.DiscriminativeActiveLearning,)


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case)))
def strategy(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateGramWarning)
        yield strategies.resolve(*request.param)


@pytest.mark.parametrize("num_labeled", [0, 1, 8])
@pytest.mark.parametrize("seed", range(3))
def test_chooses_distinct_candidates(strategy, seed, num_labeled):
    if not num_labeled and isinstance(strategy, NEED_LABELS):
        with pytest.raises(UsageError, match=r"None of the 60 items .* begin with '"):
            contract.check_chooses_distinct_candidates(strategy, seed, num_labeled)
        return
    contract.check_chooses_distinct_candidates(strategy, seed, num_labeled)


def test_same_seed_same_choice(strategy):
    contract.check_same_seed_same_choice(strategy)


def test_touches_nothing(strategy):
    contract.check_touches_nothing(strategy)


def test_copes_with_duplicates_and_constants(strategy):
    contract.check_copes_with_duplicates_and_constants(strategy)


def test_refuses_more_than_there_is(strategy):
    pool, classifier = contract.problem(0)
    with pytest.raises(BudgetError, match="43 items are asked for, and there are 42"):
        contract.chosen_by(strategy, pool, classifier, size=43)


def test_the_record_survives_json(strategy):
    pool, classifier = contract.problem(0)
    record = dict(contract.chosen_by(strategy, pool, classifier).record)
    assert json.loads(json.dumps(record)) == record


class Repeats:
    def select(self, classifier, pool, size, generator, *, history=()):
        return Query(pool.candidates[:1].expand(size))


def test_the_contract_notices_a_strategy_that_repeats_items():
    with pytest.raises(AssertionError):
        contract.check_chooses_distinct_candidates(Repeats(), 0, 8)
