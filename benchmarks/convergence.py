"""Whether NPC's score says how long a network will take to learn a labeled set.

A sentence that is commented out in the NPC paper's source: "NPC provides an estimate on
the number of epochs required for convergence". And Sec. 4.1: larger eigenvalues allow
larger steps. Two-layer networks (``two_layers.py``) learn sets of 24 digits by full
gradient descent with the step size 1/λmax. Of each set the record has the score λmin,
the steps until a hundredth and a ten-thousandth of the loss is left, and the largest
step size with which the loss still falls, found by bisection.

Run ``python -m benchmarks.convergence``.

Shapes: n items of a set, D pixels.
"""

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from benchmarks.theory import inputs_and_targets
from benchmarks.two_layers import GramKernel, TwoLayers
from torch import Tensor

import fewlabels
from fewlabels import files
from fewlabels.gram import spectrum
from fewlabels.rng import stream
from fewlabels.search import maximize_smallest_eigenvalue

OUT = Path(__file__).parent / "results" / "convergence.json"
WIDTH, SIZE, NUM_NETWORKS = 1024, 24, 5
SETS = {1: 12, 30: 6, 0: 6}
"""Sets per network by the number of draws that each is the best of; 0: as many as there
are items, as in Algorithm 1."""
LEVELS = (1e-2, 1e-4)
MOST_STEPS = 20_000
TRIED, TESTED_STEPS = 7, 300
"""Bisections of the largest step size, and steps after which the loss has to be
lower."""


@dataclass(frozen=True)
class Learned:
    """One set, and how a network learned it."""

    network: int
    draws: int
    smallest: float
    largest: float
    steps: tuple[int | None, ...]
    """Steps until each of the levels; None: not within the most steps."""
    rate: float
    """Largest step size with which the loss falls."""


def steps_to_levels(
    network: TwoLayers, inputs_nD: Tensor, targets_n: Tensor, rate: float
) -> tuple[int | None, ...]:
    """Return the steps until each share of the first loss is left."""
    residuals = network(inputs_nD) - targets_n
    first, found = float(residuals @ residuals), list[int | None]()
    for step in range(MOST_STEPS):
        share = float(residuals @ residuals) / first
        while len(found) < len(LEVELS) and share <= LEVELS[len(found)]:
            found.append(step)
        if len(found) == len(LEVELS):
            break
        network = network.stepped(inputs_nD, residuals, rate)
        residuals = network(inputs_nD) - targets_n
    return (*found, *[None] * (len(LEVELS) - len(found)))


def falls(
    network: TwoLayers, inputs_nD: Tensor, targets_n: Tensor, rate: float
) -> bool:
    """Return whether the loss is lower after some steps, and never explodes."""
    residuals = network(inputs_nD) - targets_n
    first = float(residuals @ residuals)
    for _ in range(TESTED_STEPS):
        network = network.stepped(inputs_nD, residuals, rate)
        residuals = network(inputs_nD) - targets_n
        if not float(residuals @ residuals) < 100 * first:
            return False
    return float(residuals @ residuals) < first


def largest_rate(
    network: TwoLayers, inputs_nD: Tensor, targets_n: Tensor, largest: float
) -> float:
    """Return the largest step size with which the loss falls, to about 1 %."""
    low, high = 1 / largest, 4 / largest
    for _ in range(TRIED):
        middle = (low * high) ** 0.5
        if falls(network, inputs_nD, targets_n, middle):
            low = middle
        else:
            high = middle
    return low


def learned(seed: int) -> list[Learned]:
    """Train one network on each of its sets."""
    inputs_ND, targets_N = inputs_and_targets(fewlabels.load("digits"))
    network = TwoLayers.draw(inputs_ND.shape[1], WIDTH, stream(seed, "weights"))
    gram_NN, every = network.gram(inputs_ND), torch.arange(len(inputs_ND))
    found = []
    for draws, times in SETS.items():
        for number in range(times):
            items = maximize_smallest_eigenvalue(
                GramKernel(gram_NN),
                labeled=every[:0],
                candidates=every,
                size=SIZE,
                draws=draws or None,
                generator=stream(seed, f"best of {draws}", number),
            ).indices
            before = spectrum(gram_NN[items][:, items])
            task = network, inputs_ND[items], targets_N[items]
            steps = steps_to_levels(*task, rate=1 / before.largest)
            rate = largest_rate(*task, largest=before.largest)
            extremes = before.smallest, before.largest
            found.append(Learned(seed, draws, *extremes, steps, rate))
    return found


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    sets = [each for seed in range(NUM_NETWORKS) for each in learned(seed)]
    record = {"width": WIDTH, "size": SIZE, "levels": LEVELS}
    record["sets"] = [asdict(each) for each in sets]
    files.replace_text(given.out, json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
