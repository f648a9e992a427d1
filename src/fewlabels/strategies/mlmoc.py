"""Most likely output change: what learning an item would do to all predictions.

Look-ahead without retraining: the network's tangent kernel predicts the outputs that
training with one item more would give, the objective is how far the pool's outputs
move, the search is greedy (Mohamadi, Bae and Sutherland, 2022).
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fewlabels.errors import check_range
from fewlabels.names import check_known
from fewlabels.pool import Query
from fewlabels.search import Posterior, maximize_change
from fewlabels.strategies.inputs import (
    BuiltIn,
    Request,
    check_classes,
    check_labels_given,
    check_part,
    sampled,
)
from fewlabels.strategies.kernels import check_kernel, kernel_for, share_of_variance

Several = Literal["one-by-one", "top"]
"""How several items are chosen: each is learned before the next, or all at once."""


@dataclass(frozen=True)
class MostLikelyOutputChange(BuiltIn):
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
        check_kernel(self.kernel, normalize=self.normalize)
        check_known("way to choose several items", self.several, Several)
        check_range("ridge", self.ridge, above=0)
        check_part(max_pool=self.max_pool, num_references=self.num_references)

    def choose(self, request: Request) -> Query:
        """Choose greedily, or the largest changes at once."""
        pool, labeled = request.pool, request.pool.labeled
        check_labels_given(pool)
        asked = request.considered(self.max_pool)
        everything = torch.arange(len(pool))
        references = sampled(everything, self.num_references, request.generator)
        outputs = request.outputs()
        check_classes(outputs.logits)
        name, kernel = kernel_for(
            self.kernel,
            request,
            outputs,
            normalize=self.normalize,
            among=torch.cat([asked.items, references]) if asked.record else None,
        )
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
            size=request.size,
            one_by_one=self.several == "one-by-one",
            generator=request.generator,
        )
        record = {
            "kernel": name,
            "references": len(references),
            "first_change": float(changes[0]),
            **asked.record,
        }
        return Query(indices, None, record)


def _targets(classes_n: Tensor, like_nC: Tensor) -> Tensor:
    """Return 1 in the place of the class and -1 elsewhere."""
    targets = torch.full_like(like_nC, -1)
    targets[torch.arange(len(classes_n)), classes_n] = 1
    return targets
