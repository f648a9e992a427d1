"""FixMatch: confident pseudo-labels of weak views teach strong views.

Sohn et al., "FixMatch: Simplifying Semi-Supervised Learning with Consistency and
Confidence" (NeurIPS 2020).

Shapes: B labeled items in a minibatch, U unlabeled ones, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fewlabels import augment
from fewlabels.augment import Strong
from fewlabels.errors import UsageError
from fewlabels.naming import check_known
from fewlabels.pool import Pool
from fewlabels.training.distributed import ProcessGroup
from fewlabels.training.objective import Loss, Objective
from fewlabels.training.settings import check_range
from fewlabels.training.trainer import NetworkTrainer
from fewlabels.training.views import Minibatch, Minibatcher, Views

Forward = Literal["joint", "split"]


@dataclass(frozen=True, kw_only=True)
class FixMatchTrainer(NetworkTrainer):
    """FixMatch; :meth:`official` has the settings of its official code.

    Labeled items are among the unlabeled ones too, as in the official code.
    """

    mu: int = 2
    """Unlabeled items for each labeled one in a step."""
    threshold: float = 0.95
    """Least probability at which a pseudo-label counts (tau)."""
    consistency_weight: float = 1.0
    """Weight of the unlabeled loss (lambda_u)."""
    strong: str | Strong = "small-grey"
    """How the images that learn from pseudo-labels are varied: the name of a preset
    (see :func:`fewlabels.augment.preset`) or settings."""
    forward: Forward = "joint"
    """``"joint"``: labeled, weak and strong views in one pass, as the official code.
    ``"split"``: weak views in a pass of their own without gradients, which is faster;
    batch normalization then sees them apart."""

    def __post_init__(self) -> None:
        """Check the words and the ranges."""
        super().__post_init__()
        check_range("mu", self.mu, at_least=1)
        check_range("threshold", self.threshold, at_least=0, below=1)
        check_range("consistency_weight", self.consistency_weight, at_least=0)
        check_known("forward", self.forward, Forward)
        self.strong_settings()

    @classmethod
    def official_changes(cls) -> dict[str, Any]:
        """Return what :meth:`official` changes of the defaults."""
        return super().official_changes() | {"mu": 7, "strong": "official"}

    def check(self, pool: Pool) -> None:
        """Raise unless the items are images, of which strong views can be made."""
        super().check(pool)
        if len(pool.images.shape) == 1:
            msg = (
                f"The items are vectors of shape {pool.images.shape}, and FixMatch "
                "learns from strong views, which are made of images. Take the trainer "
                "'supervised' with the network 'linear' or 'mlp-256'."
            )
            raise UsageError(msg)

    def objective(
        self, pool: Pool, views: Views, key: int, group: ProcessGroup
    ) -> Objective:
        """Return the loss of FixMatch."""
        return FixMatchObjective(self, self._minibatcher(pool, views, key, group))

    def _minibatcher(
        self, pool: Pool, views: Views, key: int, group: ProcessGroup
    ) -> Minibatcher:
        num_unlabeled = self.mu * self.minibatch_size
        return Minibatcher(views, pool, self, key, group, num_unlabeled)

    def strong_settings(self) -> Strong:
        """Return how strong views are made."""
        if isinstance(self.strong, str):
            return augment.preset(self.strong)
        return self.strong


@dataclass(frozen=True, eq=False)
class PseudoLabels:
    """What the weak views say about the classes of their items."""

    classes: Tensor
    """The class of each."""
    keeps: Tensor
    """Whether it counts."""
    figures: Mapping[str, Tensor] = field(default_factory=dict)
    """Named scalars for whoever watches."""


class FixMatchObjective:
    """Supervised plus consistency loss (FixMatch paper, Eqs. 3 and 4)."""

    def __init__(self, settings: FixMatchTrainer, minibatcher: Minibatcher) -> None:
        """Set threshold, weight and kind of pass, and where minibatches come from."""
        self.settings = settings
        self.minibatcher = minibatcher

    @property
    def num_views(self) -> int:
        """Labeled, weak and strong views in a step."""
        return self.settings.minibatch_size + 2 * self.minibatcher.num_unlabeled

    def minibatch(self, step: int) -> Minibatch:
        """Return labeled items, and two views of unlabeled ones."""
        return self.minibatcher.at(step)

    def loss(self, network: nn.Module, minibatch: Minibatch, step: int) -> Loss:
        """Return the sum of both terms."""
        logits_BC, weak_UC, strong_UC = self._logits(network, minibatch)
        assert minibatch.items is not None
        pseudo = self.pseudo_labels(weak_UC.softmax(dim=1), minibatch.items, step)
        supervised = F.cross_entropy(logits_BC, minibatch.labels)
        consistency = consistency_loss(strong_UC, pseudo.classes, pseudo.keeps)
        return Loss(
            supervised + self.settings.consistency_weight * consistency,
            {
                "supervised": supervised,
                "consistency": consistency,
                "kept": pseudo.keeps.float().mean(),
                **pseudo.figures,
            },
        )

    def pseudo_labels(
        self, probabilities_UC: Tensor, items_U: Tensor, step: int
    ) -> PseudoLabels:
        """Return the most probable class of each item; it counts where it is sure."""
        del items_U, step
        confidence_U, classes_U = probabilities_UC.max(dim=1)
        return PseudoLabels(classes_U, confidence_U >= self.settings.threshold)

    def memory(self) -> Mapping[str, Tensor]:
        """Return nothing: steps do not depend on each other."""
        return {}

    def _logits(
        self, network: nn.Module, minibatch: Minibatch
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits of labeled, weak and strong views; no gradient of the weak."""
        assert minibatch.weak is not None
        assert minibatch.strong is not None
        as_input = self.minibatcher.views.as_input
        labeled, weak = as_input(minibatch.labeled), as_input(minibatch.weak)
        strong = as_input(minibatch.strong)
        sizes = [len(labeled), len(weak), len(strong)]
        if self.settings.forward == "split":
            with torch.no_grad():
                weak_UC = network(weak)
            logits_BC, strong_UC = network(torch.cat([labeled, strong])).split(
                [sizes[0], sizes[2]]
            )
            return logits_BC, weak_UC, strong_UC
        # One pass over all three, so that batch normalization sees them together.
        logits = network(torch.cat([labeled, weak, strong]))
        logits_BC, weak_UC, strong_UC = logits.split(sizes)
        return logits_BC, weak_UC.detach(), strong_UC


def consistency_loss(strong_UC: Tensor, classes_U: Tensor, keeps_U: Tensor) -> Tensor:
    """Return the unlabeled loss of FixMatch (Eq. 4).

    The mean runs over all U items, kept or not, so that the term grows with confidence.

    Args:
        strong_UC: Logits of strong views.
        classes_U: Pseudo-labels of the same items.
        keeps_U: Whether each counts.

    Returns:
        A scalar.
    """
    losses_U = F.cross_entropy(strong_UC, classes_U, reduction="none")
    return (keeps_U.to(losses_U.dtype) * losses_U).mean()
