import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewlabels.gram import last_layer_kernel
from fewlabels.rng import stream
from fewlabels.search import blocks, maximize_determinant


def naive(gram, labeled, candidates, size):
    """Try every item in every step."""
    chosen = []
    for _ in range(size):
        free = [item for item in candidates.tolist() if item not in chosen]
        members = [*labeled.tolist(), *chosen]
        determinants = [
            float(torch.logdet(gram[[*members, item]][:, [*members, item]]))
            for item in free
        ]
        chosen.append(free[max(range(len(free)), key=determinants.__getitem__)])
    return chosen


@given(seed=st.integers(0, 2**31 - 1), num_labeled=st.integers(0, 5))
def test_agrees_with_trying_every_item(seed, num_labeled):
    features = torch.randn(25, 12, generator=stream(seed), dtype=torch.float64)
    kernel = last_layer_kernel(features, 2)
    labeled, candidates = torch.arange(num_labeled), torch.arange(num_labeled, 25)
    everything = torch.arange(25)
    gram = kernel.block(everything, everything)
    chosen, value = maximize_determinant(
        kernel, labeled=labeled, candidates=candidates, size=4, generator=stream(0)
    )
    assert chosen.tolist() == naive(gram, labeled, candidates, 4)
    members = [*labeled.tolist(), *chosen.tolist()]
    both = float(torch.logdet(gram[members][:, members]))
    of_labeled = 0.0
    if num_labeled:
        of_labeled = float(torch.logdet(gram[labeled][:, labeled]))
    assert value == pytest.approx(both - of_labeled)


def test_the_choice_is_the_same_for_any_chunk_size(monkeypatch):
    features = torch.randn(40, 12, generator=stream(2), dtype=torch.float64)
    kernel = last_layer_kernel(features, 2)

    def chosen():
        return maximize_determinant(
            kernel,
            labeled=torch.arange(3),
            candidates=torch.arange(3, 40),
            size=5,
            generator=stream(0),
        )

    whole, value = chosen()
    monkeypatch.setattr(blocks, "_CHUNK_LENGTH", 7)
    parts, same_value = chosen()
    assert torch.equal(whole, parts)
    assert same_value == pytest.approx(value)


def test_no_block_of_the_whole_pool_is_asked_for():
    class Watched:
        def __init__(self, kernel):
            self._kernel, self.largest = kernel, 0
            self.rank_bound, self.num_items = kernel.rank_bound, kernel.num_items

        def diagonal(self, items):
            return self._kernel.diagonal(items)

        def block(self, rows, columns):
            self.largest = max(self.largest, len(rows))
            return self._kernel.block(rows, columns)

    kernel = Watched(last_layer_kernel(torch.randn(20_000, 3, generator=stream(3)), 2))
    maximize_determinant(
        kernel,
        labeled=torch.arange(2),
        candidates=torch.arange(2, 20_000),
        size=2,
        generator=stream(0),
    )
    assert 2 <= kernel.largest <= 10_000


def test_an_exhausted_rank_is_said_and_filled_at_random():
    features = torch.randn(30, 3, generator=stream(1), dtype=torch.float64)
    kernel = last_layer_kernel(features, 2)
    chosen = [
        maximize_determinant(
            kernel,
            labeled=torch.tensor([0, 1]),
            candidates=torch.arange(2, 30),
            size=8,
            generator=stream(seed),
        )
        for seed in range(3)
    ]
    assert all(value == -math.inf for _, value in chosen)
    assert all(len(set(indices.tolist())) == 8 for indices, _ in chosen)
    first = [indices[:2].tolist() for indices, _ in chosen]
    assert first[0] == first[1] == first[2]
    assert len({tuple(indices.tolist()) for indices, _ in chosen}) > 1
