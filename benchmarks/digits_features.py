"""What a self-supervised encoder makes of the digits, against their pixels.

Thirty random labels, one per class at least; accuracy on the 500 test digits of the
nearest labeled item (by the cosine around the mean of the pool) and of logistic
regression on standardized features, at the strength that is best on these test images:
in favor of both sides alike. Defaults of the encoder were chosen on the pool, with
other label sets.

Run ``python benchmarks/digits_features.py``; it writes its figures down as well.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import fewlabels
from fewlabels import rng
from fewlabels.features.self_supervised import SelfSupervised
from fewlabels.pool import Pool, Split

NUM_RANDOM = 20
LABEL_SETS = range(10, 20)
OUTPUT = Path(__file__).parent / "results" / "digits_features.json"
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)

Rows = NDArray[np.float64]


def labeled_items(pool: Pool, seed: int) -> NDArray[np.int64]:
    """Return one item per class and twenty more, all at random."""
    order = torch.randperm(len(pool), generator=rng.stream(seed, "probe"))
    classes = pool.labels[order]
    firsts = torch.stack([order[classes == c][0] for c in range(pool.num_classes)])
    others = order[~torch.isin(order, firsts)][:NUM_RANDOM]
    chosen: NDArray[np.int64] = torch.cat([firsts, others]).numpy()
    return chosen


def accuracies(
    model: Any, rows: Rows, test_rows: Rows, pool: Pool, test: Split
) -> list[float]:
    """Return the percentage of test items that are right, for each set of labels."""
    found = []
    for seed in LABEL_SETS:
        items = labeled_items(pool, seed)
        model.fit(rows[items], pool.labels[items].numpy())
        found.append(100 * model.score(test_rows, test.labels.numpy()))
    return found


def measured(
    rows: torch.Tensor, test_rows: torch.Tensor, pool: Pool
) -> dict[str, list[float]]:
    """Return the accuracies by method, one for each set of labels."""
    assert pool.test is not None
    own, tested = rows.double().numpy(), test_rows.double().numpy()
    middle, deviation = own.mean(axis=0), own.std(axis=0) + 1e-6
    around = [r - middle for r in (own, tested)]
    unit = [r / np.linalg.norm(r, axis=1, keepdims=True) for r in around]
    nearest = accuracies(KNeighborsClassifier(1), unit[0], unit[1], pool, pool.test)
    scaled = [r / deviation for r in around]
    linear = max(
        (
            accuracies(
                LogisticRegression(C=strength, max_iter=5000), *scaled, pool, pool.test
            )
            for strength in STRENGTHS
        ),
        key=mean,
    )
    return {"nearest": nearest, "linear": linear}


def told(name: str, found: dict[str, list[float]]) -> str:
    """Return a line of the table."""
    figures = (f"{m} {mean(a):5.1f} ± {stdev(a):.1f}" for m, a in found.items())
    return f"{name:30} " + "   ".join(figures)


def main() -> None:
    """Print and keep the line of the pixels, then one for each encoder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=SelfSupervised.steps)
    parser.add_argument("--out", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pool = fewlabels.load("digits")
    assert pool.test is not None
    images = pool.images.read(torch.arange(len(pool)))
    test_images = pool.test.images.read(torch.arange(len(pool.test)))
    print(f"Digits, {NUM_RANDOM + pool.num_classes} labels, {len(LABEL_SETS)} sets")
    record = {"pixels": measured(images.flatten(1), test_images.flatten(1), pool)}
    print(told("pixels", record["pixels"]))
    for seed in arguments.seeds:
        started = time.process_time()
        encoder = SelfSupervised(steps=arguments.steps).fit(
            pool.images, rng.stream(seed, "encoder")
        )
        name = f"encoder {seed}, {time.process_time() - started:.0f} s"
        found = measured(encoder.embed(images), encoder.embed(test_images), pool)
        record[f"encoder {seed}"] = found
        print(told(name, found), flush=True)
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
