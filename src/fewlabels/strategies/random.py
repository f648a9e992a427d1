"""Passive learning: a uniform choice."""

from dataclasses import dataclass

import torch

from fewlabels.pool import Query
from fewlabels.strategies.inputs import BuiltIn, Request


@dataclass(frozen=True)
class Random(BuiltIn):
    """Uniformly among the candidates: the paper's Passive, the baseline of all."""

    def choose(self, request: Request) -> Query:
        """Choose the first of a random permutation."""
        candidates = request.pool.candidates
        order = torch.randperm(len(candidates), generator=request.generator)
        return Query(candidates[order[: request.size]])
