"""Seconds and memory of strategies at a million items, each in a fresh process.

    python benchmarks/million.py                 the usual six, table and JSON
    python benchmarks/million.py margin ev-gp --out few.json    others, kept elsewhere

The problem: ten class means N(0, I) in 128 dimensions, features
max(mean + 0.7 N(0, I), 0) and the 100 logits of a random linear layer, both float32 and
in memory (0.85 GB), 50 items labeled, 20 to choose. The peak is the process's largest
resident memory, inputs and libraries included; seconds are those of
``fewlabels.select`` alone.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

import fewlabels
from fewlabels.rng import stream

NUM_ITEMS, NUM_FEATURES, NUM_CLASSES = 1_000_000, 128, 100
NUM_MEANS, NUM_LABELED, SIZE = 10, 50, 20
CHUNK = 50_000
USUAL = ("badge", "coreset", "margin", "maxdet", "npc", "typiclust")
RESULT = Path(__file__).parent / "results" / "million.json"


def problem(num_items: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return features, logits and class numbers, made in chunks."""
    generator = stream(0, "million")
    means = torch.randn(NUM_MEANS, NUM_FEATURES, generator=generator)
    layer = torch.randn(NUM_FEATURES, NUM_CLASSES, generator=generator)
    layer /= NUM_FEATURES**0.5
    classes = torch.randint(NUM_MEANS, (num_items,), generator=generator)
    features = torch.empty(num_items, NUM_FEATURES)
    logits = torch.empty(num_items, NUM_CLASSES)
    for start in range(0, num_items, CHUNK):
        part = slice(start, start + CHUNK)
        noise = torch.randn(len(classes[part]), NUM_FEATURES, generator=generator)
        features[part] = (means[classes[part]] + 0.7 * noise).clamp_min(0)
        logits[part] = features[part] @ layer
    return features, logits, classes


def worker(name: str, num_items: int) -> None:
    """Choose once and print the figures as JSON."""
    torch.set_num_threads(1)
    features, logits, classes = problem(num_items)
    labeled = torch.randperm(num_items, generator=stream(0, "labeled"))[:NUM_LABELED]
    before = peak_gigabytes()
    begin = time.perf_counter()
    chosen = fewlabels.select(
        name,
        features=features.numpy(),
        logits=logits.numpy(),
        labeled=labeled.numpy(),
        labels=classes[labeled].numpy(),
        size=SIZE,
        seed=0,
    )
    seconds = time.perf_counter() - begin
    figures = {
        "seconds": seconds,
        "peak_gigabytes": peak_gigabytes(),
        "peak_gigabytes_before": before,
        "num_distinct": len(set(chosen.tolist())),
    }
    say(json.dumps(figures))


def fresh(name: str, num_items: int) -> dict[str, float]:
    """Measure one strategy in a process of its own."""
    code = f"import benchmarks.million as b; b.worker({name!r}, {num_items})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
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
    parser.add_argument("strategies", nargs="*", default=list(USUAL))
    parser.add_argument("--items", type=int, default=NUM_ITEMS)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    say(f"{'strategy':<18} {'seconds':>9} {'peak GB':>9}")
    found = {}
    for name in options.strategies:
        found[name] = fresh(name, options.items)
        peak = found[name]["peak_gigabytes"]
        say(f"{name:<18} {found[name]['seconds']:9.1f} {peak:9.2f}")
    figures = {
        "num_items": options.items,
        "num_features": NUM_FEATURES,
        "num_classes": NUM_CLASSES,
        "num_labeled": NUM_LABELED,
        "size": SIZE,
        "threads": 1,
        "strategies": found,
    }
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
