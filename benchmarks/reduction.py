"""What is lost where a strategy looks at a random part of the pool only.

    python -m benchmarks.reduction                  uherding, a minute
    python -m benchmarks.reduction outward          another one, a quarter of an hour

The problem is that of ``large_pool`` with 6,000 items and the first 64 features; ten
items are labeled, 50 are chosen, of the whole pool or of a random part of it
(``max_pool``), with five seeds. What was chosen is then judged by the whole pool:
``uherding`` by the share of it that is covered (all items weigh the same, radius 0.5),
``outward`` by the largest eigenvalue that is left to explain (power 0).
"""

import argparse
import json
from pathlib import Path

import torch
from benchmarks.large_pool import problem, say
from torch import Tensor

import fewlabels
from fewlabels.gram import euclidean_kernel
from fewlabels.gram.diffusion import Diffusion, diffusion_rows
from fewlabels.rng import stream
from fewlabels.search.covering import nearest_squares
from fewlabels.strategies import outward

NUM_ITEMS, WIDTH, NUM_LABELED, SIZE, NUM_SEEDS = 6_000, 64, 10, 50, 5
RADIUS = 0.5
PARTS = (NUM_ITEMS, 3_000, 1_500, 600)
RESULT = Path(__file__).parent / "results" / "reduction.json"


def covered(rows: Tensor, members: Tensor) -> float:
    """Return the share of all rows that is near a member."""
    kernel = euclidean_kernel(rows, normalize=True)
    squares = nearest_squares(kernel, torch.arange(len(rows)), members)
    return float((-squares / RADIUS**2).exp().mean())


def left(rows: Tensor, members: Tensor) -> float:
    """Return the largest eigenvalue that labels of the members leave."""
    found = diffusion_rows(rows, Diffusion())
    weights = torch.ones(len(rows), dtype=torch.float64)
    strategy = outward.Outward(power=0.0)
    state = outward._Left(found, weights, strategy.noise)
    state.learn(members)
    return strategy.value(state)


MEASURES = {
    "uherding": (covered, {"uncertainty": None, "radius": RADIUS}),
    "outward": (left, {"power": 0.0}),
}


def main() -> None:
    """Choose of all parts with all seeds and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("strategies", nargs="*", default=["uherding"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    features = problem(NUM_ITEMS)[0][:, :WIDTH].contiguous()
    labeled = torch.arange(NUM_LABELED)
    lines = []
    for name in options.strategies:
        measure, settings = MEASURES[name]
        for part in PARTS:
            values = []
            for seed in range(NUM_SEEDS if part < NUM_ITEMS else 1):
                chosen = fewlabels.select(
                    name,
                    features=features.numpy(),
                    labeled=labeled.numpy(),
                    size=SIZE,
                    seed=seed,
                    options={**settings, "max_pool": part},
                )
                members = torch.cat([labeled, torch.from_numpy(chosen)])
                values.append(measure(features, members))
            random = []
            for seed in range(NUM_SEEDS if part == PARTS[-1] else 0):
                draws = stream(seed, "random items")
                order = torch.randperm(NUM_ITEMS - NUM_LABELED, generator=draws)
                members = torch.cat([labeled, order[:SIZE] + NUM_LABELED])
                random.append(measure(features, members))
            line = {"strategy": name, "max_pool": part, "values": values}
            if random:
                line["random_items"] = random
            lines.append(line)
            say(json.dumps(line))
    RESULT.write_text(
        json.dumps({"num_items": NUM_ITEMS, "lines": lines}, indent=2) + "\n"
    )


if __name__ == "__main__":
    main()
