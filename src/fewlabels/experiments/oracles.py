"""Those who know labels; here, a table of them."""

from dataclasses import dataclass

from torch import Tensor

from fewlabels.pool import UNKNOWN, Answers, Query


@dataclass(frozen=True, eq=False)
class TableOracle:
    """Answers from a table: the simulated annotator of an experiment.

    An item without a known label is skipped, as a person would who cannot tell.
    """

    labels: Tensor
    """Class numbers of the whole pool, shape (N,)."""

    def answer(self, query: Query) -> Answers:
        """Look the items up."""
        labels = self.labels[query.indices]
        is_known = labels != UNKNOWN
        return Answers(
            indices=query.indices[is_known],
            labels=labels[is_known],
            skipped=query.indices[~is_known],
        )
