"""FixMatch: confident pseudo-labels of weak views teach strong views.

Sohn et al., "FixMatch: Simplifying Semi-Supervised Learning with Consistency and
Confidence" (NeurIPS 2020).

Shapes: B labeled items in a minibatch, U unlabeled ones, C classes.
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from fewlabels import rng
from fewlabels.augment import StrongAugment, strong, weak
from fewlabels.models import Network, as_input
from fewlabels.pool import Pool
from fewlabels.training import loop
from fewlabels.training.minibatches import Minibatches
from fewlabels.training.settings import check_range
from fewlabels.training.supervised import LabeledViews
from fewlabels.training.trainer import NetworkTrainer


@dataclass(frozen=True, kw_only=True)
class FixMatchTrainer(NetworkTrainer):
    """FixMatch; the defaults suit small images and a few hundred steps.

    Labeled items are among the unlabeled ones too, as in the official code.
    """

    mu: int = 2
    """Unlabeled items for each labeled one in a step; the paper takes 7."""
    threshold: float = 0.95
    """Least probability at which a pseudo-label counts (tau)."""
    consistency_weight: float = 1.0
    """Weight of the unlabeled loss (lambda_u)."""
    strong: StrongAugment = field(default_factory=StrongAugment)
    """How the images that learn from pseudo-labels are varied."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        super().__post_init__()
        check_range("mu", self.mu, at_least=1)
        check_range("threshold", self.threshold, at_least=0, below=1)
        check_range("consistency_weight", self.consistency_weight, at_least=0)

    def _objective(self, pool: Pool, key: int) -> loop.Objective:
        labeled = LabeledViews(self, pool, key)
        num_unlabeled = self.mu * self.minibatch_size
        everything = torch.arange(len(pool))
        unlabeled = Minibatches(everything, num_unlabeled, key, "unlabeled items")

        def loss(network: Network, step: int) -> loop.Loss:
            inputs, labels_B = labeled.at(step)
            images = pool.images.read(unlabeled.at(step))
            views = torch.cat(
                [
                    weak(images, rng.stream(key, "weak views", step), self.weak),
                    strong(images, rng.stream(key, "strong views", step), self.strong),
                ]
            )
            # One pass over all three, so that batch normalization sees them together.
            logits = network(torch.cat([inputs, as_input(views)]))
            logits_BC, weak_UC, strong_UC = logits.split(
                [len(labels_B), num_unlabeled, num_unlabeled]
            )
            supervised = F.cross_entropy(logits_BC, labels_B)
            consistency, kept = consistency_loss(weak_UC, strong_UC, self.threshold)
            total = supervised + self.consistency_weight * consistency
            return loop.Loss(total, kept)

        return loss


def consistency_loss(
    weak_UC: Tensor, strong_UC: Tensor, threshold: float
) -> tuple[Tensor, Tensor]:
    """Return the unlabeled loss of FixMatch (Eq. 4) and the share of items it kept.

    The mean runs over all U items, kept or not, so that the term grows with confidence.

    Args:
        weak_UC: Logits of weak views; no gradient flows through them.
        strong_UC: Logits of strong views.
        threshold: Least probability at which a pseudo-label counts.

    Returns:
        Two scalars.
    """
    confidence_U, pseudo_U = weak_UC.detach().softmax(dim=1).max(dim=1)
    keep_U = (confidence_U >= threshold).to(strong_UC.dtype)
    losses_U = F.cross_entropy(strong_UC, pseudo_U, reduction="none")
    return (keep_U * losses_U).mean(), keep_U.mean()
