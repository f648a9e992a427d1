import pytest
from tests.strategies import contract

from fewlabels import strategies
from fewlabels.conformance import check
from fewlabels.errors import BudgetError
from fewlabels.pool import check_query

CASES = [(name, {}) for name in strategies.names()] + [
    ("margin", {"on": "logits"}),
    ("least-confidence", {"on": "logits"}),
    ("npc", {"kernel": "last-layer"}),
    ("npc", {"kernel": "wide-head"}),
    ("npc", {"kernel": "softmax"}),
    ("npc", {"normalize": True, "draws": 7}),
    ("npc", {"method": "greedy"}),
    ("npc", {"method": "exchange"}),
    ("npc", {"proposal": "clusters"}),
    ("npc", {"proposal": "typical"}),
    ("maxdet", {"kernel": "wide-head"}),
]


IDS = ["-".join(map(str, case)) for case in CASES]


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_every_promise_is_kept(name, options, untouched_randomness):
    findings = list(check(name, options))
    assert [one for one in findings if one.outcome in {"failed", "refused"}] == []


@pytest.mark.filterwarnings("ignore::fewlabels.errors.DegenerateGramWarning")
@pytest.mark.parametrize("num_labeled", [0, 1, 8])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_chooses_distinct_candidates(name, options, num_labeled):
    strategy = strategies.resolve(name, options)
    for seed in range(10, 13):
        pool, classifier = contract.problem(seed, num_labeled)
        check_query(contract.chosen_by(strategy, pool, classifier), pool, 5)


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_refuses_more_than_there_is(name, options):
    pool, classifier = contract.problem(0)
    strategy = strategies.resolve(name, options)
    with pytest.raises(BudgetError, match="43 items are asked for, and there are 42"):
        contract.chosen_by(strategy, pool, classifier, size=43)
