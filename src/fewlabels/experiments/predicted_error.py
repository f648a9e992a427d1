"""What ridge regression with an untrained network's kernel would get wrong on a pool.

NPC paper, Secs. 4.2 and 5.4: a wide network learns like ridge regression with the
kernel that it has before training, so labeled sets can be judged without training.

Shapes: N items of the pool, C classes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fewlabels import gram
from fewlabels.pool import Pool
from fewlabels.protocols import Classifier, Kernel
from fewlabels.rng import stream

_MOST_ITEMS = 1000
"""Items over which errors are measured; of more, a random part."""
_RIDGE = 1e-6
"""Share of the mean k(i, i) that is added to the diagonal, for near copies."""
_NUM_MODES = 20


@dataclass(frozen=True, kw_only=True)
class PredictedError:
    """Squared error of ridge regression, as a share of what no labels leave."""

    error: float
    """From the labeled items."""
    random_error: float
    """Expected from as many random ones (Bordelon, Canatar and Pehlevan, 2020)."""
    is_from_labels: bool
    """Whether the labels of the pool are the target; else it is what is expected for
    targets from the Gaussian process of the kernel."""
    modes: tuple[tuple[float, float, float], ...]
    """Of the largest modes: target's power, error, and that of random sets, as shares
    of the power in all modes."""


@dataclass(frozen=True, eq=False)
class ErrorPredictor:
    """Predicts the error that labeled sets of a pool leave."""

    kernel: Kernel
    modes: gram.Modes
    targets: Tensor | None
    """Classes as indicators less 1/C, shape (N, C); None where not all are known."""

    @classmethod
    def of(cls, classifier: Classifier, pool: Pool) -> "ErrorPredictor":
        """Return it for an untrained classifier and a pool with its labels.

        The kernel is the wide head over the classifier's features: the tangent kernel
        of an infinitely wide layer, which distinguishes any two items.
        """
        every = torch.arange(len(pool))
        kernel = gram.wide_head_kernel(classifier.outputs(pool.images, every).features)
        drawn = torch.randperm(len(pool), generator=stream(0, "predicted error"))
        targets = None
        if (pool.labels >= 0).all():
            indicators = torch.nn.functional.one_hot(pool.labels, pool.num_classes)
            targets = indicators.double() - 1 / pool.num_classes
        return cls(kernel, gram.kernel_modes(kernel, drawn[:_MOST_ITEMS]), targets)

    def predict(self, labeled: Tensor) -> PredictedError:
        """Return the error that a labeled set leaves, and that of random sets."""
        modes, targets = self.modes, self.targets
        power = modes.eigenvalues
        if targets is not None:
            power = modes.power(targets[modes.items])
        ridge = _RIDGE * float(modes.eigenvalues.sum())
        own = gram.labeled_set_error(self.kernel, modes, labeled, targets, ridge=ridge)
        random = gram.random_set_error(modes, power, len(labeled), ridge=ridge)
        shares = torch.stack([power, own, random], dim=1) / power.sum()
        _, error, random_error = shares.sum(dim=0).tolist()
        return PredictedError(
            error=error,
            random_error=random_error,
            is_from_labels=targets is not None,
            modes=tuple((a, b, c) for a, b, c in shares[:_NUM_MODES].tolist()),
        )
