"""Discriminative active learning: ask what is most surely not labeled yet.

Features are penultimate rows, the objective is to make labeled and unlabeled items
hard to tell apart, the search refits after each part of the query (Gissin and
Shalev-Shwartz, 2019).

Shapes: N rows, n of them to learn from, F features.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from fewlabels.errors import Count, Positive, UsageError
from fewlabels.pool import Query, Record
from fewlabels.progress import track
from fewlabels.search import top
from fewlabels.strategies.inputs import BuiltIn, Request, by_chunks


@dataclass(frozen=True)
class DiscriminativeActiveLearning(BuiltIn):
    """Take the candidates that look least like labeled items, some at a time."""

    num_parts: Count = 10
    """In how many parts the query is chosen; each counts as labeled for the next."""
    penalty: Positive = 0.01
    """How flat the discriminator is; see :func:`discriminator`."""
    max_train: Count = 20_000
    """Unlabeled items it learns from, at most; all candidates are judged by it."""

    def choose(self, request: Request) -> Query:
        """Choose a part, count it as labeled, and go on."""
        pool, size, generator = request.pool, request.size, request.generator
        labeled, free, unlabeled = pool.labeled, pool.candidates, pool.unlabeled
        if not len(labeled):
            raise UsageError(
                f"None of the {len(pool)} items is labeled; begin with 'typiclust'."
            )
        rows = request.outputs().features
        parts = torch.arange(size).tensor_split(min(self.num_parts, size))
        with track("Choosing", len(parts)) as advance:
            for part in parts:
                seen = request.part_of(unlabeled, self.max_train)
                judge = discriminator(rows[labeled], rows[seen], penalty=self.penalty)
                scores = by_chunks(judge, rows)[free]
                chosen = top(scores, free, len(part), generator)
                labeled = torch.cat([labeled, chosen])
                free = free[~torch.isin(free, chosen)]
                unlabeled = unlabeled[~torch.isin(unlabeled, chosen)]
                advance()
        record: Record = {"parts": len(parts), "judged": len(pool.candidates)}
        if self.max_train < len(pool.unlabeled):
            seen_of = {"considered": self.max_train, "out_of": len(pool.unlabeled)}
            record = {**record, "trained_on": seen_of | {"max_train": self.max_train}}
        return Query(labeled[-size:], record=record)


def discriminator(
    one: Tensor, other: Tensor, *, penalty: float
) -> Callable[[Tensor], Tensor]:
    """Fit a logistic regression that tells two groups of rows apart.

    Features are first scaled to a mean of zero and a spread of one. What is minimized
    is the mean loss of ``one`` plus that of ``other``, however many rows they have,
    plus half of ``penalty`` times the squared length of the weights.

    Args:
        one: Rows of the first group, shape (n, F), at least one.
        other: Rows of the second group, at least one.
        penalty: Positive; the larger, the flatter the function.

    Returns:
        The log odds of the second group as a function of rows, (N, F) to (N,).
    """
    rows = torch.cat([one, other]).to(torch.float64)
    center, spread = rows.mean(dim=0), rows.std(dim=0, correction=0)
    spread[spread <= 1e-12 * rows.abs().amax(dim=0)] = 1  # constant but for rounding
    is_other = np.arange(len(rows)) >= len(one)
    shares = np.where(is_other, 1 / len(other), 1 / len(one))
    fit = LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=1000)
    fit.fit(((rows - center) / spread).numpy(), is_other, shares)
    weights_F = torch.from_numpy(fit.coef_[0]) / spread
    return partial(_log_odds, weights_F, float(fit.intercept_[0] - weights_F @ center))


def _log_odds(weights_F: Tensor, offset: float, rows: Tensor) -> Tensor:
    return rows.to(torch.float64) @ weights_F + offset
