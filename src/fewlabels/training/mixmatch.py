"""MixMatch: guessed labels, sharpened, and mixtures of all items.

Berthelot et al., "MixMatch: A Holistic Approach to Semi-Supervised Learning" (NeurIPS
2019).

Shapes: B labeled items in a minibatch, U unlabeled ones, C classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fewlabels.training.consistency import mixed, ramped, sharpened, squared_difference
from fewlabels.training.learner import Learner, Loss, Step
from fewlabels.training.schedule import check_range
from fewlabels.training.views import View


@dataclass(frozen=True, kw_only=True)
class MixMatch(Learner):
    """Cross-entropy on mixed labeled items, squared difference on others (Eqs. 2-5)."""

    defaults: ClassVar[Mapping[str, Any]] = {"weak_views": 2}
    official: ClassVar[Mapping[str, Any]] = {"mu": 1, "ramp_up": 1 / 64}

    mu: int = 2
    """Unlabeled items for each labeled one in a step."""
    temperature: float = 0.5
    """Exponent by which guesses are sharpened, inverted (T)."""
    mixup: float = 0.75
    """Both parameters of the Beta distribution of the mixtures (alpha); 0: none."""
    consistency_weight: float = 75.0
    """Weight of the unlabeled loss once it is ramped up (lambda_u)."""
    ramp_up: float = 0.4
    """Share of the steps in which that weight grows from zero."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        check_range("mu", self.mu, at_least=1)
        check_range("temperature", self.temperature, at_least=1e-3)
        check_range("mixup", self.mixup, at_least=0)
        check_range("consistency_weight", self.consistency_weight, at_least=0)
        check_range("ramp_up", self.ramp_up, at_least=0)

    @property
    def views(self) -> Mapping[str, View]:
        """Weak views of labeled items, and two of unlabeled ones."""
        both = {"weak_0": View("weak"), "weak_1": View("weak")}
        return {**super().views, **both}

    def loss(self, step: Step) -> Loss:
        """Return the sum of both terms."""
        with torch.no_grad():
            views = step.outputs("weak_0", "weak_1")
            guesses = torch.stack([view.logits.softmax(dim=1) for view in views])
        pseudo = step.pseudo_labels(guesses.mean(dim=0), always)
        target_UC = sharpened(pseudo.probabilities, self.temperature)
        labeled, others = mixture(step, ["weak_0", "weak_1"], target_UC, self.mixup)
        supervised = F.cross_entropy(*labeled)
        consistency = squared_difference(*others)
        weight = self.consistency_weight * ramped(step, self.ramp_up)
        return Loss(
            supervised + weight * consistency,
            {"supervised": supervised, "consistency": consistency, **pseudo.figures},
        )


def mixture(
    step: Step, names: Sequence[str], target_UC: Tensor, concentration: float
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Mix labeled items and views of unlabeled ones, and show them to the network.

    Args:
        step: The step.
        names: Views of the unlabeled items.
        target_UC: What each of these shall be taken for.
        concentration: How items are mixed; see
            :func:`fewlabels.training.consistency.mixed`.

    Returns:
        Logits and mixed targets, of the labeled items and of the views.
    """
    minibatch, num_classes = step.minibatch, target_UC.shape[1]
    inputs = [step.as_input(minibatch.views[name]) for name in ("labeled", *names)]
    known_BC = F.one_hot(minibatch.labels, num_classes).to(target_UC)
    targets = torch.cat([known_BC, *[target_UC] * len(names)])
    mixed_inputs, mixed_targets = mixed(
        torch.cat(inputs), targets, concentration, step.stream("mixture")
    )
    logits, num = step.network(mixed_inputs).logits, len(known_BC)
    return (logits[:num], mixed_targets[:num]), (logits[num:], mixed_targets[num:])


def always(probabilities_UC: Tensor) -> Tensor:
    """Say that every guess counts."""
    return probabilities_UC.new_ones(len(probabilities_UC))
