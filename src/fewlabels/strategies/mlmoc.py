"""Most likely output change: what learning an item would do to all predictions.

Look-ahead without retraining: the network's tangent kernel predicts the outputs that
training with one item more would give, the objective is how far the pool's outputs
move, the search is greedy (Mohamadi, Bae and Sutherland, 2022).
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fewlabels.errors import Positive
from fewlabels.pool import Query
from fewlabels.search import maximize_change
from fewlabels.strategies.inputs import Request, check_labels_given
from fewlabels.strategies.kernels import ProcessStrategy

Several = Literal["one-by-one", "top"]
"""How several items are chosen: each is learned before the next, or all at once."""


@dataclass(frozen=True)
class MostLikelyOutputChange(ProcessStrategy):
    """Maximize the mean change of the pool's outputs, labels being as predicted."""

    ignores_order: ClassVar[bool] = True
    several: Several = "one-by-one"
    """``top`` takes the largest scores of single items, near copies included."""
    ridge: Positive = 1e-3
    """Added to the kernel's diagonal, as a share of its mean."""

    def choose(self, request: Request) -> Query:
        """Choose greedily, or the largest changes at once."""
        labeled, labels = request.pool.labeled, request.pool.labels
        check_labels_given(request.pool)
        outputs = request.predictions()
        posterior, record = self.posterior(request, outputs, self.ridge)
        logits_LC = outputs.logits[labeled].to(torch.float64)
        logits_nC = outputs.logits[posterior.candidates].to(torch.float64)
        gaps_LC = _targets(labels[labeled], logits_LC) - logits_LC
        indices, changes = maximize_change(
            posterior,
            outputs=logits_nC + posterior.explained_by_labels(gaps_LC),
            targets=_targets(logits_nC.argmax(dim=1), logits_nC),
            size=request.size,
            one_by_one=self.several == "one-by-one",
            generator=request.generator,
        )
        return Query(indices, None, {**record, "first_change": float(changes[0])})


def _targets(classes_n: Tensor, like_nC: Tensor) -> Tensor:
    """Return 1 in the place of the class and -1 elsewhere."""
    targets = torch.full_like(like_nC, -1)
    targets[torch.arange(len(classes_n)), classes_n] = 1
    return targets
