"""Theorem 1 of the NPC paper, measured: how fast a wide network learns a label set.

A two-layer ReLU network (see ``two_layers.py``), both layers trained, in float64. With
K_t the Gram matrix of its gradients, full gradient descent on L = ½ |f(X) - y|² with
η = 1/λmax(K_0) changes the residuals by -η K_t (f - y) to first order, so that L falls
to (1 - η λmin(K_t))² of itself at most, and all the more to 1 - η λmin(K_t)/2. What
lies between the two is there for curvature.

Sets of digits (pixels scaled to length one, targets +1 for even and -1 for odd) are
chosen at random and by NPC, from the network's own Gram matrix before training; the
share of steps that keep the bound is counted until the bounds together promise half the
loss and the loss itself is below a hundredth.

Run ``python -m benchmarks.theory``.

Shapes: N items in the pool, n items of a set, D pixels.
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from benchmarks.two_layers import GramKernel, TwoLayers
from matplotlib.figure import Figure
from torch import Tensor

import fewlabels
from fewlabels.files import replace_file, replace_text
from fewlabels.gram import spectrum
from fewlabels.pool import Pool
from fewlabels.rng import stream
from fewlabels.search import maximize_smallest_eigenvalue

RESULTS = Path("benchmarks/results/theory.json")
PICTURE = Path("docs/images/theory.png")
RULES = ("random", "npc", "npc-greedy")
"""Uniform; Algorithm 1 of the paper; the same objective maximized greedily."""
PROMISE = 0.5
LEARNED = 0.01
LARGEST_NUM_STEPS = 20_000
COLORS = {"random": "#676c74", "npc": "#0067a5", "npc-greedy": "#00775a"}
BOUND = "what the bounds promise"
NAMES = {"random": "at random", "npc": "NPC", "npc-greedy": "NPC, greedy search"}


@dataclass(frozen=True)
class Descent:
    """Gradient descent on one set, step by step."""

    rule: str
    seed: int
    smallest: float
    """Smallest eigenvalue before training."""
    largest: float
    """Largest eigenvalue before training, the inverse of the step size."""
    losses: list[float]
    """Loss before each step and after the last one."""
    rates: list[float]
    """η λmin(K_t) of each step."""

    @property
    def bounds(self) -> list[float]:
        """Loss that the bounds promise: L_0 times the product of 1 - η λmin/2."""
        promised = [self.losses[0]]
        for rate in self.rates:
            promised.append(promised[-1] * (1 - rate / 2))
        return promised

    @property
    def share_kept(self) -> float:
        """Share of steps in which the loss falls by the bound or more."""
        return self._share([1 - rate / 2 for rate in self.rates])

    @property
    def share_linear(self) -> float:
        """Share of steps in which it falls by what the linear model would keep."""
        return self._share([(1 - rate) ** 2 for rate in self.rates])

    @property
    def steps_promised(self) -> int:
        """Steps after which the bounds promise half the loss."""
        return _first_below(self.bounds, PROMISE * self.losses[0])

    @property
    def steps_needed(self) -> int:
        """Steps after which the loss is a hundredth."""
        return _first_below(self.losses, LEARNED * self.losses[0])

    @property
    def drift(self) -> float:
        """Largest change of λmin during training, as a share of the first."""
        return max(abs(rate / self.rates[0] - 1) for rate in self.rates)

    def _share(self, factors: list[float]) -> float:
        pairs = zip(self.losses, self.losses[1:], factors, strict=False)
        return fmean(after <= factor * before for before, after, factor in pairs)


def inputs_and_targets(pool: Pool) -> tuple[Tensor, Tensor]:
    """Return pixels scaled to length one, and +1 for even and -1 for odd digits."""
    pixels_ND = pool.images.read(torch.arange(len(pool))).double().flatten(1)
    targets_N = 1 - 2 * (pool.labels % 2).double()
    return pixels_ND / pixels_ND.norm(dim=1, keepdim=True), targets_N


def chosen(rule: str, gram_NN: Tensor, size: int, seed: int) -> Tensor:
    """Return a set of items, chosen by one of the rules."""
    everything = torch.arange(len(gram_NN))
    if rule == "random":
        order = torch.randperm(len(gram_NN), generator=stream(seed, "random set"))
        return order[:size]
    return maximize_smallest_eigenvalue(
        GramKernel(gram_NN),
        labeled=everything[:0],
        candidates=everything,
        size=size,
        method="greedy" if rule == "npc-greedy" else "random",
        generator=stream(seed, "search"),
    ).indices


def descent(
    network: TwoLayers, inputs_nD: Tensor, targets_n: Tensor, rule: str, seed: int
) -> Descent:
    """Train a network on one set until the bounds and the loss are low enough."""
    before = spectrum(network.gram(inputs_nD))
    rate = 1 / before.largest
    residuals = network(inputs_nD) - targets_n
    losses, promised = [_loss(residuals)], 1.0
    rates: list[float] = []
    while promised > PROMISE or losses[-1] > LEARNED * losses[0]:
        if len(rates) == LARGEST_NUM_STEPS:
            break
        smallest = torch.linalg.eigvalsh(network.gram(inputs_nD))[0]
        rates.append(rate * float(smallest))
        promised *= 1 - rates[-1] / 2
        network = network.stepped(inputs_nD, residuals, rate)
        residuals = network(inputs_nD) - targets_n
        losses.append(_loss(residuals))
    return Descent(rule, seed, before.smallest, before.largest, losses, rates)


def descents(seed: int, size: int, width: int) -> list[Descent]:
    """Train one network on a set of each rule."""
    inputs_ND, targets_N = inputs_and_targets(fewlabels.load("digits"))
    network = TwoLayers.draw(inputs_ND.shape[1], width, stream(seed, "weights"))
    gram_NN = network.gram(inputs_ND)
    sets = {rule: chosen(rule, gram_NN, size, seed) for rule in RULES}
    return [
        descent(network, inputs_ND[items], targets_N[items], rule, seed)
        for rule, items in sets.items()
    ]


def summary(rows: list[Descent], width: int, size: int) -> dict[str, Any]:
    """Return the figures of each rule over all seeds, and of each descent."""
    by_rule = {rule: [row for row in rows if row.rule == rule] for rule in RULES}
    return {
        "width": width,
        "size": size,
        "dtype": "float64",
        "rules": {rule: _figures(found) for rule, found in by_rule.items()},
        "descents": [
            {"rule": row.rule, "seed": row.seed} | _figures([row]) for row in rows
        ],
    }


def draw(rows: list[Descent], path: Path) -> None:
    """Plot measured and promised loss of the descents of one seed."""
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    axes = figure.subplots()
    for row in rows:
        start, color = row.losses[0], COLORS[row.rule]
        share = [loss / start for loss in row.losses]
        promised = [loss / start for loss in row.bounds]
        label = f"{NAMES[row.rule]}: λmin = {row.smallest:.3f}"
        axes.plot(share, color=color, linewidth=2, label=label)
        axes.plot(promised, color=color, linewidth=1.5, linestyle=(0, (4, 3)))
    axes.plot([], color="black", linewidth=1.5, linestyle=(0, (4, 3)), label=BOUND)
    axes.set_yscale("log")
    axes.set_xlim(left=0)
    axes.set_ylim(top=1.6)
    axes.set_xlabel("step of gradient descent")
    axes.set_ylabel("loss, as a share of the first")
    axes.grid(visible=True, color="#e3e6ea")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    with replace_file(path) as partial:
        figure.savefig(partial, format=path.suffix[1:] or "png", dpi=110)


def _figures(rows: list[Descent]) -> dict[str, float]:
    return {
        "share_kept": fmean(row.share_kept for row in rows),
        "share_linear": fmean(row.share_linear for row in rows),
        "smallest": fmean(row.smallest for row in rows),
        "largest": fmean(row.largest for row in rows),
        "steps_promised": fmean(row.steps_promised for row in rows),
        "steps_needed": fmean(row.steps_needed for row in rows),
        "largest_drift": max(row.drift for row in rows),
        "num_steps": sum(len(row.rates) for row in rows),
    }


def _loss(residuals_n: Tensor) -> float:
    return float(residuals_n @ residuals_n) / 2


def _first_below(values: list[float], level: float) -> int:
    """Return the first position whose value is at most a level; else the last."""
    found = (step for step, value in enumerate(values) if value <= level)
    return next(found, len(values) - 1)


def main() -> None:
    """Measure, print a table, write figures and picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--size", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    given = parser.parse_args()
    torch.set_num_threads(1)
    begin = time.perf_counter()
    rows = [r for s in range(given.seeds) for r in descents(s, given.size, given.width)]
    found = summary(rows, given.width, given.size)
    found["seconds"] = round(time.perf_counter() - begin, 1)
    print("rule          kept  linear    λmin    λmax  promised  needed")
    for rule, row in found["rules"].items():
        shares = f"{row['share_kept']:7.2%} {row['share_linear']:7.2%}"
        extremes = f"{row['smallest']:7.4f} {row['largest']:7.2f}"
        steps = f"{row['steps_promised']:9.0f} {row['steps_needed']:7.0f}"
        print(f"{rule:10} {shares} {extremes} {steps}")
    print(f"{found['seconds']} s")
    replace_text(given.out, json.dumps(found, indent=2) + "\n")
    draw(rows[: len(RULES)], given.picture)


if __name__ == "__main__":
    main()
