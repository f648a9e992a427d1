"""Most likely output change: what learning an item would do to all predictions.

Look-ahead without retraining: the network's tangent kernel predicts the outputs that
training with one item more would give, the objective is how far the pool's outputs
move, the search is greedy (Mohamadi, Bae and Sutherland, 2022).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Generator, Tensor

from fewlabels.naming import check_known
from fewlabels.pool import Pool, Query, Round
from fewlabels.protocols import Classifier
from fewlabels.search import Posterior, check_size, maximize_change
from fewlabels.strategies.inputs import (
    check_classes,
    check_labels_given,
    check_part,
    considered,
    sampled,
)
from fewlabels.strategies.kernels import (
    check_kernel,
    check_share,
    kernel_for,
    share_of_variance,
)

Several = Literal["one-by-one", "top"]
"""How several items are chosen: each is learned before the next, or all at once."""


@dataclass(frozen=True)
class MostLikelyOutputChange:
    """Maximize the mean change of the pool's outputs, labels being as predicted."""

    ignores_order: ClassVar[bool] = True
    kernel: Any = field(default="auto", metadata={"code": True})
    """The tangent kernel: as for :class:`fewlabels.strategies.MaxDet`."""
    normalize: bool = False
    """Whether gradients are scaled to length one first."""
    several: Several = "one-by-one"
    """``top`` takes the largest scores of single items, near copies included."""
    ridge: float = 1e-3
    """Added to the kernel's diagonal, as a share of its mean."""
    max_pool: int = 20_000
    """How many candidates are looked at; of more, a random part."""
    num_references: int = 2_000
    """Over how many items of the pool the mean is taken; of more, a random part."""

    def __post_init__(self) -> None:
        """Refuse misspelt words, and a ridge that makes no sense."""
        check_kernel(self)
        check_known("way to choose several items", self.several, Several)
        check_share("ridge", self.ridge)
        check_part(max_pool=self.max_pool, num_references=self.num_references)

    def select(
        self,
        classifier: Classifier,
        pool: Pool,
        size: int,
        generator: Generator,
        *,
        history: Sequence[Round] = (),
    ) -> Query:
        """Choose ``size`` candidates; see :class:`fewlabels.protocols.Strategy`."""
        check_size(size, len(pool.candidates))
        check_labels_given(pool)
        asked = considered(pool.candidates, self.max_pool, generator, at_least=size)
        everything = torch.arange(len(pool))
        references = sampled(everything, self.num_references, generator)
        outputs = classifier.outputs(pool.images, everything)
        check_classes(outputs.logits)
        among = torch.cat([asked.items, references]) if asked.record else None
        name, kernel = kernel_for(
            self, classifier, outputs, pool, size, generator, history, among=among
        )
        labeled = pool.labeled
        posterior = Posterior(
            kernel,
            labeled=labeled,
            candidates=asked.items,
            references=references,
            noise=share_of_variance(self.ridge, kernel, references),
        )
        logits_LC = outputs.logits[labeled].to(torch.float64)
        logits_nC = outputs.logits[asked.items].to(torch.float64)
        gaps_LC = _targets(pool.labels[labeled], logits_LC) - logits_LC
        indices, changes = maximize_change(
            posterior,
            outputs=logits_nC + posterior.explained_by_labels(gaps_LC),
            targets=_targets(logits_nC.argmax(dim=1), logits_nC),
            candidates=asked.items,
            size=size,
            one_by_one=self.several == "one-by-one",
            generator=generator,
        )
        record = {"kernel": name, "references": len(references)}
        first = {"first_change": float(changes[0])}
        return Query(indices, None, {**record, **first, **asked.record})


def _targets(classes_n: Tensor, like_nC: Tensor) -> Tensor:
    """Return 1 in the place of the class and -1 elsewhere."""
    targets = torch.full_like(like_nC, -1)
    targets[torch.arange(len(classes_n)), classes_n] = 1
    return targets
