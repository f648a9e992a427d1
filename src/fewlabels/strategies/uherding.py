"""Uncertainty herding: features, doubt that no chosen item is near, greedy coverage."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from fewlabels import gram
from fewlabels.errors import UsageError
from fewlabels.naming import check_known
from fewlabels.pool import Pool, Query, Round
from fewlabels.protocols import Classifier
from fewlabels.search import check_size, maximize_coverage, smallest_distance
from fewlabels.strategies.calibration import best_temperature
from fewlabels.strategies.inputs import (
    by_chunks,
    check_part,
    considered,
    entropy,
    lead,
)

Doubt = Literal["margin", "entropy"]

_WIDEST = 1.0  # what MaxHerding takes for rows of length one


@dataclass(frozen=True)
class UncertaintyHerding:
    """Put items near what is in doubt (Bae, Oliveira and Sutherland, 2025)."""

    ignores_order: ClassVar[bool] = True
    uncertainty: Doubt | None = "margin"
    """What weighs an item; None: all weigh the same, which is MaxHerding."""
    temperature: float | None = None
    """Divides the logits; None: the best for the labels so far, at least 1."""
    radius: float | None = None
    """Width of the kernel; None: the smallest distance of labeled items, at most 1."""
    max_pool: int = 20_000
    """How many candidates are looked at."""

    def __post_init__(self) -> None:
        """Refuse options that mean nothing."""
        check_part(max_pool=self.max_pool)
        if self.uncertainty is not None:
            check_known("uncertainty", self.uncertainty, Doubt)
        for name, value in (("temperature", self.temperature), ("radius", self.radius)):
            if value is not None and not value > 0:
                raise UsageError(
                    f"{name} is {value}, and something is divided by it; give more "
                    "than 0, or None to have it chosen."
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
        part = considered(pool.candidates, self.max_pool, generator, at_least=size)
        count = len(part.items)
        items = torch.cat([part.items, pool.labeled])
        outputs = classifier.outputs(pool.images, items)
        kernel = gram.euclidean_kernel(outputs.features, normalize=True)
        candidates, labeled = torch.arange(count), torch.arange(count, len(items))
        weights, temperature = self._weights(outputs.logits, count, pool)
        smallest = smallest_distance(kernel, labeled)
        width = self.radius or min(smallest or _WIDEST, _WIDEST)
        places, share = maximize_coverage(
            kernel,
            partial(_gaussian, width),
            weights=weights,
            labeled=labeled,
            candidates=candidates,
            size=size,
            generator=generator,
            rows=torch.nn.functional.normalize(outputs.features[:count].float()).cpu(),
        )
        record = {"radius": width, "temperature": temperature, "covered": share}
        return Query(part.items[places], record={**record, **part.record})

    def _weights(
        self, logits: Tensor, count: int, pool: Pool
    ) -> tuple[Tensor, float | None]:
        """Return what covering each candidate is worth, and the temperature if any."""
        has_doubts = logits.shape[1] > 1 and len(pool.labeled) > 0
        if self.uncertainty is None or not has_doubts:
            return torch.ones(count, dtype=torch.float64), None
        labels = pool.labels[pool.labeled]
        temperature = self.temperature or best_temperature(logits[count:], labels)
        doubt = _DOUBTS[self.uncertainty]
        weights = by_chunks(partial(_doubt, doubt, temperature), logits[:count])
        return weights.cpu(), temperature


def _gaussian(width: float, squares: Tensor) -> Tensor:
    return (-squares / width / width).exp()


def _doubt(
    doubt: Callable[[Tensor], Tensor], temperature: float, logits_nC: Tensor
) -> Tensor:
    return doubt(logits_nC / temperature)


def _lead(logits_nC: Tensor) -> Tensor:
    """Return 1 less the lead of the most likely class over the second."""
    return 1 - lead(logits_nC)


_DOUBTS: dict[Doubt, Callable[[Tensor], Tensor]] = {"margin": _lead, "entropy": entropy}
