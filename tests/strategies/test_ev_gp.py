import pytest
import torch
from tests.strategies import contract
from tests.strategies.twins import gaussian as twin
from tests.strategies.twins.problems import gram_of, small_problem

from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.strategies import ExpectedVariance, Random


@pytest.mark.parametrize("kernel", ["last-layer", "wide-head", "softmax"])
def test_agrees_with_whole_systems_on_a_hundred_problems(kernel):
    for seed in range(34):
        pool, classifier = small_problem(seed)
        noise = [0.01, 0.5][seed % 2]
        strategy = ExpectedVariance(kernel=kernel, noise=noise)
        query = contract.chosen_by(strategy, pool, classifier, size=3)
        gram = gram_of(kernel, classifier)
        noise *= gram.diagonal().mean()
        labeled = pool.labeled.tolist()
        expected = twin.least_variance(
            gram, labeled, pool.candidates.tolist(), 3, noise
        )
        assert query.indices.tolist() == expected
        before = twin.mean_variance(gram, labeled, noise)
        after = twin.mean_variance(gram, [*labeled, *expected], noise)
        assert query.record["variance_before"] == pytest.approx(before)
        assert query.record["variance_after"] == pytest.approx(after)
        assert query.value == pytest.approx(-after)


def test_the_middle_of_a_crowd_is_asked_first_and_then_the_other_crowd():
    crowds = torch.tensor([[5.0, 0.0]] * 20 + [[0.0, 5.0]] * 9 + [[-5.0, -5.0]])
    labels = torch.full((30,), UNKNOWN)
    pool = Pool.build(ArrayImages(crowds), labels, "ab")
    strategy = ExpectedVariance(kernel="wide-head", normalize=True)
    classifier = PrecomputedClassifier(crowds, torch.empty(30, 0))
    first, second, third = contract.chosen_by(strategy, pool, classifier, 3).indices
    assert int(first) < 20 <= int(second) < 29 == int(third)


def test_a_part_of_the_pool_as_references_serves_the_whole():
    pool, classifier = contract.problem(1)
    gram = gram_of("last-layer", classifier)
    noise = 0.01 * gram.diagonal().mean()

    def variance_after(indices):
        members = [*pool.labeled.tolist(), *indices.tolist()]
        return twin.mean_variance(gram, members, noise)

    whole = contract.chosen_by(ExpectedVariance(), pool, classifier)
    part = contract.chosen_by(ExpectedVariance(num_references=30), pool, classifier)
    assert (whole.record["references"], part.record["references"]) == (60, 30)
    random = contract.chosen_by(Random(), pool, classifier)
    best, near, blind = map(
        variance_after, (whole.indices, part.indices, random.indices)
    )
    assert best <= near < (best + blind) / 2
