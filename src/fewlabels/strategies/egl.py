"""Expected gradient length: a score per item, then the largest ones."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fewlabels.pool import Query
from fewlabels.search import top
from fewlabels.strategies.inputs import BuiltIn, Request, by_chunks


@dataclass(frozen=True)
class ExpectedGradientLength(BuiltIn):
    """Longest gradient of the loss, expected over the classes (Settles et al., 2008).

    The gradient is the last layer's: that of the loss of class c is (p - e_c) (h, 1)ᵀ,
    and the length of a product of two vectors is the product of theirs.
    """

    ignores_order: ClassVar[bool] = True

    def choose(self, request: Request) -> Query:
        """Choose the candidates with the longest expected gradients."""
        candidates = request.pool.candidates
        outputs = request.predictions(candidates)
        errors = by_chunks(_expected_error, outputs.logits)
        lengths = by_chunks(_gradient_length, outputs.features)
        scores = errors * lengths.to(errors.device)
        indices = top(scores.cpu(), candidates, request.size, request.generator)
        return Query(indices, record={"mean_score": float(scores.mean())})


def _expected_error(logits_nC: Tensor) -> Tensor:
    """Return Σ_c p_c |p - e_c|, shape (n,).

    1 - p_c is the sum of the other probabilities: subtracting would leave nothing of
    the doubt about a nearly certain prediction.
    """
    p_nC = logits_nC.softmax(dim=1)
    others_CC = 1 - torch.eye(p_nC.shape[1], dtype=p_nC.dtype, device=p_nC.device)
    squares_nC = (p_nC @ others_CC).square() + p_nC.square() @ others_CC
    return (p_nC * squares_nC.sqrt()).sum(dim=1)


def _gradient_length(features_nF: Tensor) -> Tensor:
    """Return |(h, 1)|, shape (n,)."""
    return (features_nF.square().sum(dim=1) + 1).sqrt()
