import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewlabels.experiments.evaluation import accuracy, late_median
from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import ArrayImages, Split


def test_accuracy_is_the_share_classified_rightly():
    logits = torch.tensor([[3.0, 1.0], [0.0, 1.0], [2.0, -1.0], [-1.0, 0.0]])
    classifier = PrecomputedClassifier(torch.zeros(4, 1), logits)
    split = Split(ArrayImages(torch.zeros(4, 1)), torch.tensor([0, 1, 1, 1]))
    assert accuracy(classifier, split) == 3 / 4


@pytest.mark.parametrize(
    ("evaluations", "expected"),
    [
        ({600: 0.25}, 0.25),
        ({0: 0.25}, 0.25),  # an untrained network
        ({480: 0.0, 600: 0.5}, 0.5),  # 480 is not among the last 120 steps
        ({481: 0.0, 600: 0.5}, 0.25),
        ({1: 1.0, 570: 0.25, 540: 0.75, 600: 0.5}, 0.5),  # in any order
        ({step: 1.0 if step <= 980 else 0.5 for step in range(1, 1001)}, 0.5),
        ({step: 0.5 if step <= 981 else 0.0 for step in range(1, 1001)}, 0.0),
    ],
)
def test_the_median_of_the_last_evaluations(evaluations, expected):
    assert late_median(evaluations) == expected


@given(st.dictionaries(st.integers(0, 3000), st.floats(0, 1), min_size=1))
def test_settled_agrees_with_a_slow_twin(evaluations):
    steps = sorted(evaluations)
    late = [evaluations[steps.pop()]]
    while steps and len(late) < 20:
        step = steps.pop()
        if step <= max(evaluations) * 4 / 5:
            break
        late.append(evaluations[step])
    assert late_median(evaluations) == statistics.median(late)
