import pytest
import torch

from fewlabels.errors import BudgetError
from fewlabels.rng import stream
from fewlabels.search import top


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
