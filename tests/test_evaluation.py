import torch

from fewlabels.evaluation import accuracy
from fewlabels.features import PrecomputedClassifier
from fewlabels.pool import ArrayImages, Split


def test_accuracy_is_the_share_classified_rightly():
    logits = torch.tensor([[3.0, 1.0], [0.0, 1.0], [2.0, -1.0], [-1.0, 0.0]])
    classifier = PrecomputedClassifier(torch.zeros(4, 1), logits)
    split = Split(ArrayImages(torch.zeros(4, 1)), torch.tensor([0, 1, 1, 1]))
    assert accuracy(classifier, split) == 3 / 4
