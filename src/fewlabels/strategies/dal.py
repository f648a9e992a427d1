"""Discriminative active learning: ask what is most surely not labeled yet.

Features are penultimate rows, the objective is to make labeled and unlabeled items
hard to tell apart, the search refits after each part of the query (Gissin and
Shalev-Shwartz, 2019).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator

from fewlabels.errors import UsageError
from fewlabels.pool import Pool, Query, Record, Round
from fewlabels.progress import track
from fewlabels.protocols import Classifier
from fewlabels.search import check_size, top
from fewlabels.search.discriminator import discriminator
from fewlabels.strategies.inputs import by_chunks, sampled


@dataclass(frozen=True)
class DiscriminativeActiveLearning:
    """Take the candidates that look least like labeled items, some at a time."""

    num_parts: int = 10
    """In how many parts the query is chosen; each counts as labeled for the next."""
    penalty: float = 0.01
    """How flat the discriminator is; see :mod:`fewlabels.search.discriminator`."""
    max_train: int = 20_000
    """Unlabeled items it learns from, at most; all candidates are judged by it."""

    def __post_init__(self) -> None:
        """Refuse numbers with which there is nothing to learn from."""
        if (
            self.num_parts < 1
            or self.max_train < 1
            or not 0 < self.penalty < float("inf")
        ):
            raise UsageError(
                f"num_parts is {self.num_parts}, max_train {self.max_train} and "
                f"penalty {self.penalty:g}; the first two are at least 1, and the "
                "penalty is positive and finite."
            )

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
        del history
        check_size(size, len(pool.candidates))
        _check_labeled(pool)
        rows = classifier.outputs(pool.images, torch.arange(len(pool))).features
        labeled, free, unlabeled = pool.labeled, pool.candidates, pool.unlabeled
        num_trained = min(self.max_train, len(unlabeled))
        parts = torch.arange(size).tensor_split(min(self.num_parts, size))
        with track("Choosing", len(parts)) as advance:
            for part in parts:
                seen = sampled(unlabeled, self.max_train, generator)
                judge = discriminator(rows[labeled], rows[seen], penalty=self.penalty)
                scores = by_chunks(judge.scores, rows)[free]
                chosen = top(scores, free, len(part), generator)
                labeled = torch.cat([labeled, chosen])
                free = free[~torch.isin(free, chosen)]
                unlabeled = unlabeled[~torch.isin(unlabeled, chosen)]
                advance()
        record: Record = {"parts": len(parts), "judged": len(pool.candidates)}
        if num_trained < len(pool.unlabeled):
            notice = {"considered": num_trained, "out_of": len(pool.unlabeled)}
            record = {**record, "trained_on": notice | {"max_train": self.max_train}}
        return Query(labeled[-size:], record=record)


def _check_labeled(pool: Pool) -> None:
    """Raise where there is only one side to learn from."""
    if not len(pool.labeled):
        raise UsageError(
            f"None of the {len(pool)} items is labeled, and labeled items are told "
            "apart from the others; label some first, or begin with 'typiclust', "
            "'npc' or 'random'."
        )
