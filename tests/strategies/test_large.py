"""A query from a million items, in a process that may hold 4 GB and no more."""

import resource
import subprocess
import sys

import pytest
import torch

from fewlabels import strategies
from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool, check_query
from fewlabels.rng import stream

ROWS, LIMIT = 1_000_000, 4 * 10**9


class Classifier(PrecomputedClassifier):
    """Features and logits in memory; sampled networks are made when asked for."""

    def sample_logits(self, images, indices, num_samples, generator):
        shape = (num_samples, 1, self.num_classes)
        return (0.5 + torch.rand(shape, generator=generator)) * self.logits[indices]


def choose(name, rows, size=10):
    """Choose some of many items of which twenty are labeled."""
    generator = stream(0, "large", rows)
    features = torch.randn(rows, 32, generator=generator)
    logits = 2 * torch.randn(rows, 10, generator=generator)
    labels = torch.full((rows,), UNKNOWN)
    labels[:20] = torch.arange(20) % 10
    pool = Pool.build(ArrayImages(features), labels, tuple("abcdefghij"))
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, resource.RLIM_INFINITY))
    strategy = strategies.resolve(name, {})
    query = strategy.select(
        Classifier(features, logits), pool, size, stream(0, "query"), history=()
    )
    check_query(query, pool, size)


@pytest.mark.slow
@pytest.mark.timeout(700)
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux")
@pytest.mark.parametrize("name", strategies.names())
def test_every_built_in_name_copes_with_a_million_rows(name):
    code = f"from tests.strategies.test_large import *; choose({name!r}, ROWS)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
