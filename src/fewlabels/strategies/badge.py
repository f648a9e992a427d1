"""BADGE: gradients of the loss, their distances, k-means++."""

from dataclasses import dataclass

from fewlabels import gram
from fewlabels.pool import Query
from fewlabels.search import FirstCenter, k_means_plus_plus
from fewlabels.strategies.inputs import BuiltIn, Request


@dataclass(frozen=True)
class Badge(BuiltIn):
    """Draw items whose gradients are long and far apart (Ash et al., 2020)."""

    first: FirstCenter = "largest"
    """The longest gradient, as in the authors' code; ``uniform``: as in the paper."""

    def choose(self, request: Request) -> Query:
        """Draw candidates by k-means++."""
        outputs, candidates = request.predictions(), request.pool.candidates
        kernel = gram.gradient_embedding_kernel(outputs.features, outputs.logits)
        indices = k_means_plus_plus(
            kernel,
            candidates=candidates,
            size=request.size,
            generator=request.generator,
            first=self.first,
        )
        squared_lengths = kernel.diagonal(candidates)
        record = {
            "mean_length": float(squared_lengths.sqrt().mean()),
            "without_gradient": int((squared_lengths == 0).sum()),
        }
        return Query(indices, record=record)
