"""CTAugment: strong views as strong as the network can still recognize.

Berthelot et al., "ReMixMatch: Semi-Supervised Learning with Distribution Matching and
Augmentation Anchoring" (ICLR 2020), Sec. 3.2.2, as FixMatch's official code uses it.

Shapes: n images, k operations for each, K operations in all, S bins of strengths,
B labeled items in a minibatch, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fewlabels.data import augment
from fewlabels.data.augment import MOTIONS, OPERATIONS, DrawnOperations
from fewlabels.errors import Count, Share, UsageError
from fewlabels.models import as_input
from fewlabels.pool import Pool
from fewlabels.training.fixmatch import FixMatch, Outputs
from fewlabels.training.learner import Step
from fewlabels.training.views import View

NUM_BINS = 17
_MOST = 10
_IS_DIRECTED = torch.tensor([name in MOTIONS for name in OPERATIONS])


class Policy(NamedTuple):
    """Operations that are applied to some images."""

    operations: Tensor
    """Positions in ``OPERATIONS``, shape (n, k)."""
    strengths: Tensor
    """From 0 to below 1; the middle changes nothing where both directions are. Float64,
    shape (n, k)."""

    @property
    def bins(self) -> Tensor:
        """Which bin each strength is in, shape (n, k)."""
        return (self.strengths * NUM_BINS).long()

    def apply(self, images: Tensor, cutout: float, generator: Generator) -> Tensor:
        """Return the images, bytes, after all operations and Cutout."""
        num_images, (operations, strengths) = len(images), self
        around = 2 * strengths - 1
        is_directed = _IS_DIRECTED[operations]
        draws = DrawnOperations(
            weak=torch.zeros(3, num_images, dtype=torch.float64),
            operations=operations.T,
            levels=torch.where(is_directed, around.abs(), strengths).T * _MOST,
            signs=torch.where(around < 0, -1.0, 1.0).double().T,
            centers=torch.rand(2, num_images, generator=generator, dtype=torch.float64),
            sides=torch.full((num_images,), cutout, dtype=torch.float64),
        )
        settings = augment.RandAugment(ranges="paper-table", shift=0.0, cutout=cutout)
        return augment.apply_draws(images, draws, settings)


def draw_policy(num_images: int, num_operations: int, generator: Generator) -> Policy:
    """Draw operations and strengths uniformly."""
    shape = num_images, num_operations
    operations = torch.randint(len(OPERATIONS), shape, generator=generator)
    strengths = torch.rand(shape, generator=generator, dtype=torch.float64)
    return Policy(operations, strengths)


def draw_learned_policy(
    num_images: int, num_operations: int, weights_KS: Tensor, generator: Generator
) -> Policy:
    """Draw operations uniformly, and strengths from bins by their weights."""
    operations, within = draw_policy(num_images, num_operations, generator)
    rows = weights_KS[operations.flatten()]
    bins = torch.multinomial(rows, 1, generator=generator).view_as(operations)
    return Policy(operations, (bins + within) / NUM_BINS)


@dataclass(frozen=True, kw_only=True)
class FixMatchCta(FixMatch):
    """FixMatch whose strong views are learned from labeled items.

    In each step, labeled items are changed by operations of any strength. How near the
    averaged network's answers are to the labels is remembered for each operation and
    strength; strong views are drawn from what it still recognizes. They are drawn
    within the step, since minibatches are prepared ahead of it.
    """

    official: ClassVar[Mapping[str, Any]] = {"cutout": 0.5}

    num_operations: Count = 2
    """Operations for each image (k)."""
    least_rate: Share = 0.8
    """Least rate of a strength that is drawn, relative to the best of the operation."""
    rate_decay: Share = 0.99
    """Weight of the past in the rates, with each labeled item that is looked at."""
    cutout: Share = 0.25
    """Side of the square that is covered in the end, as a share of the side."""

    def check(self, pool: Pool) -> None:
        """Raise unless items are images."""
        if len(pool.images.shape) == 1:
            raise UsageError(
                f"Rows of {pool.images.shape[0]} are not images; take 'fixmatch'."
            )

    @property
    def views(self) -> Mapping[str, View]:
        """Weak views only; strong ones are computed from them within the step."""
        return {**super().views, "strong": View("weak")}

    def memory(self, pool: Pool) -> dict[str, Tensor]:
        """Return the rates: everything counts as recognized, shape (K, S)."""
        del pool
        return {"rates": torch.ones(len(OPERATIONS), NUM_BINS, dtype=torch.float64)}

    def weights(self, rates_KS: Tensor) -> Tensor:
        """Return weights of strengths: proportional to rates, zero for low ones."""
        raised_KS = rates_KS + (1 - self.rate_decay)
        shares_KS = raised_KS / raised_KS.amax(dim=1, keepdim=True)
        return shares_KS.where(shares_KS >= self.least_rate, 0)

    def outputs(self, step: Step, *others: Tensor) -> Outputs:
        """Draw strong views, and return the network's outputs."""
        draws = step.stream("learned operations")
        weak = step.minibatch.views["strong"].cpu()
        weights_KS = self.weights(step.memory["rates"])
        policy = draw_learned_policy(len(weak), self.num_operations, weights_KS, draws)
        strong = policy.apply(weak, self.cutout, draws).to(step.group.device)
        self._probe(step)
        views = {**step.minibatch.views, "strong": strong}
        minibatch = step.minibatch._replace(views=views)
        return super().outputs(replace(step, minibatch=minibatch), *others)

    def _probe(self, step: Step) -> None:
        """Let the rates follow what the averaged network recognizes."""
        draws, labels_B = step.stream("probes"), step.minibatch.labels
        images = step.minibatch.views["labeled"].cpu()
        policy = draw_policy(len(images), self.num_operations, draws)
        probes = policy.apply(images, 0.0, draws).to(step.group.device)
        with torch.no_grad():
            logits_BC = step.average(as_input(probes)).logits
        truth_BC = F.one_hot(labels_B, logits_BC.shape[1])
        near_B = 1 - (logits_BC.softmax(dim=1) - truth_BC).abs().sum(dim=1) / 2
        own = (policy.operations, policy.bins, near_B)
        every = [step.group.gather(part.to(step.group.device)).cpu() for part in own]
        self.follow(step.memory["rates"], *every)

    def follow(
        self, rates_KS: Tensor, operations: Tensor, bins: Tensor, near: Tensor
    ) -> None:
        """Move rates toward how near each answer is, one image after the other."""
        rates = rates_KS.numpy()
        images = zip(operations.tolist(), bins.tolist(), near.tolist(), strict=True)
        for own, places, rate in images:
            for place in zip(own, places, strict=True):
                rates[place] += (1 - self.rate_decay) * (rate - rates[place])
