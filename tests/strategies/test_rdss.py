import math

import pytest
import torch
from tests.strategies import contract

from fewlabels.strategies import RepresentativeDiverse


def discrepancy(rows, members, alpha, width):
    """The paper's criterion, term by term, but for what no set changes."""

    def k(one, other):
        return math.exp(-(math.dist(rows[one], rows[other]) ** 2) / (2 * width**2))

    count = len(members)
    own = sum(k(i, j) for i in members for j in members) / count**2
    shared = sum(k(i, j) for i in members for j in range(len(rows)))
    return own - 2 * alpha * shared / (count * len(rows))


@pytest.mark.parametrize("block", range(4))
def test_agrees_with_trying_every_candidate_on_a_hundred_problems(block):
    for seed in range(25 * block, 25 * block + 25):
        pool, classifier = contract.problem(seed, num_labeled=seed % 4)
        unit = torch.nn.functional.normalize(classifier.features.double())
        rows = unit[:24].tolist()
        known = [item for item in pool.labeled.tolist() if item < 24]
        labels = pool.labels[:24]
        small = type(pool).build(
            type(pool.images)(torch.zeros(24, 1)), labels, pool.classes
        )
        few = type(classifier)(classifier.features[:24], classifier.logits[:24])
        width, size = (1.0, 0.4)[seed % 2], 3
        strategy = RepresentativeDiverse(width=width)
        query = contract.chosen_by(strategy, small, few, size)
        alpha = 1 - (len(known) + size) ** -0.5
        assert query.record == {"alpha": alpha}
        members = known
        for item in query.indices.tolist():
            free = [x for x in range(24) if x not in members]
            values = {x: discrepancy(rows, [*members, x], alpha, width) for x in free}
            assert values[item] == pytest.approx(min(values.values()), abs=1e-9)
            members = [*members, item]


def test_without_the_pool_nothing_but_variety_counts():
    pool, classifier = contract.problem(1, num_labeled=1)
    query = contract.chosen_by(RepresentativeDiverse(alpha=0.0), pool, classifier, 1)
    unit = torch.nn.functional.normalize(classifier.features.double())
    apart = (unit - unit[pool.labeled]).square().sum(dim=1)
    assert int(query.indices) == int(apart.argmax())
