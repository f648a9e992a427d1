"""A small encoder that learns from the pool without labels, against the pixels.

The pools are the 1,297 digits, and 5,000 images each of MNIST and Fashion-MNIST; 500
and 2,000 test images measure. The encoder ``self-supervised`` is trained once on each
pool with its defaults. Thirty labels are drawn at random, five times, and the same
heads are trained over its features and over those of ``pixels``. ``frozen-linear`` has
the options that ``init`` gives it for each of the two. FixMatch varies gray images as
it does without an encoder: no reflections, the preset ``small-grey``.

Run ``FEWLABELS_DATA=DIR python benchmarks/self_supervised.py --cache FOLDER``, where
DIR holds MNIST and Fashion-MNIST; ``--table`` shows the table.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

import fewlabels
from fewlabels import rng, training
from fewlabels.data.derived import ChosenImages
from fewlabels.evaluation import accuracy, paired_tests
from fewlabels.features import FeatureCache
from fewlabels.loop import hidden
from fewlabels.pool import Answers, Pool, Split
from fewlabels.training.frozen import FrozenInputs

RESULTS = Path(__file__).parent / "results" / "self_supervised.jsonl"
SETS = ("digits", "mnist", "fashion-mnist")
NUM_TRAIN, NUM_TEST, NUM_LABELS = 5000, 2000, 30
SEEDS = tuple(range(5))
GREY = {"weak": {"flip": False}, "strong": "small-grey"}
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "frozen-linear": {
        "pixels": {"encoder": "pixels", "scale": "common", "pool_weight": 1000.0},
        "self-supervised": {"encoder": "self-supervised"},
    },
    "frozen-fixmatch-darp": {
        "pixels": {"encoder": "pixels", **GREY},
        "self-supervised": {"encoder": "self-supervised", **GREY},
    },
}


def chosen_pool(name: str) -> Pool:
    """Return a pool of at most 5,000 images, and 2,000 to measure on."""
    whole = fewlabels.load(name)
    assert whole.test is not None
    order = torch.randperm(len(whole), generator=rng.stream(0, "self-supervised pool"))
    kept = order[:NUM_TRAIN].sort().values
    tests = torch.arange(min(NUM_TEST, len(whole.test)))
    return replace(
        whole,
        images=ChosenImages(whole.images, kept),
        ids=[whole.ids[index] for index in kept.tolist()],
        labels=whole.labels[kept],
        candidates=torch.empty(0, dtype=torch.int64),
        test=Split(
            ChosenImages(whole.test.images, tests), whole.test.labels[: len(tests)]
        ),
    )


def measured(name: str, cache: Path) -> Iterator[dict[str, Any]]:
    """Yield a line for each trainer, encoder and set of labels."""
    pool = chosen_pool(name)
    assert pool.test is not None
    started = time.process_time()
    FrozenInputs(encoder="self-supervised").encoder_for(pool, FeatureCache(cache))
    told = {"data": name, "trainer": "encoder alone", "encoder": "self-supervised"}
    yield {**told, "seed": 0, "seconds": time.process_time() - started}
    for trainer, by_encoder in OPTIONS.items():
        for encoder, options in by_encoder.items():
            for seed in SEEDS:
                draws = rng.stream(seed, "self-supervised labels")
                items = torch.randperm(len(pool), generator=draws)[:NUM_LABELS]
                known = Answers(items, pool.labels[items])
                made = training.make(trainer, **options, cache=str(cache))
                started = time.process_time()
                classifier = made.fit(
                    hidden(pool, NUM_LABELS).with_answers(known),
                    rng.stream(seed, "train", 0),
                )
                yield {
                    "data": name,
                    "trainer": trainer,
                    "encoder": encoder,
                    "seed": seed,
                    "seconds": time.process_time() - started,
                    "accuracy": 100 * accuracy(classifier, pool.test),
                }


def table(lines: list[dict[str, Any]]) -> str:
    """Return means, deviations and paired differences, a line for each head."""
    found = []
    for name in SETS:
        for trainer in OPTIONS:
            shares = {
                encoder: [
                    line["accuracy"]
                    for line in lines
                    if (line["data"], line["trainer"], line["encoder"])
                    == (name, trainer, encoder)
                ]
                for encoder in OPTIONS[trainer]
            }
            if not all(shares.values()):
                continue
            means = " | ".join(
                f"{mean(own):.1f} ± {stdev(own):.1f}" for own in shares.values()
            )
            [test] = paired_tests(shares, against="pixels")
            found.append(
                f"| {name} | `{trainer}` | {means} | {test.difference:+.1f} "
                f"(p {test.t_p:.3f}) |"
            )
    return "\n".join(found)


def main() -> None:
    """Measure, write a line at a time, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, help="folder for encoders and rows")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if not arguments.table:
        with arguments.out.open("w") as file:
            for name in SETS:
                for line in measured(name, arguments.cache):
                    file.write(json.dumps(line) + "\n")
                    file.flush()
    print(table([json.loads(line) for line in arguments.out.open()]))


if __name__ == "__main__":
    main()
