"""Our strategies and scikit-activeml's on the same problem, each in its own process.

    python benchmarks/peers.py                          badge and coreset
    python benchmarks/peers.py --pairs maxdet:Badge     ours : theirs, any others

The problem: ten class means N(0, I) in 128 dimensions, features
max(mean + 0.7 N(0, I), 0), 20,000 items, 50 of them labeled, 50 to choose, and
probabilities of 100 classes from a random linear layer. Both sides read the same files,
use one thread and are run once on a small problem first. Then the clock runs: five
times, or until a minute has passed. The ratio is that of processor time, which other
work on the machine disturbs less than it does the time on the clock. Memory is the
largest resident memory of the process less what it was before the clock ran at all.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUM_ITEMS, NUM_FEATURES, NUM_CLASSES = 20_000, 128, 100
NUM_LABELED, SIZE = 50, 50
MOST_RUNS, MOST_SECONDS = 5, 60.0
NUM_SMALL = 500
PAIRS = ("badge:Badge", "coreset:CoreSet")
THREADS = ("OMP", "OPENBLAS", "MKL", "NUMBA")
RESULT = Path(__file__).parent / "results" / "peers.json"
Arrays = dict[str, NDArray[Any]]


def write_problem(folder: Path, seed: int) -> None:
    """Write features, logits and labels, the same for both sides."""
    generator = np.random.default_rng(seed)
    means = generator.normal(size=(10, NUM_FEATURES))
    noise = generator.normal(size=(NUM_ITEMS, NUM_FEATURES))
    classes = generator.integers(10, size=NUM_ITEMS)
    features = np.maximum(means[classes] + 0.7 * noise, 0)
    layer = generator.normal(size=(NUM_FEATURES, NUM_CLASSES)) / NUM_FEATURES**0.5
    np.save(folder / "features.npy", features.astype(np.float32))
    np.save(folder / "logits.npy", (features @ layer).astype(np.float32))
    np.save(folder / "labels.npy", classes)


def read_problem(folder: Path, num_items: int) -> Arrays:
    """Return the first items of the problem; the first of those are labeled."""
    names = ("features", "logits", "labels")
    return {name: np.load(folder / f"{name}.npy")[:num_items] for name in names}


def our_side(strategy: str, arrays: Arrays) -> Callable[[], NDArray[Any]]:
    """Return a call of one of our strategies."""
    import torch  # the other side's process does without it

    from fewlabels import select

    torch.set_num_threads(1)
    labeled = np.arange(NUM_LABELED)
    return lambda: select(
        strategy,
        features=arrays["features"],
        logits=arrays["logits"],
        labeled=labeled,
        labels=arrays["labels"][labeled],
        size=SIZE,
        seed=0,
    )


def their_side(strategy: str, arrays: Arrays) -> Callable[[], NDArray[Any]]:
    """Return a call of one of scikit-activeml's strategies."""
    from skactiveml import pool  # our side's process does without it
    from skactiveml.classifier import ParzenWindowClassifier

    powers = np.exp(arrays["logits"] - arrays["logits"].max(axis=1, keepdims=True))
    probabilities = powers / powers.sum(axis=1, keepdims=True)

    class Known(ParzenWindowClassifier):
        """Knows the probabilities of all unlabeled items beforehand, at no cost."""

        def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
            """Return them; all unlabeled items are asked about, in their order."""
            return probabilities[-len(X) :]

    labels = arrays["labels"].astype(np.float64)
    labels[NUM_LABELED:] = np.nan
    peer = getattr(pool, strategy)(random_state=0)
    wants_classifier = "clf" in signature(peer.query).parameters
    clf = {"clf": Known(), "fit_clf": False} if wants_classifier else {}
    return lambda: peer.query(X=arrays["features"], y=labels, batch_size=SIZE, **clf)


def worker(side: str, strategy: str, folder: str) -> None:
    """Measure one side in this process and print the figures as JSON."""
    make = {"ours": our_side, "theirs": their_side}[side]
    make(strategy, read_problem(Path(folder), NUM_SMALL))()
    arrays = read_problem(Path(folder), NUM_ITEMS)
    call = make(strategy, arrays)
    before = peak_megabytes()
    seconds: list[float] = []
    processor: list[float] = []
    chosen: NDArray[Any] = np.empty(0)
    while len(seconds) < MOST_RUNS and sum(seconds) < MOST_SECONDS:
        begin, begin_processor = time.perf_counter(), time.process_time()
        chosen = np.asarray(call())
        seconds.append(time.perf_counter() - begin)
        processor.append(time.process_time() - begin_processor)
    figures = {
        "strategy": strategy,
        "seconds": seconds,
        "processor_seconds": processor,
        "peak_megabytes": peak_megabytes() - before,
        "num_distinct": len(set(chosen.tolist())),
        "radius": radius(arrays["features"], chosen),
    }
    print(json.dumps(figures), flush=True)


def radius(features: NDArray[Any], chosen: NDArray[Any]) -> float:
    """Largest distance of an item to the nearest labeled or chosen one."""
    centers = features[np.concatenate([np.arange(NUM_LABELED), chosen])]
    squares = (features**2).sum(axis=1)[:, None] + (centers**2).sum(axis=1)
    distances = squares - 2 * features @ centers.T
    return float(np.sqrt(distances.min(axis=1).max()))


def peak_megabytes() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def measured(side: str, strategy: str, folder: str) -> dict[str, Any]:
    """Measure one side in a fresh process with one thread."""
    code = f"import benchmarks.peers as b; b.worker({side!r}, {strategy!r}, {folder!r})"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
        env=os.environ | {f"{name}_NUM_THREADS": "1" for name in THREADS},
    )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{side:<7} {strategy:<12} {median(figures['seconds']):8.3f} s on the clock, "
        f"{median(figures['processor_seconds']):8.3f} s of processor, "
        f"{figures['peak_megabytes']:7.1f} MB, {figures['num_distinct']} of {SIZE} "
        f"distinct, radius {figures['radius']:.3f}",
        flush=True,
    )
    return figures


def main() -> None:
    """Measure every pair, print the ratios and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", nargs="+", default=PAIRS, metavar="OURS:THEIRS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    figures: dict[str, Any] = {
        "num_items": NUM_ITEMS,
        "num_features": NUM_FEATURES,
        "num_classes": NUM_CLASSES,
        "num_labeled": NUM_LABELED,
        "size": SIZE,
        "seed": options.seed,
    }
    with tempfile.TemporaryDirectory() as folder:
        write_problem(Path(folder), options.seed)
        for pair in options.pairs:
            names = zip(("ours", "theirs"), pair.split(":"), strict=True)
            sides = {side: measured(side, name, folder) for side, name in names}
            ours, theirs = sides["ours"], sides["theirs"]
            faster = median(theirs["processor_seconds"]) / median(
                ours["processor_seconds"]
            )
            smaller = theirs["peak_megabytes"] / max(1.0, ours["peak_megabytes"])
            print(f"{pair}: {faster:.1f} x faster, {smaller:.1f} x less memory")
            figures[pair] = sides | {"faster": faster, "less_memory": smaller}
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
