import pytest
import torch

from fewlabels.errors import BudgetError
from fewlabels.rng import stream
from fewlabels.search import top
from fewlabels.search.scores import largest


def test_top_takes_the_largest_and_breaks_ties_by_the_generator():
    candidates = torch.tensor([10, 11, 12, 13, 14])
    scores = torch.tensor([0.0, 2.0, 1.0, 1.0, 1.0])
    seen = {
        tuple(top(scores, candidates, 2, stream(seed)).tolist()) for seed in range(60)
    }
    assert seen == {(11, 12), (11, 13), (11, 14)}


@pytest.mark.parametrize("size", [0, 4])
def test_a_size_that_cannot_be_had_is_refused(size):
    with pytest.raises(
        BudgetError, match=f"{size} items are asked for, and there are 3"
    ):
        top(torch.zeros(3), torch.arange(3), size, stream(0))


def test_rounding_does_not_decide_between_equal_scores():
    scores = torch.tensor([0.1 + 0.2, 0.3, 0.2], dtype=torch.float64)
    found = {largest(scores, torch.Generator().manual_seed(n)) for n in range(30)}
    assert found == {0, 1}


def test_scores_that_differ_by_more_than_rounding_are_no_tie():
    scores = torch.tensor([-1.0, -1.0 + 1e-8], dtype=torch.float64)
    assert {largest(scores, torch.Generator().manual_seed(n)) for n in range(30)} == {1}
