"""Passive learning: a uniform choice."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator

from fewlabels.pool import Pool, Query, Round
from fewlabels.protocols import Classifier
from fewlabels.search import check_size


@dataclass(frozen=True)
class Random:
    """Uniformly among the candidates: the paper's Passive, the baseline of all."""

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
        del classifier, history
        check_size(size, len(pool.candidates))
        order = torch.randperm(len(pool.candidates), generator=generator)
        return Query(pool.candidates[order[:size]])
