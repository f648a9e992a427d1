"""The interfaces are met by plain objects: nothing to inherit, nothing to register."""

import inspect

import pytest
import torch

from fewlabels import protocols
from fewlabels.pool import Answers, ArrayImages, Pool, Query
from fewlabels.protocols import Outputs, ignore

METHODS = {
    "Kernel": {"diagonal": ["items"], "block": ["rows", "columns"]},
    "Classifier": {
        "outputs": ["images", "indices"],
        "sample_logits": ["images", "indices", "num_samples", "generator"],
    },
    "OwnInputs": {"inputs": ["images", "indices"]},
    "Strategy": {"select": ["classifier", "pool", "size", "generator", "history"]},
    "Trainer": {"fit": ["pool", "generator", "workspace", "on_checkpoint"]},
    "Oracle": {"answer": ["query"]},
}


@pytest.mark.parametrize(
    ("protocol", "method", "arguments"),
    [(p, m, a) for p, methods in METHODS.items() for m, a in methods.items()],
)
def test_the_seams_do_not_move(protocol, method, arguments):
    function = getattr(getattr(protocols, protocol), method)
    assert list(inspect.signature(function).parameters) == ["self", *arguments]


def test_what_is_optional_has_to_be_named():
    select = inspect.signature(protocols.Strategy.select).parameters
    fit = inspect.signature(protocols.Trainer.fit).parameters
    for parameter in (select["history"], fit["workspace"], fit["on_checkpoint"]):
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.default is not inspect.Parameter.empty


class Constant:
    """A classifier, a strategy, a trainer and an oracle, each as short as can be."""

    num_classes = 2
    module = None

    def outputs(self, images, indices):
        return Outputs(torch.ones(len(indices), 1), torch.zeros(len(indices), 2))

    def sample_logits(self, images, indices, num_samples, generator):
        return torch.rand(num_samples, len(indices), 2, generator=generator)

    def select(self, classifier, pool, size, generator, *, history=()):
        return Query(pool.candidates[:size], record={"round": len(history)})

    def fit(self, pool, generator, *, workspace=None, on_checkpoint=ignore):
        on_checkpoint(0, self)
        return self

    def answer(self, query):
        return Answers(query.indices, torch.ones(len(query), dtype=torch.int64))


def test_one_turn_of_the_loop_with_plain_objects():
    pool = Pool.build(ArrayImages(torch.zeros(5, 3)), torch.full((5,), -1), ["a", "b"])
    generator = torch.Generator().manual_seed(0)
    anything = Constant()
    classifier = anything.fit(pool, generator)
    query = anything.select(classifier, pool, 2, generator)
    after = pool.with_answers(anything.answer(query))
    assert after.labels.tolist() == [1, 1, -1, -1, -1]
    assert classifier.outputs(pool.images, pool.labeled).features.shape == (0, 1)
    samples = classifier.sample_logits(pool.images, pool.candidates, 3, generator)
    assert samples.shape == (3, 5, 2)
