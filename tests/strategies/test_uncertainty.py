import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests import reference
from tests.strategies import contract

from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.strategies import Entropy, LeastConfidence, Margin

TWINS = [
    (Margin(), reference.probabilities, reference.margin_scores),
    (Margin(on="logits"), torch.Tensor.tolist, reference.margin_scores),
    (LeastConfidence(), reference.probabilities, reference.least_confidence_scores),
    (
        LeastConfidence(on="logits"),
        torch.Tensor.tolist,
        reference.least_confidence_scores,
    ),
    (Entropy(), reference.probabilities, reference.entropy_scores),
]


@pytest.mark.parametrize(
    ("strategy", "scale", "scores"), TWINS, ids=lambda x: str(x)[:30]
)
@given(seed=st.integers(0, 2**31 - 1))
def test_agrees_with_the_definition(strategy, scale, scores, seed):
    pool, classifier = contract.problem(seed)
    logits = classifier.outputs(pool.images, pool.candidates).logits
    by_score = sorted(
        zip(scores(scale(logits)), pool.candidates.tolist(), strict=True), reverse=True
    )
    expected = [index for _, index in by_score[:5]]
    assert contract.chosen_by(strategy, pool, classifier).indices.tolist() == expected


def test_margin_on_logits_and_on_probabilities_differ():
    # Leads of 1 and .9 before softmax; after it, the spread of the rest counts too.
    logits = torch.tensor([[2.0, 1.0, 1.0, 1.0], [2.0, 1.1, -9.0, -9.0]]).repeat(30, 1)
    pool, _ = contract.problem(0)
    classifier = PrecomputedClassifier(torch.zeros(60, 2), logits)

    def parity(strategy):
        chosen = contract.chosen_by(strategy, pool, classifier).indices
        return set((chosen % 2).tolist())

    assert parity(Margin()) == {0}
    assert parity(Margin(on="logits")) == {1}
