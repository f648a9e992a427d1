import torch
from tests.strategies import contract

from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.rng import stream
from fewlabels.strategies import ExpectedGradientLength, egl


def problem(seed, num_items=20):
    """A last layer, its inputs and outputs."""
    generator = stream(seed, "egl")
    rows = torch.randn(num_items, 4, generator=generator, dtype=torch.float64)
    layer = torch.nn.Linear(4, 3, dtype=torch.float64)
    for parameter in layer.parameters():
        parameter.data = torch.randn(
            parameter.shape, generator=generator, dtype=torch.float64
        )
    labels = torch.full((num_items,), UNKNOWN)
    labels[: seed % 4] = 0
    pool = Pool.build(ArrayImages(rows), labels, ("a", "b", "c"))
    return pool, layer, PrecomputedClassifier(rows, layer(rows).detach())


def expected_length(layer, row):
    """Σ_c p_c |∇ loss(x, c)| by automatic differentiation, class by class."""
    total = 0.0
    chances = layer(row).softmax(dim=0).tolist()
    for label, chance in enumerate(chances):
        loss = torch.nn.functional.cross_entropy(layer(row), torch.tensor(label))
        gradient = torch.autograd.grad(loss, list(layer.parameters()))
        total += chance * float(torch.cat([g.flatten() for g in gradient]).norm())
    return total


def test_agrees_with_automatic_differentiation():
    for seed in range(100):
        pool, layer, classifier = problem(seed, num_items=12)
        by_score = sorted(
            pool.candidates.tolist(),
            key=lambda item: -expected_length(layer, classifier.features[item]),
        )
        query = contract.chosen_by(ExpectedGradientLength(), pool, classifier)
        assert query.indices.tolist() == by_score[:5]


def test_small_doubts_keep_their_order():
    logits = torch.tensor([[50.0, 0.0], [55.0, 0.0], [45.0, 0.0], [60.0, 0.0]])
    scores = egl._expected_error(logits.double())
    doubts = (-logits[:, 0]).double().exp()
    torch.testing.assert_close(scores, 2 * 2**0.5 * doubts, rtol=1e-9, atol=0)
