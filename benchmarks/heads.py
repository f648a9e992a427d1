"""The learner ``blend`` against ``spreading`` and ``linear``, on random labels.

Twenty pools of each data set of the study of practical budgets (benchmarks.practical;
digits left out), from 20 to 640 random labels, the same ones for all learners; test
images are even, so that accuracy is mean recall. Beside accuracy: log loss, and the
calibration error in 15 bins of confidence (Guo et al., 2017).

``FEWLABELS_DATA=DIR python -m benchmarks.heads`` does what the record lacks; about a
core-hour.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.practical import SOURCES, Source
from benchmarks.study import RESULTS, recorded

from fewlabels import data, files, rng, training
from fewlabels.experiments.acquisition import hidden
from fewlabels.pool import Answers, Pool

RECORD = RESULTS / "heads.jsonl"
LABELS = (20, 40, 80, 160, 320, 640)
HEADS = ("spreading", "linear", "blend")
FIRST_POOL, NUM_POOLS = 1200, 20
_OVER_PIXELS = {"encoder": "pixels", "scale": "common"}
_NUM_BINS = 15


def trainer(source: Source, head: str) -> Any:
    """Return the trainer that a learner is on some data."""
    chosen = source.trainer(head)
    if head == "linear" and not source.is_photographs:
        return training.resolve("frozen-linear", _OVER_PIXELS)
    return training.resolve(chosen.name, chosen.options)


def measured(pool: Pool, fitted: Any) -> dict[str, float]:
    """Return accuracy, log loss and calibration error on the test images."""
    assert pool.test is not None
    truth = pool.test.labels.numpy()
    every = torch.arange(len(truth))
    logits = fitted.outputs(pool.test.images, every).logits.double()
    shares = logits.softmax(dim=1).numpy()
    confidence, is_right = shares.max(axis=1), shares.argmax(axis=1) == truth
    bins = np.minimum((confidence * _NUM_BINS).astype(int), _NUM_BINS - 1)
    gaps = np.bincount(bins, confidence - is_right, minlength=_NUM_BINS)
    likelihood = np.maximum(shares[np.arange(len(truth)), truth], 1e-12)
    return {
        "accuracy": round(float(is_right.mean()), 4),
        "log_loss": round(float(-np.log(likelihood).mean()), 4),
        "calibration_error": round(float(np.abs(gaps).sum() / len(truth)), 4),
    }


def lines_of(source: Source, number: int) -> dict[str, Any]:
    """Return the results of all learners on one pool, by learner."""
    choice = source.pool(number)
    pool = data.load(choice.name, **choice.options)
    order = torch.randperm(len(pool), generator=rng.stream(number, "random labels"))
    found: dict[str, Any] = {head: [] for head in HEADS}
    for num_labels in LABELS:
        items = order[:num_labels]
        answers = Answers(items, pool.labels[items])
        labeled = hidden(pool, num_labels).with_answers(answers)
        for head in HEADS:
            fitted = trainer(source, head).fit(labeled, rng.stream(0, "train"))
            found[head].append(measured(pool, fitted))
    return found


def main() -> None:
    """Measure what the record lacks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = [one.name for one in SOURCES if one.name != "digits"]
    parser.add_argument("--data", nargs="+", default=every, choices=every)
    parser.add_argument("--record", type=Path, default=RECORD)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    done = {(line["data"], line["pool"]) for line in recorded(arguments.record)}
    for number in range(FIRST_POOL, FIRST_POOL + NUM_POOLS):
        for source in (one for one in SOURCES if one.name in arguments.data):
            if (source.name, number) in done:
                continue
            found = lines_of(source, number)
            place = {"data": source.name, "pool": number, "labels": LABELS}
            files.append_entry(arguments.record, place | found)
            best = {head: found[head][-1]["accuracy"] for head in HEADS}
            print(source.name, number, best, flush=True)


if __name__ == "__main__":
    main()
