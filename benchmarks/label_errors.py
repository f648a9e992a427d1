"""Precision and recall of "labels to look at again", where some labels are wrong.

    OMP_NUM_THREADS=1 python -m benchmarks.label_errors --rows FILE.npy

In each of 20 draws, 200 of 2,000 images get labels, and six of these (3 %) are wrong:
either any other class, as if a wrong key was hit, or the class that the model takes for
the likeliest of the wrong ones, as if two classes were confused. Images are CIFAR-10's,
seen by EfficientNet-Lite0 at 96 x 96 pixels (embedded once, and kept in the file), and
scikit-learn's digits, seen as pixels. Rules, on the same labels:

* before: left out with a fifth of all, another class has a probability of 0.6 or more;
* now: :func:`fewlabels.web.guesses.out_of_fold` and ``likely_errors``, as many as the
  page shows at first, and all;
* two filters of cleanlab on the same probabilities: its default and
  ``confident_learning``.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cleanlab.filter import find_label_issues
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import fewlabels
from fewlabels import rng, training
from fewlabels.data.derived import ChosenImages
from fewlabels.experiments.evaluation.label_errors import likely_errors
from fewlabels.models.efficientnet import efficientnet_lite0
from fewlabels.models.embedding import embedded
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.projects.training_plan import HEAD
from fewlabels.web.guesses import out_of_fold

RESULT = Path(__file__).parent / "results" / "label_errors.json"
NUM_ROWS, NUM_ITEMS, NUM_LABELS, NUM_WRONG, NUM_SEEDS = 6_000, 2_000, 200, 6, 20
NUM_CLASSES = 10

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


def rows_of(name: str, file: Path) -> tuple[Floats, Integers]:
    """Return what a model sees of each image, and the true classes."""
    if name == "digits":
        data = load_digits()
        return data.data.astype(np.float32) / 16, data.target
    whole = fewlabels.load("cifar10")
    if not file.exists():
        images = ChosenImages(whole.images, torch.arange(NUM_ROWS))
        np.save(file, np.asarray(embedded(images, efficientnet_lite0(96))))
    truth: Integers = whole.labels[:NUM_ROWS].numpy()
    return np.load(file).astype(np.float32), truth


def pool_of(rows: Floats, items: Integers, labels: Integers) -> Pool:
    """Return rows as a pool in which some items have labels."""
    given = torch.full((len(rows),), UNKNOWN)
    given[items] = torch.from_numpy(labels)
    names = [str(number) for number in range(NUM_CLASSES)]
    return Pool.build(ArrayImages(torch.from_numpy(rows)), given, names)


def before(head: Any, pool: Pool) -> Integers:
    """Return what the page showed before: positions among the labels."""
    items, flagged = pool.labeled, []
    for fold in range(5):
        labels = pool.labels.clone()
        labels[items[fold::5]] = UNKNOWN
        model = head.fit(replace(pool, labels=labels), rng.stream(0, "guess"))
        logits = model.outputs(pool.images, items[fold::5]).logits
        sure, other = logits.softmax(dim=1).max(dim=1)
        is_slip = (other != pool.labels[items[fold::5]]) & (sure >= 0.6)
        flagged += (fold + 5 * is_slip.nonzero().ravel()).tolist()
    return np.array(flagged, dtype=np.int64)


def shown(flagged: Integers) -> Integers:
    """Return what the page shows at first."""
    return flagged[: max(5, NUM_LABELS // 20)]


def filtered(shares: Floats, labels: Integers, way: str) -> Integers:
    """Return what a filter of cleanlab flags."""
    return np.flatnonzero(find_label_issues(labels, shares, filter_by=way, n_jobs=1))


def measured(name: str, file: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Return how much of what each rule shows is wrong, and of what is wrong shown."""
    rows, truth = rows_of(name, file)
    head = training.make(HEAD)
    counts: dict[str, dict[str, list[tuple[int, int]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for seed in range(NUM_SEEDS):
        draws = np.random.default_rng(seed)
        chosen = draws.permutation(len(rows))[:NUM_ITEMS]
        items = np.sort(draws.permutation(len(chosen))[:NUM_LABELS])
        right = truth[chosen][items]
        likely = out_of_fold(head, pool_of(rows[chosen], items, right))
        likely[np.arange(NUM_LABELS), right] = -1
        wrong = draws.permutation(NUM_LABELS)[:NUM_WRONG]
        steps = draws.integers(1, NUM_CLASSES, NUM_LABELS)
        slips = {
            "any other class": (right + steps) % NUM_CLASSES,
            "the likeliest other class": likely.argmax(axis=1),
        }
        for kind, others in slips.items():
            labels = right.copy()
            labels[wrong] = others[wrong]
            pool = pool_of(rows[chosen], items, labels)
            shares = out_of_fold(head, pool)
            rules: dict[str, Callable[[], Integers]] = {
                "before": lambda pool=pool: before(head, pool),
                "now": lambda s=shares, y=labels: shown(likely_errors(s, y)),
                "now, all of the list": lambda s=shares, y=labels: likely_errors(s, y),
                "cleanlab's default": lambda s=shares, y=labels: filtered(
                    s, y, "prune_by_noise_rate"
                ),
                "confident learning": lambda s=shares, y=labels: filtered(
                    s, y, "confident_learning"
                ),
            }
            for rule, flag in rules.items():
                flagged = flag()
                hits = int(np.isin(flagged, wrong).sum())
                counts[kind][rule].append((len(flagged), hits))
        print(name, seed, {kind: dict(one) for kind, one in counts.items()}, flush=True)
    return {
        kind: {rule: summary(pairs) for rule, pairs in rules.items()}
        for kind, rules in counts.items()
    }


def summary(pairs: list[tuple[int, int]]) -> dict[str, Any]:
    """Return precision and recall over all draws, and what was counted in each."""
    shown, hits = map(list, zip(*pairs, strict=True))
    return {
        "precision": round(sum(hits) / max(sum(shown), 1), 3),
        "recall": round(sum(hits) / (NUM_WRONG * len(pairs)), 3),
        "shown": shown,
        "wrong_shown": hits,
    }


def main() -> None:
    """Measure both sets of images and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="where rows are kept")
    file = parser.parse_args().rows
    torch.set_num_threads(1)
    record: dict[str, Any] = {
        "images": NUM_ITEMS,
        "labels": NUM_LABELS,
        "wrong": NUM_WRONG,
        "draws": NUM_SEEDS,
        "head": HEAD,
    }
    for name in ("cifar10", "digits"):
        record[name] = measured(name, file)
    RESULT.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
