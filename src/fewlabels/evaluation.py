"""How good a classifier is, on data that no decision used."""

import torch

from fewlabels.pool import Split
from fewlabels.protocols import Classifier


def accuracy(classifier: Classifier, split: Split) -> float:
    """Share of the split's images that are classified rightly."""
    everything = torch.arange(len(split))
    predicted = classifier.outputs(split.images, everything).logits.argmax(dim=1)
    return float((predicted == split.labels).double().mean())
