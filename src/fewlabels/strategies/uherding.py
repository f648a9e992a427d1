"""Uncertainty herding: features, doubt that no chosen item is near, greedy coverage."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fewlabels.errors import Count, Positive
from fewlabels.pool import Query
from fewlabels.search import maximize_coverage, smallest_distance
from fewlabels.strategies.inputs import BuiltIn, Request, by_chunks, entropy, lead

Doubt = Literal["margin", "entropy"]

_WIDEST = 1.0  # what MaxHerding takes for rows of length one
_HOTTEST = 100.0
_NUM_HALVINGS = 50


@dataclass(frozen=True)
class UncertaintyHerding(BuiltIn):
    """Put items near what is in doubt (Bae, Oliveira and Sutherland, 2025)."""

    ignores_order: ClassVar[bool] = True
    uncertainty: Doubt | None = "margin"
    """What weighs an item; None: all weigh the same, which is MaxHerding."""
    temperature: Positive | None = None
    """Divides the logits; None: the best for the labels so far, at least 1."""
    radius: Positive | None = None
    """Width of the kernel; None: the smallest distance of labeled items, at most 1."""
    max_pool: Count = 20_000
    """How many candidates are looked at."""

    def choose(self, request: Request) -> Query:
        """Choose greedily the candidates that cover the most uncertainty."""
        candidates, subsample, outputs, kernel = request.on_sphere(self.max_pool)
        pool, count, logits = request.pool, len(candidates), outputs.logits
        labeled = torch.arange(count, kernel.num_items)
        weights, temperature = torch.ones(count, dtype=torch.float64), None
        if self.uncertainty and logits.shape[1] > 1 and len(labeled):
            temperature = self.temperature or best_temperature(
                logits[count:], pool.labels[pool.labeled]
            )
            doubt = partial(_doubt, self.uncertainty, temperature)
            weights = by_chunks(doubt, logits[:count]).cpu()
        smallest = smallest_distance(kernel, labeled)
        width = self.radius or min(smallest or _WIDEST, _WIDEST)
        places, share = maximize_coverage(
            kernel,
            partial(_gaussian, width),
            weights=weights,
            **request.sets(torch.arange(count), labeled),
            rows=normalize(outputs.features[:count].float()).cpu(),
        )
        record = {"radius": width, "temperature": temperature, "covered": share}
        return Query(candidates[places], record={**record, **subsample})


def best_temperature(logits_nC: Tensor, labels_n: Tensor) -> float:
    """Return the T from 1 to 100 that makes softmax(z / T) fit the labels best.

    The mean of -log p_y is convex in 1/T, and its slope is the mean of E_p[z] - z_y
    (Guo et al., 2017, have the method). A classifier is usually asked about the items
    that it was trained on, which make it look better than it is: T below 1, which would
    make it surer still, is never returned.
    """
    is_known = labels_n >= 0
    if not bool(is_known.any()):
        return 1.0
    z_nC = logits_nC.cpu()[is_known].to(torch.float64)
    own_n = z_nC.gather(1, labels_n[is_known][:, None])[:, 0]

    def slope(inverse: float) -> float:
        p_nC = (inverse * z_nC).softmax(dim=1)
        return float(((p_nC * z_nC).sum(dim=1) - own_n).mean())

    low, high = 1 / _HOTTEST, 1.0
    if slope(high) <= 0:
        return 1.0
    for _ in range(_NUM_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return 2 / (low + high)


def _gaussian(width: float, squares: Tensor) -> Tensor:
    return (-squares / width / width).exp()


def _doubt(kind: Doubt, temperature: float, logits_nC: Tensor) -> Tensor:
    scaled_nC = logits_nC / temperature
    return 1 - lead(scaled_nC) if kind == "margin" else entropy(scaled_nC)
