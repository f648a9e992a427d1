"""BatchBALD: the set whose labels tell most about which sampled network is right.

Features are predictions of sampled networks, the objective is mutual information, the
search is greedy (Kirsch, van Amersfoort and Gal, 2019).

Shapes: n items, K sampled networks, C classes, m configurations: ways to label the
items chosen so far.
"""

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from torch import Generator, Tensor

from fewlabels.errors import Count, Limits
from fewlabels.pool import Query
from fewlabels.progress import track
from fewlabels.protocols import check_finite
from fewlabels.search import check_size
from fewlabels.search.blocks import chunks
from fewlabels.search.scores import largest
from fewlabels.strategies.inputs import BuiltIn, Request, check_classes

_CHUNK_ENTRIES = 2**22


@dataclass(frozen=True)
class BatchBald(BuiltIn):
    """Greedily maximize the information of the set's labels about the network."""

    num_samples: Annotated[int, Limits(at_least=2)] = 20
    """How many networks are sampled."""
    num_configurations: Count = 10_000
    """Ways to label the set that are looked at; while there are no more, all are."""
    max_pool: Count = 2_000
    """How many candidates can be looked at; each costs all configurations."""

    def choose(self, request: Request) -> Query:
        """Choose greedily by sampled predictions."""
        size, generator = request.size, request.generator
        candidates, subsample = request.candidates(self.max_pool)
        logits = request.classifier.sample_logits(
            request.pool.images, candidates, self.num_samples, generator
        )
        check_classes(logits)
        check_finite("sampled logits", logits)
        positions, information = maximize_information(
            logits, size, generator, num_configurations=self.num_configurations
        )
        is_exact = logits.shape[2] ** (size - 1) <= self.num_configurations
        record = {"exact": is_exact, "samples": self.num_samples, **subsample}
        return Query(candidates[positions], information, record)


class _Configurations(NamedTuple):
    """Ways to label what is chosen so far: all of them, or a sample."""

    logs: Tensor
    """Log-probability of each configuration under each network, shape (m, K)."""
    networks: Tensor | None = None
    """Which network each was sampled from, (m,); None where all are listed."""

    @property
    def shares_m(self) -> Tensor:
        """What each counts in a mean over configurations."""
        num_listed, num_networks = self.logs.shape
        if self.networks is not None:
            return torch.full((num_listed,), 1 / num_listed, dtype=torch.float64)
        return (self.logs.logsumexp(dim=1) - math.log(num_networks)).exp()

    def extended(self, logs_KC: Tensor, generator: Generator) -> "_Configurations":
        """Return them with one item more, labeled by its network if sampled."""
        if self.networks is None:
            return _Configurations((self.logs[:, None] + logs_KC.T).flatten(0, 1))
        chances_mC = logs_KC.exp()[self.networks]
        labels_m = torch.multinomial(chances_mC, 1, generator=generator).flatten()
        return _Configurations(self.logs + logs_KC.T[labels_m], self.networks)


def maximize_information(
    logits_KnC: Tensor, size: int, generator: Generator, *, num_configurations: int
) -> tuple[Tensor, float]:
    """Greedily choose items whose labels tell most about the network, jointly.

    I(y_1..b; network) = H(y_1..b) - sum of the mean over networks of H(y | network).
    The joint entropy is exact while the items chosen have at most
    ``num_configurations`` labelings, then it is estimated from as many sampled ones.

    Args:
        logits_KnC: Logits of sampled networks.
        size: How many items to choose.
        generator: Samples labelings, and decides ties.
        num_configurations: How many labelings are looked at.

    Returns:
        Positions (size,) in the order of choice, and the information in nats.
    """
    num_networks, num_items, num_classes = logits_KnC.shape
    check_size(size, num_items)
    noise_n = _mean_entropies(logits_KnC)
    free = torch.arange(num_items)
    known = _Configurations(torch.zeros(1, num_networks, dtype=torch.float64))
    chosen: list[Tensor] = []
    value = 0.0
    with track("Choosing", size) as advance:
        while True:
            gains = _label_entropies(known, logits_KnC, free) - noise_n[free]
            place = largest(gains, generator)
            chosen.append(free[place : place + 1])
            value += float(gains[place])
            advance()
            if len(chosen) == size:
                return torch.cat(chosen), value
            free, lacking = free[free != chosen[-1]], chosen[-1:]
            num_listed = len(known.logs) * num_classes
            if known.networks is None and num_listed > num_configurations:
                num_each = max(1, num_configurations // num_networks)
                networks_m = torch.arange(num_networks).repeat(num_each)
                empty_mK = known.logs.new_zeros(len(networks_m), num_networks)
                known, lacking = _Configurations(empty_mK, networks_m), chosen
            for item in lacking:
                logs_KC = logits_KnC[:, int(item)].to(torch.float64).log_softmax(dim=1)
                known = known.extended(logs_KC, generator)


def _label_entropies(
    known: _Configurations, logits_KnC: Tensor, items: Tensor
) -> Tensor:
    """Return the entropy of each item's label, given those of the others, (n,).

    Given a configuration, networks are weighed by how likely they make it. So
    H(y_1..b+1) = H(y_1..b) + sum over configurations of p(y_1..b) H(y_b+1 | y_1..b).
    """
    weights_mK, shares_m = known.logs.softmax(dim=1), known.shares_m
    num_classes = logits_KnC.shape[2]
    entropies = []
    for part in chunks(len(items), len(weights_mK) * num_classes, _CHUNK_ENTRIES):
        chances_KnC = logits_KnC[:, items[part]].to(torch.float64).softmax(dim=2)
        mixed_mn_C = weights_mK @ chances_KnC.flatten(1)
        entropy_mn = torch.special.entr(mixed_mn_C).unflatten(1, (-1, num_classes))
        entropies.append(shares_m @ entropy_mn.sum(dim=2))
    return torch.cat(entropies)


def _mean_entropies(logits_KnC: Tensor) -> Tensor:
    """Return the entropy of each item's label, averaged over networks, shape (n,)."""
    num_networks, num_items, num_classes = logits_KnC.shape
    entropies = []
    for part in chunks(num_items, num_networks * num_classes, _CHUNK_ENTRIES):
        chances_KnC = logits_KnC[:, part].to(torch.float64).softmax(dim=2)
        entropies.append(torch.special.entr(chances_KnC).sum(dim=2).mean(dim=0))
    return torch.cat(entropies)
