"""Do the intervals of a project hold, and may one stop when it advises to?

    FEWLABELS_DATA=DIR OMP_NUM_THREADS=1 python -m benchmarks.stopping

**Looks.** 2,000 simulated projects for each way in which models may change: checks come
one by one, somebody looks after each of 200 of them, and a new model comes every 20 or
every 5 of them. Errors of models are the same, half independent or independent. Counted
is where the true accuracy was outside at any look.

**One look.** ``blend`` learns from 60 or 120 random labels among 3,000 images of
CIFAR-10 and CIFAR-100 (its 20 superclasses), seen by EfficientNet-Lite0 at 160 pixels,
and among the digits. 20, 30 or 60 checks are drawn 500 times from the other images, of
six pools each: how often is the share of right ones in the exact interval, and in that
sharpened by confidences?

**Projects.** Pools of 2,000 to 4,000 images of CIFAR-10, CIFAR-100 (3 to 15 of the
superclasses), Fashion-MNIST and MNIST (their pixels) are labeled in rounds of 20, up to
300 labels, at random or by the default strategy, with 60 random checks. Compared are
the stated gain of the next round and that on 2,000 test images, and the accuracy when
the project advises to stop and at the end. Nothing was chosen on these pools: neither
``measurement.GAINED``, found on pools of the first three data sets, nor ``SPREAD``,
found on 20 pools (seeds from 1000) of CIFAR-10, Fashion-MNIST and MNIST, nor the
threshold ``LITTLE``, lowered after a larger one had lost 1.84 points on earlier pools.
``in_once`` counts the shorter interval that a project states: sharpened while at most a
tenth of the images have labels, then exact.

A quarter of an hour on one core once features are stored.
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri

from fewlabels import data, rng, strategies, training
from fewlabels.experiments.evaluation import measurement
from fewlabels.models.cache import FeatureCache
from fewlabels.models.efficientnet import efficientnet_lite0
from fewlabels.models.embedding import embedded
from fewlabels.names import DEFAULT_STRATEGY
from fewlabels.pool import UNKNOWN, Answers, ArrayImages, Images, Pool, Split

RESULT = Path(__file__).parent / "results" / "stopping.json"
HEAD, STRATEGY = training.make("blend"), strategies.resolve(DEFAULT_STRATEGY, {})
DATA_SETS, NUM_PROJECTS = ("cifar10", "cifar100", "fashion-mnist", "mnist"), 25
ROUND, MOST_LABELS, NUM_CHECKS, NUM_TESTS = 20, 300, 60, 2000
FIRST_SEED = 100  # earlier pools had a part in choosing

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Source(NamedTuple):
    """A data set as rows."""

    rows: Floats
    labels: Integers
    test_rows: Floats
    test_labels: Integers


@cache
def source(name: str) -> Source:
    """Return a data set: features of photographs, pixels of others."""
    whole = data.load(name)
    assert whole.test is not None
    labels, tests = whole.labels.numpy(), whole.test.labels.numpy()
    if name == "cifar100":
        place = Path(os.environ["FEWLABELS_DATA"]) / "cifar100.npz"
        coarse = np.load(place)["coarse_of_fine"]
        labels, tests = coarse[labels], coarse[tests]
    make = features if name.startswith("cifar") else pixels
    return Source(make(whole.images), labels, make(whole.test.images), tests)


def features(images: Images) -> Any:
    """Return features of all images."""
    encoder, kept = efficientnet_lite0(160), FeatureCache.of_this_user()
    return embedded(images, encoder, cache=kept)


def pixels(images: Images) -> Any:
    """Return pixels of all images, from 0 to 1."""
    items = images.read(torch.arange(len(images)))
    return items.flatten(1).numpy().astype(np.float32) / 255


@dataclass(frozen=True)
class Round:
    """What is known after a round of a project."""

    num_labeled: int
    changed: float
    """Share of the images without a label whose prediction changed."""
    is_right: list[bool]
    """Of each check."""
    confidences: measurement.Confidences
    accuracy: float
    """On test images."""

    @property
    def num_images(self) -> int:
        """Images that are no checks."""
        return self.num_labeled + self.confidences.num_images


def rounds(name: str, seed: int, *, is_chosen: bool) -> Iterator[Round]:
    """Yield the rounds of a project; labels are chosen by the strategy or random."""
    draws, whole = np.random.default_rng(seed), source(name)
    num_classes = int(draws.integers(3, 16)) if name == "cifar100" else 10
    classes = draws.permutation(int(whole.labels.max()) + 1)[:num_classes]
    size = int(draws.integers(2000, 4001))
    items = draw(whole.labels, classes, size, draws)
    tests = draw(whole.test_labels, classes, NUM_TESTS, draws)
    truth, test_truth = (
        torch.from_numpy(np.argsort(classes)[np.searchsorted(np.sort(classes), found)])
        for found in (whole.labels[items], whole.test_labels[tests])
    )
    pool = pool_of(whole.rows[items], truth, num_classes)
    test = Split(ArrayImages(as_rows(whole.test_rows[tests])), test_truth)
    checks = torch.from_numpy(draws.permutation(size)[:NUM_CHECKS])
    is_check = torch.zeros(size, dtype=torch.bool)
    is_check[checks] = True
    pool = replace(pool, candidates=pool.candidates[~is_check[pool.candidates]])
    model, before = None, None
    for step in range(MOST_LABELS // ROUND):
        generator = rng.stream(seed, "ask", step)
        order = torch.randperm(len(pool.candidates), generator=generator)
        asked = pool.candidates[order[:ROUND]]
        if model is not None and is_chosen:
            asked = STRATEGY.select(model, pool, ROUND, generator).indices
        pool = pool.with_answers(Answers(asked, truth[asked]))
        model = HEAD.fit(pool, rng.stream(0, "fit"))
        logits = model.outputs(pool.images, torch.arange(size)).logits
        sure, now = logits.double().softmax(dim=1).max(dim=1)
        free = pool.candidates
        guesses = model.outputs(test.images, torch.arange(len(test))).logits.argmax(1)
        is_other = torch.ones(1) if before is None else (now != before)[free].float()
        yield Round(
            len(pool.labeled),
            float(is_other.mean()),
            (now == truth)[checks].tolist(),
            measurement.Confidences(
                checks=sure[checks].tolist(),
                mean=float(sure[free].mean()),
                num_images=len(free),
            ),
            float((guesses == test_truth).double().mean()),
        )
        before = now


def draw(
    labels: Integers, classes: Integers, number: int, draws: np.random.Generator
) -> Integers:
    """Return so many random items of some classes."""
    own = np.flatnonzero(np.isin(labels, classes))
    return np.sort(draws.choice(own, min(number, len(own)), replace=False))


def pool_of(rows: Any, truth: torch.Tensor, num_classes: int) -> Pool:
    """Return a pool without labels."""
    names = tuple(f"class {number}" for number in range(num_classes))
    return Pool.build(
        ArrayImages(as_rows(rows)), torch.full_like(truth, UNKNOWN), names
    )


def as_rows(rows: Any) -> torch.Tensor:
    """Return rows as a tensor."""
    return torch.from_numpy(np.array(rows, dtype=np.float32))


# ------------------------------------------------------------------------------- looks

WAYS = {
    "one model": (1, 0.0),
    "10 models, half independent": (10, 0.5),
    "10 models, independent": (10, 1.0),
    "40 models, half independent": (40, 0.5),
    "40 models, independent": (40, 1.0),
}
"""Models and the share of their errors that is each one's own."""
NUM_SIMULATED, NUM_LOOKS = 2000, 200


def looks(num_models: int, own: float) -> dict[str, float]:
    """Return the shares of projects with the truth outside at any look, in percent."""
    draws, every = np.random.default_rng(0), NUM_LOOKS // num_models
    low, high = ends()
    # Where the intervals of each number of checks begin in the tables.
    starts, missed = np.cumsum(np.arange(1, NUM_LOOKS + 1)) - 1, np.zeros(2)
    for _ in range(NUM_SIMULATED):
        last = draws.uniform(0.6, 0.97)
        truth = last - draws.uniform(0, 0.25) / np.sqrt(1 + np.arange(num_models))
        truth = truth if num_models > 1 else np.array([last])
        shared = draws.standard_normal(NUM_LOOKS)
        each = draws.standard_normal((num_models, NUM_LOOKS))
        score = (1 - own) ** 0.5 * shared + own**0.5 * each
        right = (score < ndtri(truth)[:, None]).cumsum(axis=1)
        model = np.arange(NUM_LOOKS) // every
        place = starts + right[model, np.arange(NUM_LOOKS)]
        is_in = (low[:, place] <= truth[model]) & (truth[model] <= high[:, place])
        missed += ~is_in.all(axis=1)
    lasting, exact = (100 * missed / NUM_SIMULATED).round(2).tolist()
    return {"lasting": lasting, "exact": exact}


@cache
def ends() -> tuple[Floats, Floats]:
    """Return the ends of all lasting and exact intervals, each of shape (2, all)."""
    found = [
        (measurement.lasting_interval(k, n), measurement.accuracy_interval(k, n))
        for n in range(1, NUM_LOOKS + 1)
        for k in range(n + 1)
    ]
    low = np.array([[each.low for each in pair] for pair in found]).T
    return low, np.array([[each.high for each in pair] for pair in found]).T


def widths() -> dict[str, dict[str, float]]:
    """Return the widths of both intervals where 90 % are right, in points."""
    return {
        str(number): {
            name: round(100 * (found.high - found.low), 1)
            for name, found in (
                ("lasting", measurement.lasting_interval(number * 9 // 10, number)),
                ("exact", measurement.accuracy_interval(number * 9 // 10, number)),
            )
        }
        for number in (20, 30, 60, 100, 200)
    }


# ---------------------------------------------------------------------------- one look

POOLS, DRAWS = 6, 500


def one_look(name: str) -> Iterator[dict[str, Any]]:
    """Yield coverage and width of intervals by the number of checks, in percent."""
    whole = source(name)
    everything = np.arange(int(whole.labels.max()) + 1)
    covered: dict[int, list[list[float]]] = {20: [], 30: [], 60: []}
    for seed in range(POOLS):
        for num_labels in (60, 120):
            draws = np.random.default_rng(seed)
            items = draw(whole.labels, everything, 3000, draws)
            truth = torch.from_numpy(whole.labels[items]).long()
            pool = pool_of(whole.rows[items], truth, len(everything))
            asked = torch.from_numpy(draws.permutation(len(items))[:num_labels])
            pool = pool.with_answers(Answers(asked, truth[asked]))
            model, free = HEAD.fit(pool, rng.stream(0, "fit")), pool.candidates
            logits = model.outputs(pool.images, free).logits.double()
            sure, guesses = logits.softmax(dim=1).max(dim=1)
            right, sure = (guesses == truth[free]).numpy(), sure.numpy()
            for number, found in covered.items():
                seen = [
                    drawn_checks(right, sure, draws.permutation(len(right))[:number])
                    for _ in range(DRAWS)
                ]
                found.append([float(each) for each in np.mean(seen, axis=0)])
    for number, found in covered.items():
        exact, sharp, width, sharp_width = (100 * np.mean(found, axis=0)).round(1)
        yield {
            "data": name,
            "checks": number,
            "exact": float(exact),
            "sharpened": float(sharp),
            "least_sharpened": round(100 * min(each[1] for each in found), 1),
            "exact_width": float(width),
            "sharpened_width": float(sharp_width),
            "shorter": round(100 * float(1 - sharp_width / width), 1),
        }


def drawn_checks(right: Any, sure: Floats, chosen: Integers) -> list[float]:
    """Return whether both intervals of drawn checks cover the truth, and the widths."""
    rest = np.delete(sure, chosen)
    known = measurement.Confidences(
        checks=sure[chosen].tolist(), mean=float(rest.mean()), num_images=len(rest)
    )
    exact = measurement.accuracy_interval(int(right[chosen].sum()), len(chosen))
    sharp = measurement.sharpened_interval(right[chosen].tolist(), known)
    covers = [each.low <= right.mean() <= each.high for each in (exact, sharp)]
    return [*covers, exact.high - exact.low, sharp.high - sharp.low]


# ---------------------------------------------------------------------------- projects


def is_chosen(seed: int) -> bool:
    """Tell whether the strategy chooses the labels of a project, or chance does."""
    return seed // 2 % 2 == 1


def judged(name: str, seed: int, course: Sequence[Round]) -> dict[str, Any]:
    """Return how forecasts, intervals and the advice to stop of a project fared."""
    inside, widths, gains, changes = [], [], [], list[measurement.Change]()
    stop = None
    following = [*course[2:], None]
    for before, now, after in zip(course[:-1], course[1:], following, strict=True):
        changes.append(
            measurement.Change(before.num_labeled, now.num_labeled, now.changed)
        )
        gain = measurement.expected_gain(changes, ROUND)
        assert gain.gain is not None
        if stop is None and gain.is_little:
            stop = now
        if after is not None:
            rise = after.accuracy - now.accuracy
            inside.append(gain.low <= rise <= gain.high)
            widths.append(gain.high - gain.low)
            gains.append((gain.gain, rise))
    seen = [
        (
            measurement.lasting_interval(sum(each.is_right), NUM_CHECKS),
            measurement.accuracy_interval(sum(each.is_right), NUM_CHECKS),
            measurement.sharpened_interval(each.is_right, each.confidences)
            if each.num_labeled <= measurement.MOST_LABELED * each.num_images
            else measurement.accuracy_interval(sum(each.is_right), NUM_CHECKS),
        )
        for each in course
    ]
    covers = np.array(
        [
            [found.low <= each.accuracy <= found.high for found in three]
            for each, three in zip(course, seen, strict=True)
        ]
    )
    last, stop = course[-1], stop or course[-1]
    return {
        "data": name,
        "labels": "strategy" if is_chosen(seed) else "random",
        "seed": seed,
        "forecasts_held": round(100 * float(np.mean(inside)), 1),
        "forecast_width": round(100 * float(np.mean(widths)), 2),
        "expected_gain": round(100 * float(np.mean([gain for gain, _ in gains])), 2),
        "real_gain": round(100 * float(np.mean([rise for _, rise in gains])), 2),
        "always_in_lasting": 100 * int(covers[:, 0].all()),
        "always_in_exact": 100 * int(covers[:, 1].all()),
        "in_exact": round(100 * float(covers[:, 1].mean()), 1),
        "in_once": round(100 * float(covers[:, 2].mean()), 1),
        "stopped_at": stop.num_labeled,
        "accuracy_at_stop": round(100 * stop.accuracy, 2),
        "accuracy_at_end": round(100 * last.accuracy, 2),
        "lost": round(100 * (last.accuracy - stop.accuracy), 2),
    }


def summary(cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return means over projects, and the largest loss."""
    names = [name for name, value in cases[0].items() if not isinstance(value, str)]
    means = {
        name: round(float(np.mean([case[name] for case in cases])), 2)
        for name in names
        if name != "seed"
    }
    stops = [case["stopped_at"] for case in cases]
    early = [case["lost"] for case in cases if case["stopped_at"] < MOST_LABELS]
    return means | {
        "lost_where_stopped": round(float(np.mean(early)), 2) if early else None,
        "projects": len(cases),
        "most_lost": max(case["lost"] for case in cases),
        "stopped_median": float(np.median(stops)),
        "never_stopped": sum(stop == MOST_LABELS for stop in stops),
    }


def record(cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what was measured; cases are judged projects."""
    kinds = {"all": list(cases)}
    for name in DATA_SETS:
        kinds[name] = [case for case in cases if case["data"] == name]
    for way in ("random", "strategy"):
        kinds[way] = [case for case in cases if case["labels"] == way]
    return {
        "any_look_missed": {name: looks(*way) for name, way in WAYS.items()},
        "widths": widths(),
        "one_look": [
            row for name in ("cifar10", "cifar100", "digits") for row in one_look(name)
        ],
        "projects": {name: summary(found) for name, found in kinds.items()},
        "each_project": list(cases),
    }


def main() -> None:
    """Measure everything and write the record."""
    torch.set_num_threads(1)
    cases = []
    for seed in range(FIRST_SEED, FIRST_SEED + NUM_PROJECTS):
        for name in DATA_SETS:
            course = list(rounds(name, seed, is_chosen=is_chosen(seed)))
            cases.append(judged(name, seed, course))
            print(cases[-1], flush=True)
    text = json.dumps(record(cases)).replace('{"data"', '\n{"data"')
    RESULT.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
