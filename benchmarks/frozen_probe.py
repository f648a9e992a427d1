"""A head trained by FixMatch against a linear probe, on frozen features of CIFAR-10.

10,000 training images, one weak and two strong views of each, and 2,000 test images are
embedded once by a pretrained encoder into a cache. On 40 and 100 random labels of five
seeds, logistic regression is fitted (its strength chosen by cross-validation among the
labeled items, where each class has two of them at least), and heads are trained by the
trainers ``frozen-...`` with their settings for small budgets. Nothing was tuned here.

Run ``python benchmarks/frozen_probe.py --cache FOLDER``; what is in the cache is not
embedded again.
"""

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import fewlabels
from fewlabels import rng, training
from fewlabels.data.derived import ChosenImages
from fewlabels.evaluation import accuracy
from fewlabels.features import FeatureCache, embedded, encoders, moments, read_rows
from fewlabels.features.encoders import Encoder
from fewlabels.files import replace_text
from fewlabels.loop import hidden
from fewlabels.pool import Answers, Pool, Split

NUM_TRAIN, NUM_TEST = 10_000, 2_000
NUM_LABELS = (40, 100)
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
USUAL_STRENGTH = 1e-2
NUM_FOLDS = 5
NUM_TIMED = 256
NUM_SEEDS = 5
OUTPUT = Path(__file__).parent / "results" / "frozen_probe.json"
TRAINERS = ("frozen-supervised", "frozen-fixmatch", "frozen-fixmatch-darp")


def chosen_pool() -> Pool:
    """Return 10,000 images of CIFAR-10 to label, chosen once and for all."""
    whole = fewlabels.load("cifar10")
    order = torch.randperm(len(whole), generator=rng.stream(0, "frozen probe"))
    kept = order[:NUM_TRAIN].sort().values
    return Pool.build(
        ChosenImages(whole.images, kept),
        whole.labels[kept],
        whole.classes,
        ids=[whole.ids[index] for index in kept.tolist()],
        test=whole.test,
    )


def cost(name: str, images: torch.Tensor) -> dict[str, float]:
    """Return milliseconds of one core per image at two sizes, the least of three."""
    found = {}
    for size in (64, 96):
        encoder = encoders.resolve(name, size=size)
        encoder.embed(images)
        seconds = []
        for _ in range(3):
            started = time.process_time()
            encoder.embed(images)
            seconds.append(time.process_time() - started)
        found[f"{size} px"] = 1000 * min(seconds) / len(images)
    return found


def probe(
    rows: NDArray[Any], labels: NDArray[Any], order: NDArray[Any]
) -> LogisticRegression:
    """Fit logistic regression to some labeled rows."""
    counts = np.bincount(labels[order])
    num_folds = min(NUM_FOLDS, int(counts[counts > 0].min()))
    if num_folds < 2:
        model = LogisticRegression(C=USUAL_STRENGTH, max_iter=2000)
        return model.fit(rows[order], labels[order])
    search = GridSearchCV(
        LogisticRegression(max_iter=2000),
        {"C": STRENGTHS},
        cv=StratifiedKFold(num_folds, shuffle=True, random_state=0),
    )
    found: LogisticRegression = search.fit(rows[order], labels[order]).best_estimator_
    return found


def measured(pool: Pool, encoder: Encoder, cache: FeatureCache) -> dict[str, Any]:
    """Return the accuracies of all probes."""
    assert pool.test is not None
    test_images = ChosenImages(pool.test.images, torch.arange(NUM_TEST))
    rows = embedded(pool.images, encoder, cache=cache)
    test_rows = embedded(test_images, encoder, cache=cache)
    middle, deviation = moments(rows)
    everything = torch.arange(NUM_TRAIN)
    scaled = ((read_rows(rows, everything) - middle) / deviation).numpy()
    tests = torch.arange(NUM_TEST)
    test_scaled = ((read_rows(test_rows, tests) - middle) / deviation).numpy()
    labels, test_labels = pool.labels.numpy(), pool.test.labels[:NUM_TEST].numpy()
    found: dict[str, Any] = {}
    for num_labels in NUM_LABELS:
        runs = []
        for seed in range(NUM_SEEDS):
            order = labeled_items(seed, num_labels).numpy()
            model = probe(scaled, labels, order)
            share = model.score(test_scaled, test_labels)
            runs.append({"accuracy": 100 * share, "C": model.C})
        found[str(num_labels)] = runs
    return found


def labeled_items(seed: int, num_labels: int) -> torch.Tensor:
    """Return the items that are labeled; more labels begin with the fewer."""
    draws = rng.stream(seed, "frozen probe labels")
    return torch.randperm(NUM_TRAIN, generator=draws)[:num_labels]


def heads(pool: Pool, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the accuracies of all heads, and the seconds that one takes."""
    assert pool.test is not None
    tests = torch.arange(NUM_TEST)
    test = Split(ChosenImages(pool.test.images, tests), pool.test.labels[:NUM_TEST])
    found: dict[str, Any] = {}
    for num_labels in NUM_LABELS:
        for name in TRAINERS:
            runs = []
            for seed in range(NUM_SEEDS):
                items = labeled_items(seed, num_labels)
                known = Answers(items, pool.labels[items])
                trainer = training.resolve(name, {**options, "accelerator": "cpu"})
                started = time.perf_counter()
                classifier = trainer.fit(
                    hidden(pool, num_labels).with_answers(known),
                    rng.stream(seed, "train", 0),
                )
                seconds = time.perf_counter() - started
                runs.append(
                    {"accuracy": 100 * accuracy(classifier, test), "seconds": seconds}
                )
                print(num_labels, name, seed, runs[-1], flush=True)
            found.setdefault(str(num_labels), {})[name] = runs
    return found


def summary(record: Mapping[str, Any]) -> str:
    """Return the table; differences are to the probe on the same labels."""
    costs = ", ".join(f"{ms:.1f} at {size}" for size, ms in record["cost"].items())
    lines = [
        f"{record['encoder']}: CIFAR-10, {NUM_TRAIN:,} + {NUM_TEST:,} images",
        f"ms per image and core: {costs}",
    ]
    for num_labels, found in record["heads"].items():
        base = [run["accuracy"] for run in found["linear probe"]]
        for name, runs in found.items():
            shares = [run["accuracy"] for run in runs]
            gains = [a - b for a, b in zip(shares, base, strict=True)]
            line = f"{num_labels:>4} labels {name:21} {mean(shares):5.1f}"
            line += f" ± {stdev(shares):.1f}"
            if any(gains):
                p_value = stats.ttest_1samp(gains, 0).pvalue
                line += f"   {mean(gains):+.1f} to the probe (p {p_value:.3f})"
            lines.append(line)
    return "\n".join(lines)


def main() -> None:
    """Measure the cost, embed, probe, write and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True, help="folder for the rows")
    parser.add_argument("--encoder", default="efficientnet-lite0")
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--out", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pool, cache = chosen_pool(), FeatureCache(arguments.cache)
    encoder = encoders.resolve(arguments.encoder, size=arguments.size)
    images = pool.images.read(torch.arange(NUM_TIMED))
    record: dict[str, Any] = {
        "encoder": encoder.name,
        "cost": cost(arguments.encoder, images),
    }
    started = time.perf_counter()
    probes = measured(pool, encoder, cache)
    record["seconds"] = time.perf_counter() - started
    options = {
        "encoder": arguments.encoder,
        "encoder_options": {"size": arguments.size},
        "cache": str(arguments.cache),
    }
    record["heads"] = {
        num_labels: {"linear probe": probes[num_labels], **found}
        for num_labels, found in heads(pool, options).items()
    }
    replace_text(arguments.out, json.dumps(record, indent=1) + "\n")
    print(summary(record))


if __name__ == "__main__":
    main()
