"""The head that ``init`` chooses for photographs, against two rivals.

Pools of 3,000 "photographs" of five classes are made from CIFAR-10: the first five
classes, enlarged to 96 x 96 pixels. In an uneven pool the classes have 1200, 800, 500,
300 and 200 images, in an order that the seed draws; in an even one 600 each. 20, 60 and
160 labels are drawn at random, or chosen by npc in three rounds (20, 40 and 100 more)
with ``frozen-linear`` as the model. On the same features and labels are compared:

- ``frozen-linear`` as ``init`` chooses it, class shares unknown;
- scikit-learn's LogisticRegression with its own defaults on standardized features;
- ``frozen-fixmatch-darp``, whose target is uniform.

Accuracy is that on 2,500 images of CIFAR-10's test split, 500 of each class; classes
weigh as much as in the pool. Other test images, and pools of other seeds, were
used to choose the method; nothing was changed after these runs.

Run ``FEWLABELS_DATA=DIR python benchmarks/default_head.py --cache FOLDER``, where DIR
holds ``cifar10.npz``; it goes on where it was interrupted. ``--table`` shows the table.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy import stats
from sklearn.linear_model import LogisticRegression

from fewlabels import rng, strategies, training
from fewlabels.augment import preset
from fewlabels.errors import FewlabelsWarning
from fewlabels.features import (
    FeatureCache,
    StoredViews,
    embedded,
    embedded_views,
    encoders,
    moments,
    read_rows,
)
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.protocols import Classifier
from fewlabels.training.frozen import FrozenInputs, FrozenViews
from fewlabels.training.training import Training

RESULTS = Path(__file__).parent / "results" / "default_head.jsonl"
POOLS = {"uneven": (1200, 800, 500, 300, 200), "even": (600,) * 5}
CLASSES = ("airplane", "automobile", "bird", "cat", "deer")
PER_CLASS, HELD_OUT, SIDE = 1400, 1000, 96
NUM_LABELS = (20, 60, 160)
METHODS = ("frozen-linear", "logistic", "frozen-fixmatch-darp")
SEEDS = tuple(range(10))
_DIGITS = 256


@dataclass(frozen=True, eq=False)
class Stored:
    """Features of all images: those to make pools of, then those held out."""

    clean: NDArray[Any]
    weak: NDArray[Any]
    strong: tuple[NDArray[Any], ...]
    labels: NDArray[Any]

    name = "efficientnet-lite0, stored"
    feature_size = 1280

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        """Look rows up; an image here is the number of its row."""
        digits = images.flatten(1).long()
        return read_rows(self.clean, digits[:, 0] * _DIGITS + digits[:, 1])

    @classmethod
    def made(cls, cache: FeatureCache) -> "Stored":
        """Embed what is not in the cache yet."""
        arrays = np.load(Path(os.environ["FEWLABELS_DATA"]) / "cifar10.npz")
        encoder = encoders.resolve("efficientnet-lite0")
        pixels, labels = photographs(arrays["x_train"], arrays["y_train"], PER_CLASS)
        held, held_labels = photographs(arrays["x_test"], arrays["y_test"], HELD_OUT)
        inputs = FrozenInputs()
        weak, strong = (
            embedded_views(
                *(pixels, encoder),
                settings=settings,
                num_views=number,
                key=0,
                cache=cache,
            )
            for settings, number in ((inputs.weak, 1), (preset("official"), 2))
        )
        clean = [embedded(some, encoder, cache=cache) for some in (pixels, held)]
        return cls(
            np.concatenate(clean),
            weak.arrays[0],
            strong.arrays,
            np.concatenate([labels, held_labels]),
        )


def photographs(
    pixels: NDArray[Any], labels: NDArray[Any], number: int
) -> tuple[ArrayImages, NDArray[Any]]:
    """Return the first images of each of five classes, enlarged, and their classes."""
    labels = labels.ravel()
    chosen = np.concatenate([np.flatnonzero(labels == c)[:number] for c in range(5)])
    large = [
        Image.fromarray(pixels[index]).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        for index in chosen
    ]
    stacked = torch.from_numpy(np.stack([np.asarray(one) for one in large]))
    return ArrayImages(stacked.permute(0, 3, 1, 2).contiguous()), labels[chosen]


def numbered(items: NDArray[Any]) -> ArrayImages:
    """Return images that hold nothing but the numbers of their rows."""
    digits = np.stack([items // _DIGITS, items % _DIGITS], axis=1).astype(np.uint8)
    return ArrayImages(torch.from_numpy(digits).reshape(-1, 1, 1, 2))


@dataclass(frozen=True, eq=False)
class Case:
    """One pool, and what it is measured on."""

    stored: Stored
    kind: str
    seed: int

    @cached_property
    def _counts(self) -> NDArray[Any]:
        random = np.random.default_rng((self.seed, 0))
        return random.permutation(POOLS[self.kind])

    @cached_property
    def items(self) -> NDArray[Any]:
        """Rows of the pool among all."""
        random = np.random.default_rng((self.seed, 1))
        labels = self.stored.labels[: 5 * PER_CLASS]
        parts = [
            random.permutation(np.flatnonzero(labels == number))[:count]
            for number, count in enumerate(self._counts)
        ]
        return np.sort(np.concatenate(parts))

    @cached_property
    def truth(self) -> torch.Tensor:
        """Classes of the pool's images."""
        return torch.from_numpy(self.stored.labels[self.items]).long()

    @cached_property
    def held_out(self) -> NDArray[Any]:
        """Rows that measure: the second half of each class's test images."""
        numbers = np.arange(HELD_OUT // 2, HELD_OUT)
        return np.concatenate(
            [5 * PER_CLASS + number * HELD_OUT + numbers for number in range(5)]
        )

    @cached_property
    def images(self) -> ArrayImages:
        """The pool's images."""
        return numbered(self.items)

    def pool(self, labeled: torch.Tensor) -> Pool:
        """Return the pool with some of its labels."""
        labels = torch.full_like(self.truth, UNKNOWN)
        labels[labeled] = self.truth[labeled]
        return Pool.build(self.images, labels, CLASSES)

    def accuracy(self, predicted: NDArray[Any]) -> float:
        """Return percent right, classes weighted as in the pool."""
        right = predicted == self.stored.labels[self.held_out]
        return float(
            100 * right.reshape(5, -1).mean(1) @ self._counts / sum(self._counts)
        )

    def measured(self, classifier: Classifier) -> float:
        """Return the held-out accuracy of a classifier."""
        images = numbered(self.held_out)
        logits = classifier.outputs(images, torch.arange(len(images))).logits
        return self.accuracy(logits.argmax(dim=1).numpy())


def linear(case: Case) -> Training:
    """Return the trainer that ``init`` chooses, over features that are there."""

    class Read(FrozenInputs):
        def of(self, pool: Pool, cache: str | None) -> Any:
            del cache
            # It has its rows already, and asks no cache.
            return FrozenViews(self, pool, case.stored, None)  # type: ignore[arg-type]

    return replace(training.make("frozen-linear"), inputs=Read())


def former(case: Case) -> Training:
    """Return FixMatch with DARP's uniform target, over features that are there."""
    stored, items = case.stored, case.items

    class Views(FrozenViews):
        rows = stored.clean[items]
        _weak = StoredViews((stored.weak[items],))
        _strong = StoredViews(tuple(one[items] for one in stored.strong))

    class Read(FrozenInputs):
        def of(self, pool: Pool, cache: str | None) -> Any:
            del cache
            # It has its rows already, and asks no cache.
            return Views(self, pool, stored, None)  # type: ignore[arg-type]

    trainer = training.make("frozen-fixmatch-darp", accelerator="cpu")
    return replace(trainer, inputs=Read())


def logistic(case: Case, pool: Pool) -> float:
    """Return the accuracy of scikit-learn's logistic regression with its defaults."""
    middle, deviation = moments(case.stored.clean[case.items])

    def rows(items: NDArray[Any]) -> NDArray[Any]:
        raw = read_rows(case.stored.clean, torch.from_numpy(items))
        return ((raw - middle) / deviation).numpy()

    labeled = pool.labeled.numpy()
    model = LogisticRegression(max_iter=1000)
    model.fit(rows(case.items[labeled]), pool.labels[pool.labeled].numpy())
    return case.accuracy(model.predict(rows(case.held_out)))


def label_sets(case: Case, chosen_by: str) -> Iterator[tuple[Pool, Classifier, float]]:
    """Yield pools with 20, 60 and 160 labels, and the default's model of each."""
    labeled = torch.empty(0, dtype=torch.int64)
    trainer, strategy = linear(case), strategies.resolve(chosen_by)
    classifier = trainer.fit(case.pool(labeled), rng.stream(case.seed, "train", 0))
    for step, wanted in enumerate(NUM_LABELS):
        size = wanted - len(labeled)
        draws = rng.stream(case.seed, "query", step)
        query = strategy.select(classifier, case.pool(labeled), size, draws)
        labeled = torch.cat([labeled, query.indices])
        pool = case.pool(labeled)
        begun = time.process_time()
        classifier = trainer.fit(pool, rng.stream(case.seed, "train", step))
        yield pool, classifier, time.process_time() - begun


def records(case: Case, chosen_by: str) -> Iterator[dict[str, Any]]:
    """Yield what each method reaches on each label set of a pool."""
    for step, (pool, classifier, seconds) in enumerate(label_sets(case, chosen_by)):
        begun = time.process_time()
        before = former(case).fit(pool, rng.stream(case.seed, "train", step))
        former_seconds = time.process_time() - begun
        found: dict[str, tuple[float, float | None]] = {
            "frozen-linear": (case.measured(classifier), seconds),
            "logistic": (logistic(case, pool), None),
            "frozen-fixmatch-darp": (case.measured(before), former_seconds),
        }
        for method, (accuracy, took) in found.items():
            yield {
                "pool": case.kind,
                "chosen_by": chosen_by,
                "labels": str(len(pool.labeled)),
                "method": method,
                "seed": case.seed,
                "accuracy": round(accuracy, 2),
                **({} if took is None else {"processor_seconds": round(took, 2)}),
                "class_counts": pool.class_counts,
            }


def run(cache: Path, out: Path) -> None:
    """Do what is missing, a line of the file per label set."""
    done = read(out)
    stored = Stored.made(FeatureCache(cache))
    for seed in SEEDS:
        for kind in POOLS:
            for chosen_by in ("random", "npc"):
                same = [one for one in done if key(one) == (kind, seed, chosen_by)]
                if len(same) == len(NUM_LABELS) * len(METHODS):
                    continue
                found = list(records(Case(stored, kind, seed), chosen_by))
                with out.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(one) + "\n" for one in found)
                print(json.dumps(found[-1]), flush=True)


def key(record: dict[str, Any]) -> tuple[str, int, str]:
    """Return which pool and choice a record is of."""
    return record["pool"], record["seed"], record["chosen_by"]


def read(path: Path) -> list[dict[str, Any]]:
    """Return all records."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def table(found: list[dict[str, Any]]) -> str:
    """Return the means, and the paired differences to both rivals, as Markdown."""
    head = "| pool, choice, labels | `frozen-linear` | logistic regression | "
    lines = [
        head + "`frozen-fixmatch-darp` | difference to logistic | to FixMatch |",
        "|---|---|---|---|---|---|",
    ]
    for kind in POOLS:
        for chosen_by in ("random", "npc"):
            for number in NUM_LABELS:
                own, *others = (
                    np.array(
                        [
                            one["accuracy"]
                            for one in found
                            if (one["pool"], one["chosen_by"], one["labels"])
                            == (kind, chosen_by, str(number))
                            and one["method"] == method
                        ]
                    )
                    for method in METHODS
                )
                means = [
                    f"{mean(one):.1f} ± {stdev(one):.1f}" for one in (own, *others)
                ]
                apart = [difference(own - other) for other in others]
                words = [f"{kind}, {chosen_by}, {number}", *means, *apart]
                lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines)


def difference(apart: NDArray[Any]) -> str:
    """Say a paired difference with its standard error and the p of a t test."""
    error = stdev(apart) / len(apart) ** 0.5
    p = float(stats.ttest_1samp(apart, 0).pvalue)
    return f"{mean(apart):+.1f} ± {error:.1f} (p = {p:.3f})".replace("-", "−")


def main() -> None:
    """Run what is missing, or print the table of what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("default-head-cache"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if not arguments.table:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewlabelsWarning)
            run(arguments.cache, arguments.out)
    print(table(read(arguments.out)))


if __name__ == "__main__":
    main()
