import itertools
import math

import numpy as np
import pytest
import torch
from tests.strategies import contract

from fewlabels.errors import UsageError
from fewlabels.rng import stream
from fewlabels.strategies import batchbald
from fewlabels.strategies.batchbald import BatchBald, maximize_information


def sampled_logits(seed, num_networks=4, num_items=7, num_classes=3):
    generator = stream(seed, "sampled")
    return 2 * torch.randn(num_networks, num_items, num_classes, generator=generator)


# ----------------------------------------------------------------- the definition


def entropy(probabilities):
    return -sum(p * math.log(p) for p in probabilities if p > 0)


def set_information(chances, items):
    """I(labels; network), summed over every way to label the items."""
    num_networks, _, num_classes = chances.shape
    joint = [
        np.mean(
            [
                math.prod(chances[k, i, y] for i, y in zip(items, labels, strict=True))
                for k in range(num_networks)
            ]
        )
        for labels in itertools.product(range(num_classes), repeat=len(items))
    ]
    noise = sum(
        np.mean([entropy(chances[k, item]) for k in range(num_networks)])
        for item in items
    )
    return entropy(joint) - noise


def twin(chances, size):
    chosen = []
    for _ in range(size):
        free = [item for item in range(chances.shape[1]) if item not in chosen]
        values = [set_information(chances, [*chosen, item]) for item in free]
        chosen.append(free[int(np.argmax(values))])
    return chosen, set_information(chances, chosen)


def test_agrees_with_the_definition_on_a_hundred_problems():
    for seed in range(100):
        logits = sampled_logits(seed)
        expected, value = twin(logits.double().softmax(dim=2).numpy(), 3)
        chosen, found = maximize_information(
            logits, 3, stream(0), num_configurations=10_000
        )
        assert chosen.tolist() == expected
        assert found == pytest.approx(value)


def test_sampled_labelings_give_the_exact_value_on_average():
    # All five items are chosen, in whatever order: the value is that of the whole set.
    logits = sampled_logits(3, num_items=5)
    exact = set_information(logits.double().softmax(dim=2).numpy(), range(5))
    values = torch.tensor(
        [
            maximize_information(logits, 5, stream(s), num_configurations=20)[1]
            for s in range(150)
        ]
    )
    error = float(values.std()) / math.sqrt(150)
    assert 0 < error < 0.02
    assert abs(float(values.mean()) - exact) < 4 * error


def test_copies_are_not_asked_together_where_single_scores_would():
    # Networks disagree most about item 0; its copy tells nothing new, item 2 does.
    certain, unsure = 9.0, 1.5
    logits = torch.zeros(4, 3, 2)
    logits[:, :2, 0] = torch.tensor([certain, certain, -certain, -certain])[:, None]
    logits[:, 2, 0] = torch.tensor([unsure, -unsure, unsure, -unsure])
    chosen, value = maximize_information(logits, 2, stream(0), num_configurations=100)
    assert set(chosen.tolist()) in ({0, 2}, {1, 2})
    assert value > math.log(2)


def test_networks_that_agree_tell_nothing():
    logits = sampled_logits(1, num_networks=1).repeat(4, 1, 1)
    _, value = maximize_information(logits, 4, stream(0), num_configurations=30)
    assert value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("num_configurations", [5, 1000])
def test_any_chunk_size_gives_the_same_answer(monkeypatch, num_configurations):
    logits = sampled_logits(2, num_items=30)

    def found():
        return maximize_information(
            logits, 5, stream(0), num_configurations=num_configurations
        )

    (whole, value), _ = found(), monkeypatch.setattr(batchbald, "_CHUNK_ENTRIES", 1)
    chunked, same = found()
    assert torch.equal(whole, chunked)
    assert same == pytest.approx(value)


# --------------------------------------------------------------------- the strategy


def test_the_strategy_asks_by_index_and_tells_what_it_did():
    pool, classifier = contract.problem(4)
    query = contract.chosen_by(BatchBald(num_samples=6), pool, classifier, size=3)
    chances = classifier.samples[:6, pool.candidates].double().softmax(dim=2).numpy()
    expected, value = twin(chances, 3)
    assert query.indices.tolist() == pool.candidates[expected].tolist()
    assert query.value == pytest.approx(value)
    assert query.record == {"exact": True, "samples": 6}
    many = contract.chosen_by(BatchBald(num_configurations=50), pool, classifier)
    assert many.record == {"exact": False, "samples": 20}


def test_too_few_samples_are_refused_with_both_numbers():
    pool, classifier = contract.problem(4)
    with pytest.raises(UsageError, match="21 samples are needed, but 20 were"):
        contract.chosen_by(BatchBald(num_samples=21), pool, classifier)
