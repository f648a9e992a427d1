"""MixMatch: guessed labels, sharpened, and mixtures of all items.

Berthelot et al., "MixMatch: A Holistic Approach to Semi-Supervised Learning" (NeurIPS
2019).

Shapes: B labeled items in a minibatch, U unlabeled ones, n items, C classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fewlabels.errors import Count, Limits, Weight
from fewlabels.models import as_input
from fewlabels.training.learner import Learner, Loss, Step
from fewlabels.training.views import View


@dataclass(frozen=True, kw_only=True)
class MixMatch(Learner):
    """Cross-entropy on mixed labeled items, squared difference on others (Eqs. 2-5)."""

    defaults: ClassVar[Mapping[str, Any]] = {"weak_views": 2}
    official: ClassVar[Mapping[str, Any]] = {"mu": 1, "ramp_up": 1 / 64}

    mu: Count = 2
    """Unlabeled items for each labeled one in a step."""
    temperature: Annotated[float, Limits(at_least=1e-3)] = 0.5
    """Exponent by which guesses are sharpened, inverted (T)."""
    mixup: Weight = 0.75
    """Both parameters of the Beta distribution of the mixtures (alpha); 0: none."""
    consistency_weight: Weight = 75.0
    """Weight of the unlabeled loss once it is ramped up (lambda_u)."""
    ramp_up: Weight = 0.4
    """Share of the steps in which that weight grows from zero."""

    @property
    def views(self) -> Mapping[str, View]:
        """Weak views of labeled items, and two of unlabeled ones."""
        return {**super().views, "weak_0": View("weak"), "weak_1": View("weak")}

    def loss(self, step: Step) -> Loss:
        """Return the sum of both terms."""
        with torch.no_grad():
            views = step.outputs("weak_0", "weak_1")
            guesses = torch.stack([view.logits.softmax(dim=1) for view in views])
        pseudo = step.pseudo_labels(guesses.mean(dim=0), keep_all)
        target_UC = sharpen(pseudo.probabilities, self.temperature)
        labeled, (logits, targets) = predict_mixture(
            step, ["weak_0", "weak_1"], target_UC, self.mixup
        )
        supervised = F.cross_entropy(*labeled)
        consistency = F.mse_loss(logits.softmax(dim=1), targets)
        weight = self.consistency_weight * step.ramp_factor(self.ramp_up)
        return Loss.of(supervised, consistency, weight, **pseudo.figures)


def predict_mixture(
    step: Step, names: Sequence[str], target_UC: Tensor, concentration: float
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Mix labeled items and views of unlabeled ones, and show them to the network.

    Args:
        step: The step.
        names: Views of the unlabeled items.
        target_UC: What each of these shall be taken for.
        concentration: How items are mixed; see :func:`mix_up`.

    Returns:
        Logits and mixed targets, of the labeled items and of the views.
    """
    minibatch, num_classes = step.minibatch, target_UC.shape[1]
    inputs = [as_input(minibatch.views[name]) for name in ("labeled", *names)]
    known_BC = F.one_hot(minibatch.labels, num_classes).to(target_UC)
    targets = torch.cat([known_BC, *[target_UC] * len(names)])
    mixed_inputs, mixed_targets = mix_up(
        torch.cat(inputs), targets, concentration, step.stream("mixture")
    )
    logits, num = step.network(mixed_inputs).logits, len(known_BC)
    return (logits[:num], mixed_targets[:num]), (logits[num:], mixed_targets[num:])


def keep_all(probabilities_UC: Tensor) -> Tensor:
    """Return ones: every guess counts."""
    return probabilities_UC.new_ones(len(probabilities_UC))


def sharpen(probabilities_nC: Tensor, temperature: float) -> Tensor:
    """Return probabilities to the power of 1 / temperature, with sum one again (Eq. 7).

    By logarithms: a small power of a small number would be zero in every class.
    """
    return (probabilities_nC.clamp(min=1e-30).log() / temperature).softmax(dim=1)


def mix_up(
    inputs_n: Tensor, targets_nC: Tensor, concentration: float, generator: Generator
) -> tuple[Tensor, Tensor]:
    """Return inputs, each mixed with a random other one, and targets likewise.

    Mixup as MixMatch has it (Eqs. 8 to 11): the share of the other is at most one half,
    so that items stay at their places.

    Args:
        inputs_n: What the network takes, of any shape beyond the first dimension.
        targets_nC: A distribution over the classes for each.
        concentration: Both parameters of the Beta distribution of the shares (alpha);
            0: nothing is mixed.
        generator: Where shares and partners come from.

    Returns:
        Inputs and targets, of the same shapes.
    """
    num = len(inputs_n)
    partners_n = torch.randperm(num, generator=generator).to(inputs_n.device)
    if concentration == 0:
        return inputs_n, targets_nC
    both_n2 = torch.full((num, 2), concentration)
    shares_n = torch._sample_dirichlet(both_n2, generator=generator).amin(dim=1)
    shares_n = shares_n.to(inputs_n)
    shares = shares_n.view(-1, *[1] * (inputs_n.ndim - 1))
    return (
        torch.lerp(inputs_n, inputs_n[partners_n], shares),
        torch.lerp(targets_nC, targets_nC[partners_n], shares_n[:, None]),
    )
