"""Seconds and memory of every strategy at 200,000 x 384, each in a fresh process.

    python benchmarks/large_pool.py                     all of them, table and JSON
    python benchmarks/large_pool.py npc typiclust       some, the others' figures kept

The problem: ten classes of twenty clusters each. Class means are N(0, I), those of
clusters lie 0.5 N(0, I) from them and items 0.5 N(0, I) from those; logits of ten
classes are the items' products with the class means, divided by ten. All are float32
and in memory; 50 items are labeled, 100 are chosen, on one thread. Who compares sampled
classifiers gets as many as it asks for, each with 0.3 N(0, I) in its class means.
Seconds are those of ``fewlabels.select`` alone, of the processor and on the clock; the
peak is the process's largest resident memory, inputs and libraries included.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fewlabels
from fewlabels import strategies
from fewlabels.rng import stream

NUM_ITEMS, NUM_FEATURES, NUM_CLASSES, NUM_CLUSTERS = 200_000, 384, 10, 200
NUM_LABELED, SIZE = 50, 100
CHUNK = 50_000
RESULT = Path(__file__).parent / "results" / "large_pool.json"
THREADS = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}


def problem(num_items: int, num_samples: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return features, logits (of sampled classifiers, if any) and class numbers."""
    generator = stream(0, "large pool")
    means = torch.randn(NUM_CLASSES, NUM_FEATURES, generator=generator)
    away = torch.randn(NUM_CLUSTERS, NUM_FEATURES, generator=generator)
    clusters = torch.randint(NUM_CLUSTERS, (num_items,), generator=generator)
    classes = clusters % NUM_CLASSES
    sampled = means + 0.3 * torch.randn(
        max(1, num_samples), NUM_CLASSES, NUM_FEATURES, generator=generator
    )
    heads = sampled if num_samples else means[None]
    features = torch.empty(num_items, NUM_FEATURES)
    logits = torch.empty(len(heads), num_items, NUM_CLASSES)
    for start in range(0, num_items, CHUNK):
        part = slice(start, start + CHUNK)
        noise = torch.randn(len(classes[part]), NUM_FEATURES, generator=generator)
        features[part] = means[classes[part]] + 0.5 * away[clusters[part]] + 0.5 * noise
        logits[:, part] = features[part] @ heads.mT / 10
    return features, logits if num_samples else logits[0], classes


def worker(name: str, num_items: int) -> None:
    """Choose once and print the figures as JSON."""
    torch.set_num_threads(1)
    samples = getattr(strategies.resolve(name), "num_samples", 0)
    features, logits, classes = problem(num_items, samples)
    labeled = torch.randperm(num_items, generator=stream(0, "labeled"))[:NUM_LABELED]
    before = peak_gigabytes()
    begin, wall = time.process_time(), time.perf_counter()
    chosen = fewlabels.select(
        name,
        features=features.numpy(),
        logits=logits.numpy(),
        labeled=labeled.numpy(),
        labels=classes[labeled].numpy(),
        size=SIZE,
        seed=0,
    )
    figures = {
        "seconds": time.process_time() - begin,
        "wall_seconds": time.perf_counter() - wall,
        "peak_gigabytes": peak_gigabytes(),
        "peak_gigabytes_before": before,
        "num_distinct": len(set(chosen.tolist())),
        "num_classes_met": len(set(classes[chosen].tolist())),
    }
    say(json.dumps(figures))


def fresh(name: str, num_items: int, patience: float) -> dict[str, float]:
    """Measure one strategy in a process of its own, for so long on the clock."""
    code = f"import benchmarks.large_pool as b; b.worker({name!r}, {num_items})"
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=patience,
            cwd=Path(__file__).parents[1],
            env=os.environ | THREADS,
        )
    except subprocess.TimeoutExpired:
        return {"unfinished_after_wall_seconds": patience}
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def peak_gigabytes() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


def main() -> None:
    """Measure what was asked for, one after the other, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("strategies", nargs="*", default=list(strategies.names()))
    parser.add_argument("--items", type=int, default=NUM_ITEMS)
    parser.add_argument("--patience", type=float, default=1800, help="seconds each")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    if options.out.exists():
        found = json.loads(options.out.read_text())["strategies"]
    say(f"{'strategy':<18} {'seconds':>9} {'peak GB':>9}")
    for name in options.strategies:
        found[name] = fresh(name, options.items, options.patience)
        if "seconds" not in found[name]:
            say(f"{name:<18} more than {options.patience:.0f} s on the clock")
        else:
            seconds, peak = found[name]["seconds"], found[name]["peak_gigabytes"]
            say(f"{name:<18} {seconds:9.1f} {peak:9.2f}")
        figures = {
            "num_items": options.items,
            "num_features": NUM_FEATURES,
            "num_classes": NUM_CLASSES,
            "num_labeled": NUM_LABELED,
            "size": SIZE,
            "threads": 1,
            "strategies": {
                known: found[known] for known in strategies.names() if known in found
            },
        }
        options.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
