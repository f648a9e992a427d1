"""Small problems on which slow twins are compared with what they twin."""

from dataclasses import replace

import torch

from fewlabels import gram
from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.rng import stream


def small_problem(seed):
    """Fifteen items of three features and classes, up to six of them labeled.

    Two unlabeled items are not candidates.
    """
    generator = stream(seed, "small")
    features = 2 * torch.randn(15, 3, generator=generator)
    logits = 2 * torch.randn(15, 3, generator=generator)
    labels = torch.full((15,), UNKNOWN)
    labeled = torch.randperm(15, generator=generator)[: seed % 7]
    labels[labeled] = torch.randint(3, (seed % 7,), generator=generator)
    pool = Pool.build(ArrayImages(features), labels, "abc")
    pool = replace(pool, candidates=pool.candidates[:-2])
    return pool, PrecomputedClassifier(features, logits)


def gram_of(kernel, classifier):
    """The whole Gram matrix of a small problem, as an array."""
    features, logits = classifier.features, classifier.logits
    kernels = {
        "last-layer": lambda: gram.last_layer_kernel(features, logits.shape[1]),
        "wide-head": lambda: gram.wide_head_kernel(features),
        "softmax": lambda: gram.softmax_kernel(features, logits),
    }
    everything = torch.arange(len(features))
    return kernels[kernel]().block(everything, everything).numpy()
