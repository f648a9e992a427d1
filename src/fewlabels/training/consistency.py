"""What several semi-supervised losses are put together from.

Shapes: n items, C classes.
"""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fewlabels.training.learner import Step


def ramped(step: Step, share: float) -> float:
    """Return how much of its weight a loss has: it grows from 0 to 1, then stays.

    Linear, over a share of all steps, as in the code of Berthelot et al. (2019).
    """
    length = share * step.schedule.steps
    return 1.0 if step.number >= length else step.number / length


def squared_difference(logits_nC: Tensor, targets_nC: Tensor) -> Tensor:
    """Return the mean squared difference of probabilities, over items and classes."""
    return F.mse_loss(logits_nC.softmax(dim=1), targets_nC)


def sharpened(probabilities_nC: Tensor, temperature: float) -> Tensor:
    """Return probabilities to the power of 1 / temperature, with sum one again.

    MixMatch (Berthelot et al., 2019, Eq. 7).
    """
    # By logarithms: a small power of a small number would be zero in every class.
    logarithms_nC = probabilities_nC.clamp(min=1e-30).log()
    return (logarithms_nC / temperature).softmax(dim=1)


def mixed(
    inputs_n: Tensor, targets_nC: Tensor, concentration: float, generator: Generator
) -> tuple[Tensor, Tensor]:
    """Return inputs, each mixed with a random other one, and targets likewise.

    Mixup as MixMatch has it (Berthelot et al., 2019, Eqs. 8 to 11): the share of the
    other is at most one half, so that items stay at their places.

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
