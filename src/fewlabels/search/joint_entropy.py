"""Sets whose labels tell most about which of several networks is right: BatchBALD.

Shapes: n items, K sampled networks, C classes, m configurations: ways to label the
items chosen so far (Kirsch, van Amersfoort and Gal, 2019).
"""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fewlabels.progress import track
from fewlabels.search.blocks import chunks
from fewlabels.search.scores import check_size, largest

_CHUNK_ENTRIES = 2**22


@dataclass(frozen=True, eq=False)
class _Configurations:
    """Ways to label what is chosen so far: all of them, or a sample."""

    logs: Tensor
    """Log-probability of each configuration under each network, shape (m, K)."""
    networks: Tensor | None
    """Which network each was sampled from, (m,); None where all are listed."""

    @property
    def shares_m(self) -> Tensor:
        """What each counts in a mean over configurations."""
        num_listed, num_networks = self.logs.shape
        if self.networks is not None:
            return torch.full((num_listed,), 1 / num_listed, dtype=torch.float64)
        return (self.logs.logsumexp(dim=1) - math.log(num_networks)).exp()

    def listed_with(self, logs_KC: Tensor) -> "_Configurations":
        """Return all configurations with one more item."""
        longer_mCK = self.logs[:, None] + logs_KC.T
        return _Configurations(longer_mCK.flatten(0, 1), None)

    def sampled_with(self, logs_KC: Tensor, generator: Generator) -> "_Configurations":
        """Return the sample with one more item, labeled by the network of each."""
        assert self.networks is not None
        chances_mC = logs_KC.exp()[self.networks]
        labels_m = torch.multinomial(chances_mC, 1, generator=generator).flatten()
        longer_mK = self.logs + logs_KC.T[labels_m]
        return _Configurations(longer_mK, self.networks)


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
    num_networks, num_items, _ = logits_KnC.shape
    check_size(size, num_items)
    noise_n = _mean_entropies(logits_KnC)
    free = torch.arange(num_items)
    known = _Configurations(torch.zeros(1, num_networks, dtype=torch.float64), None)
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
            free = free[free != chosen[-1]]
            known = _with_last(known, logits_KnC, chosen, num_configurations, generator)


def _with_last(
    known: _Configurations,
    logits_KnC: Tensor,
    chosen: list[Tensor],
    num_configurations: int,
    generator: Generator,
) -> _Configurations:
    """Return configurations with the item chosen last: all, while they are few."""
    num_networks, _, num_classes = logits_KnC.shape
    if known.networks is None:
        if len(known.logs) * num_classes <= num_configurations:
            return known.listed_with(_log_probabilities(logits_KnC, chosen[-1]))
        num_each = max(1, num_configurations // num_networks)
        networks_m = torch.arange(num_networks).repeat(num_each)
        empty_mK = torch.zeros(len(networks_m), num_networks, dtype=torch.float64)
        known, lacking = _Configurations(empty_mK, networks_m), chosen
    else:
        lacking = chosen[-1:]
    for item in lacking:
        known = known.sampled_with(_log_probabilities(logits_KnC, item), generator)
    return known


def _log_probabilities(logits_KnC: Tensor, item: Tensor) -> Tensor:
    """Return the log-probabilities of one item, shape (K, C)."""
    return logits_KnC[:, int(item)].to(torch.float64).log_softmax(dim=1)


def _label_entropies(
    known: _Configurations, logits_KnC: Tensor, items: Tensor
) -> Tensor:
    """Return the entropy of each item's label, given those of the others, (n,).

    Given a configuration, networks are weighed by how likely they make it. So
    H(y_1..b+1) = H(y_1..b) + sum over configurations of p(y_1..b) H(y_b+1 | y_1..b).
    """
    weights_mK, shares_m = known.logs.softmax(dim=1), known.shares_m
    num_classes = logits_KnC.shape[2]
    width = len(weights_mK) * num_classes
    entropies = []
    for part in chunks(len(items), width, _CHUNK_ENTRIES):
        chances_KnC = logits_KnC[:, items[part]].to(torch.float64).softmax(dim=2)
        mixed_mn_C = weights_mK @ chances_KnC.flatten(1)
        entropy_mn = torch.special.entr(mixed_mn_C).unflatten(1, (-1, num_classes))
        entropies.append(shares_m @ entropy_mn.sum(dim=2))
    return torch.cat(entropies)


def _mean_entropies(logits_KnC: Tensor) -> Tensor:
    """Return the entropy of each item's label, averaged over networks, shape (n,)."""
    num_networks, num_items, num_classes = logits_KnC.shape
    width = num_networks * num_classes
    entropies = []
    for part in chunks(num_items, width, _CHUNK_ENTRIES):
        chances_KnC = logits_KnC[:, part].to(torch.float64).softmax(dim=2)
        entropies.append(torch.special.entr(chances_KnC).sum(dim=2).mean(dim=0))
    return torch.cat(entropies)
