"""Strategies that look through a kernel, with that of a whole small network."""

import pytest
import torch
from tests.conftest import global_random_state
from tests.strategies import contract
from torch import nn

from fewlabels import gram, strategies
from fewlabels.errors import UsageError
from fewlabels.models import Network
from fewlabels.models.classifiers import NetworkClassifier
from fewlabels.models.network import Dense
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.rng import stream
from fewlabels.strategies import kernels
from fewlabels.strategies.inputs import Request

NUM_ITEMS, NUM_CLASSES = 40, 3
CASES = [
    ("npc", {"draws": 30}),
    ("npc", {"method": "greedy"}),
    ("npc", {"draws": 30, "normalize": True}),
    ("maxdet", {}),
    ("maxdet", {"normalize": True}),
    ("mlmoc", {}),
    ("ev-gp", {}),
]


class TwoLayers(Network):
    def __init__(self):
        super().__init__()
        self.inner, self.head = Dense(16, 12), Dense(12, NUM_CLASSES)
        for number, layer in enumerate((self.inner, self.head)):
            layer.initialize(stream(number, "layer"))
        self.drop = nn.Dropout(0.5)

    def embed(self, images):
        return self.drop(torch.tanh(self.inner(images.flatten(1))))


def problem(num_labeled=4, num_distinct=NUM_ITEMS):
    """Images, some of them labeled, and a network in training mode."""
    shape = (num_distinct, 1, 4, 4)
    drawn = torch.randint(256, shape, generator=stream(0, "images"), dtype=torch.uint8)
    images = drawn.repeat(NUM_ITEMS // num_distinct, 1, 1, 1)
    labels = torch.full((NUM_ITEMS,), UNKNOWN)
    labels[:num_labeled] = torch.arange(num_labeled) % NUM_CLASSES
    pool = Pool.build(ArrayImages(images), labels, "abc")
    return pool, NetworkClassifier(TwoLayers().train(), NUM_CLASSES)


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case)))
def strategy(request):
    name, options = request.param
    return strategies.resolve(name, {"kernel": "ntk", **options})


@pytest.mark.parametrize("num_labeled", [0, 4])
def test_a_network_is_seen_through_all_its_layers(strategy, num_labeled):
    pool, classifier = problem(num_labeled)
    query = contract.chosen_by(strategy, pool, classifier)
    assert query.record["kernel"] == "ntk"
    assert len(set(query.indices.tolist()) & set(pool.candidates.tolist())) == 5


def test_the_same_seed_gives_the_same_choice_and_nothing_is_touched(strategy):
    pool, classifier = problem()
    weights = [weight.clone() for weight in classifier.module.parameters()]
    randomness = global_random_state()
    first, second = (contract.chosen_by(strategy, pool, classifier) for _ in range(2))
    assert torch.equal(first.indices, second.indices)
    assert global_random_state() == randomness
    assert classifier.module.training
    assert all(map(torch.equal, weights, classifier.module.parameters()))


def test_without_a_network_the_remedy_is_named(strategy):
    pool, classifier = contract.problem(0)
    with pytest.raises(UsageError, match="'ntk' needs the network"):
        contract.chosen_by(strategy, pool, classifier)


@pytest.mark.parametrize("name", ["maxdet", "ev-gp", "mlmoc"])
def test_copies_are_asked_once(name):
    pool, classifier = problem(num_labeled=0, num_distinct=10)
    strategy = strategies.resolve(name, {"kernel": "ntk"})
    query = contract.chosen_by(strategy, pool, classifier, size=6)
    assert len(set((query.indices % 10).tolist())) == 6


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("npc", {"method": "greedy"}),
        ("maxdet", {}),
        ("ev-gp", {"max_pool": 20, "num_references": 10}),
        ("mlmoc", {"max_pool": 20, "num_references": 10}),
    ],
)
def test_a_graph_is_made_of_a_part_of_a_large_pool(name, options, monkeypatch):
    monkeypatch.setattr(kernels, "MAX_ON_GRAPH", 20)
    sizes, made = [], gram.diffusion_kernel

    def spied(rows, **given):
        sizes.append(len(rows))
        return made(rows, **given)

    monkeypatch.setattr(gram, "diffusion_kernel", spied)
    pool, classifier = contract.problem(0)
    strategy = strategies.resolve(name, {"kernel": "diffusion", **options})
    query = contract.chosen_by(strategy, pool, classifier)
    assert query.record["subsample"]["considered"] == 20
    assert sizes[0] <= 20 + len(pool.labeled) + 10 * ("max_pool" in options)
    assert set(query.indices.tolist()) <= set(pool.candidates.tolist())


def test_a_part_is_asked_by_places_in_the_pool():
    pool, classifier = contract.problem(0)
    outputs = classifier.outputs(pool.images, torch.arange(len(pool)))
    among = pool.candidates[::2]
    request = Request(classifier, pool, 4, stream(0, "part"))
    strategy = strategies.resolve("maxdet", {"kernel": "diffusion"})
    _, kernel = strategy.kernel_for(request, outputs, among)
    items = torch.cat([pool.labeled, among]).sort().values
    direct = gram.diffusion_kernel(outputs.features[items])
    places = torch.arange(len(items))
    block = kernel.block(items.flip(0), items)
    torch.testing.assert_close(block, direct.block(places.flip(0), places))
    torch.testing.assert_close(kernel.diagonal(items), direct.diagonal(places))
    assert (kernel.num_items, kernel.rank_bound) == (len(pool), direct.rank_bound)
