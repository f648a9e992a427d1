"""A linear probe on frozen features of CIFAR-10: what a head begins with on a laptop.

10,000 training images and 2,000 test images are embedded once by a pretrained encoder
into a cache (with ``--views`` also one weak and two strong views of each training
image, for training a head by FixMatch). Then logistic regression is fitted to 40 and
100 random labels of five seeds; its strength is chosen by cross-validation among the
labeled items, where each class has two of them at least.

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
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import fewlabels
from fewlabels import rng
from fewlabels.augment import WeakAugment, preset
from fewlabels.data.derived import ChosenImages
from fewlabels.features import (
    FeatureCache,
    embedded,
    embedded_views,
    encoders,
    moments,
    read_rows,
)
from fewlabels.features.encoders import Encoder
from fewlabels.files import replace_text
from fewlabels.pool import Pool

NUM_TRAIN, NUM_TEST = 10_000, 2_000
NUM_LABELS = (40, 100)
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
USUAL_STRENGTH = 1e-2
NUM_FOLDS = 5
NUM_TIMED = 256
VIEWS_KEY = 0


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
    rows = embedded(pool.images, pool.ids, encoder, cache=cache)
    test_rows = embedded(test_images, (), encoder, cache=cache)
    middle, deviation = moments(rows)
    everything = torch.arange(NUM_TRAIN)
    scaled = ((read_rows(rows, everything) - middle) / deviation).numpy()
    tests = torch.arange(NUM_TEST)
    test_scaled = ((read_rows(test_rows, tests) - middle) / deviation).numpy()
    labels, test_labels = pool.labels.numpy(), pool.test.labels[:NUM_TEST].numpy()
    found: dict[str, Any] = {}
    for num_labels in NUM_LABELS:
        runs = []
        for seed in range(5):
            draws = rng.stream(seed, "frozen probe labels")
            order = torch.randperm(NUM_TRAIN, generator=draws)[:num_labels].numpy()
            model = probe(scaled, labels, order)
            share = model.score(test_scaled, test_labels)
            runs.append({"accuracy": 100 * share, "C": model.C})
        found[str(num_labels)] = runs
    return found


def embed_views(pool: Pool, encoder: Encoder, cache: FeatureCache) -> None:
    """Embed one weak and two strong views of each training image."""
    for settings, num_views in ((WeakAugment(flip=True), 1), (preset("official"), 2)):
        embedded_views(
            pool.images,
            pool.ids,
            encoder,
            settings=settings,
            num_views=num_views,
            key=VIEWS_KEY,
            cache=cache,
        )


def summary(record: Mapping[str, Any]) -> str:
    """Return the table."""
    lines = [
        f"{record['encoder']}: CIFAR-10, {NUM_TRAIN:,} + {NUM_TEST:,} images",
        "ms per image and core: "
        + ", ".join(f"{ms:.1f} at {size}" for size, ms in record["cost"].items()),
    ]
    for num_labels, runs in record["probes"].items():
        shares = [run["accuracy"] for run in runs]
        each = " ".join(
            f"{share:.1f} (C {run['C']:g})"
            for share, run in zip(shares, runs, strict=True)
        )
        lines.append(
            f"{num_labels:>4} labels {mean(shares):5.1f} ± {stdev(shares):.1f}   {each}"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure the cost, embed, probe, write and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True, help="folder for the rows")
    parser.add_argument("--encoder", default="efficientnet-lite0")
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--views", action="store_true", help="embed the views as well")
    parser.add_argument("--out", type=Path, default=Path("frozen_probe.json"))
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
    record["probes"] = measured(pool, encoder, cache)
    record["seconds"] = time.perf_counter() - started
    if arguments.views:
        embed_views(pool, encoder, cache)
    replace_text(arguments.out, json.dumps(record, indent=1))
    print(summary(record))


if __name__ == "__main__":
    main()
