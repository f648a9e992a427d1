"""Do labels that are confirmed on grids of predictions ever hurt?

    FEWLABELS_DATA=DIR OMP_NUM_THREADS=1 python -m benchmarks.confirmed

In each of 20 pools of 4,000 images of CIFAR-10, seen by EfficientNet-Lite0 at 160
pixels, 60, 150 and 300 images are labeled in rounds of 30: the first at random, then by
the trace form of ``outward`` on the learner's own kernel. ``blend`` learns from them.
Then somebody who makes no mistakes looks at a grid of 60 predictions for each class, or
only for the three classes that have the fewest labels: what is right is confirmed, what
is wrong gets its class. Grids show typical predictions, which together say most about
all other images, as the page does, or doubtful or sure ones first.
``blend`` learns again, as in a project: from all labels, but from confirmed ones only
up to twice the median of the classes. In the first five pools it also learns without
that limit, and from all but the confirmed ones. Pools are even, or uneven: class sizes
fall by a factor of 20, in another order of the classes each time. The change of the
accuracy on 2,000 test images is recorded in points: with classes counted equally, and
with the shares that they have in the pool. Pools that are in the record are not
measured again. 20 minutes on one core once features are stored.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t as student
from torch import Tensor

from fewlabels import data, rng, strategies, training
from fewlabels.experiments.bench.recipes import long_tail
from fewlabels.models.cache import FeatureCache
from fewlabels.models.efficientnet import efficientnet_lite0
from fewlabels.models.embedding import embedded
from fewlabels.pool import UNKNOWN, Answers, ArrayImages, Images, Pool, Split
from fewlabels.projects.snapshot import limit_confirmed
from fewlabels.protocols import Classifier

RESULT = Path(__file__).parent / "results" / "confirmed.json"
NUM_SEEDS, NUM_COMPARED, NUM_CLASSES, NUM_TESTS = 20, 5, 10, 200
PLACE = ("pool", "labels", "order", "grids", "learns_from")
NUM_LABELS, ROUND, GRID, NUM_RAREST = (60, 150, 300), 30, 60, 3
SIZES = {
    "even": [400] * NUM_CLASSES,
    "uneven": long_tail(1174, num_classes=NUM_CLASSES),
}
COVERING = strategies.resolve("v-opt", {"kernel": "joint", "noise": 0.3})
OUTWARD = strategies.resolve("v-opt", {"kernel": "joint", "power": 2.0, "noise": 0.3})
HEAD = training.make("blend")

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Source:
    """CIFAR-10 as rows of features."""

    def __init__(self) -> None:
        """Embed all images, or find their rows where they were stored before."""
        whole = data.load("cifar10")
        assert whole.test is not None
        self.rows, self.tests = rows(whole.images), rows(whole.test.images)
        self.labels, self.test_labels = whole.labels, whole.test.labels
        self.classes = whole.classes

    def pool(self, sizes: list[int], seed: int) -> tuple[Pool, Tensor]:
        """Return a pool without labels, with even test images, and its true labels."""
        draws = np.random.default_rng(seed)
        items = some(self.labels, sizes, draws)
        tests = some(self.test_labels, [NUM_TESTS] * len(sizes), draws)
        truth = self.labels[items]
        pool = Pool.build(
            ArrayImages(self.rows[items]),
            torch.full_like(truth, UNKNOWN),
            self.classes,
            test=Split(ArrayImages(self.tests[tests]), self.test_labels[tests]),
        )
        return pool, truth


def rows(images: Images) -> Tensor:
    """Return features of all images."""
    encoder, cache = efficientnet_lite0(160), FeatureCache.of_this_user()
    found = np.asarray(embedded(images, encoder, cache=cache))
    return torch.from_numpy(found.astype(np.float32))


def some(labels: Tensor, sizes: list[int], draws: np.random.Generator) -> Tensor:
    """Return so many random items of each class, shuffled."""
    members = [np.flatnonzero(labels.numpy() == c) for c in range(len(sizes))]
    parts = [
        draws.choice(own, size, replace=False)
        for own, size in zip(members, sizes, strict=True)
    ]
    return torch.from_numpy(draws.permutation(np.concatenate(parts)))


def fitted(pool: Pool) -> Classifier:
    """Learn from the labels of a pool."""
    return HEAD.fit(pool, rng.stream(0, "confirmed"))


def recalls(model: Classifier, pool: Pool) -> Floats:
    """Return the share of test images of each class that a model is right about."""
    assert pool.test is not None
    items = torch.arange(len(pool.test))
    is_right = model.outputs(pool.test.images, items).logits.argmax(dim=1)
    is_right = (is_right == pool.test.labels).double()
    own = [is_right[pool.test.labels == c].mean() for c in range(pool.num_classes)]
    return torch.stack(own).numpy()


def asked(pool: Pool, truth: Tensor, seed: int) -> Iterator[Pool]:
    """Yield the pool with 60, 150 and 300 labels that a strategy asked for."""
    for step in range(NUM_LABELS[-1] // ROUND):
        draws = rng.stream(seed, "ask", step)
        order = torch.randperm(len(pool.candidates), generator=draws)
        items = pool.candidates[order[:ROUND]]
        if step:
            items = OUTWARD.select(fitted(pool), pool, ROUND, draws).indices
        pool = pool.with_answers(Answers(items, truth[items]))
        if len(pool.labeled) in NUM_LABELS:
            yield pool


def grids(
    pool: Pool, model: Classifier, shares: Floats, classes: Integers, order: str
) -> Integers:
    """Return the images on the first grids of each of some classes."""
    free, guesses, sure = pool.candidates.numpy(), shares.argmax(1), shares.max(1)
    free = free[np.argsort(sure[free], kind="stable")]
    free = free[::-1] if order == "surest first" else free
    found = []
    for number in classes:
        own = free[guesses[free] == number]
        if order == "typical" and len(own):
            only = replace(pool, candidates=torch.from_numpy(np.sort(own)))
            draws = rng.stream(0, "grid")
            size = min(GRID, len(own))
            own = COVERING.select(model, only, size, draws).indices.numpy()
        found.append(own[:GRID])
    return np.concatenate(found)


def changes(
    pool: Pool, truth: Tensor, *, is_compared: bool
) -> Iterator[tuple[tuple[str, ...], list[float]]]:
    """Yield what grids change: order, classes and rule, and what was seen of them."""
    model = fitted(pool)
    logits = model.outputs(pool.images, torch.arange(len(pool))).logits
    shares, before = logits.double().softmax(dim=1).numpy(), recalls(model, pool)
    mix = torch.bincount(truth, minlength=pool.num_classes).double().numpy()
    guesses = torch.from_numpy(shares.argmax(axis=1))
    rarest = np.argsort(pool.class_counts, kind="stable")[:NUM_RAREST]
    for order in ("typical", "doubtful first", "surest first"):
        for which, classes in (("all", np.arange(NUM_CLASSES)), ("rarest", rarest)):
            shown = torch.from_numpy(grids(pool, model, shares, classes, order))
            is_right = guesses[shown] == truth[shown]
            wrong = shown[~is_right]
            labels = pool.labels.clone()
            labels[shown] = truth[shown]
            known = [None if label == UNKNOWN else label for label in labels.tolist()]
            kept = limit_confirmed(known, shown[is_right].tolist())
            limited = shown[[kept[item] is not None for item in shown.tolist()]]
            rules = {"a project": limited, "all labels": shown, "corrections": wrong}
            for rule, items in list(rules.items())[: 3 if is_compared else 1]:
                answers = Answers(items, truth[items])
                after = recalls(fitted(pool.with_answers(answers)), pool) - before
                even, own = 100 * after.mean(), 100 * after @ mix / mix.sum()
                right = 100 * (1 - len(wrong) / max(len(shown), 1))
                seen = [even, own, 100 * before.mean(), right]
                yield (order, which, rule), [float(number) for number in seen]


def summary(found: list[list[float]]) -> dict[str, Any]:
    """Return means, 95 % intervals of the changes, and the changes in each pool."""
    even, own, before, right = np.array(found).T
    told: dict[str, Any] = {"before": round(float(before.mean()), 2)}
    told["right"] = round(float(right.mean()), 1)
    for name, values in (("even", even), ("own_mix", own)):
        error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
        half = error * float(student.ppf(0.975, max(len(values) - 1, 1)))
        numbers = (values.mean(), values.mean() - half, values.mean() + half)
        told[name] = [round(float(number), 2) for number in numbers]
    told["changes"] = [
        {"even": round(float(one), 2), "own_mix": round(float(other), 2)}
        for one, other in zip(even, own, strict=True)
    ]
    return told


def recorded() -> tuple[int, dict[tuple[str, ...], list[list[float]]]]:
    """Return how many pools are in the record, and what was seen of them."""
    found: dict[tuple[str, ...], list[list[float]]] = defaultdict(list)
    if not RESULT.exists():
        return 0, found
    record = json.loads(RESULT.read_text("utf-8"))
    for cell in record["cells"]:
        rest = [cell["before"], cell["right"]]  # of single pools, means are kept alone
        place = tuple(cell[name] for name in PLACE)
        found[place] = [[*one.values(), *rest] for one in cell["changes"]]
    return record["seeds"], found


def main() -> None:
    """Measure the pools that the record lacks, writing it after each."""
    torch.set_num_threads(1)
    source = Source()
    num_done, found = recorded()
    for seed in range(num_done, NUM_SEEDS):
        for kind, sizes in SIZES.items():
            order = np.random.default_rng(seed).permutation(NUM_CLASSES)
            pool, truth = source.pool([sizes[number] for number in order], seed)
            for labeled in asked(pool, truth, seed):
                place = (kind, str(len(labeled.labeled)))
                is_compared = seed < NUM_COMPARED
                for case, seen in changes(labeled, truth, is_compared=is_compared):
                    found[*place, *case].append(seen)
        cells = [
            dict(zip(PLACE, place, strict=True)) | summary(seen)
            for place, seen in found.items()
        ]
        record = {"images": 4000, "seeds": seed + 1, "grid": GRID, "cells": cells}
        lines = json.dumps(record).replace('{"pool"', '\n{"pool"')
        RESULT.write_text(lines + "\n", "utf-8")
        print(f"{seed + 1} of {NUM_SEEDS}", flush=True)


if __name__ == "__main__":
    main()
