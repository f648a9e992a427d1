"""From images, or from embeddings brought along, to one row per item."""

from fewlabels.features.network import NetworkClassifier
from fewlabels.features.precomputed import PrecomputedClassifier

__all__ = ["NetworkClassifier", "PrecomputedClassifier"]
