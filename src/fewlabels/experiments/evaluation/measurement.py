"""How good a classifier is, on data that no decision used."""

from collections.abc import Mapping
from statistics import median

import torch

from fewlabels.errors import UsageError
from fewlabels.pool import Split
from fewlabels.protocols import Classifier

_MOST_SETTLED = 20


def accuracy(classifier: Classifier, split: Split) -> float:
    """Share of the split's images that are classified rightly."""
    everything = torch.arange(len(split))
    predicted = classifier.outputs(split.images, everything).logits.argmax(dim=1)
    return float((predicted == split.labels).double().mean())


def settled(evaluations: Mapping[int, float]) -> float:
    """Return the median of the last evaluations of a training.

    Those count that fall into the last fifth of its steps, at most 20 of them, as in
    the code of FixMatch, which reports the median of the last 20 checkpoints. A single
    evaluation may be a lucky one.

    Example:
        >>> settled({200: 0.5, 850: 0.7, 900: 0.9, 1000: 0.8})
        0.8

    Args:
        evaluations: Accuracy by step; the last one was made at the end.

    Returns:
        The median; between the middle two of an even number.

    Raises:
        UsageError: If there is no evaluation.
    """
    if not evaluations:
        raise UsageError("There are 0 evaluations to take the median of; give one.")
    last = max(evaluations)
    late = [step for step in sorted(evaluations) if step == last or 5 * step > 4 * last]
    return median(evaluations[step] for step in late[-_MOST_SETTLED:])
