"""What unlabeled images and DARP are worth: digits and 5,000 MNIST images at 14x14.

Random starting sets of 10, 30 and 50 labels, equally many of each class, and of 30
labels spread 1, 1, 1, 1, 2, 2, 3, 5, 6, 8 over the classes in random order. On each set
every trainer starts from the same weights and sees the same labeled minibatches, so
that differences are paired. Accuracy is that of the averaged network after the last
step, on the test images, which decide nothing. A rival that is no network is
scikit-learn's label spreading on the pixels, neighbors and default settings.

Run ``python benchmarks/ssl_study.py``; what is in the output file is not run again, so
an interrupted study goes on. ``--report`` only prints the tables.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import torch
from scipy import stats
from sklearn.semi_supervised import LabelSpreading

import fewlabels
from fewlabels import journal, rng, training
from fewlabels.evaluation import accuracy
from fewlabels.loop import hidden
from fewlabels.pool import Answers, Images, Pool, Split

UNEVEN = (1, 1, 1, 1, 2, 2, 3, 5, 6, 8)
EVEN = {"10": (1,) * 10, "30": (3,) * 10, "50": (5,) * 10}
COUNTS = {**EVEN, "30 uneven": UNEVEN}
SEEDS = {"digits": 10, "mnist": 5}
TRAINERS: dict[str, tuple[str, dict[str, Any]]] = {
    "supervised": ("supervised", {}),
    "FixMatch": ("fixmatch", {}),
    "FixMatch+DARP": ("fixmatch-darp", {}),
    "DARP, raw mask": ("fixmatch-darp", {"mask_on": "raw"}),
    "FixMatch, split": ("fixmatch", {"forward": "split"}),
    "FixMatch, theorem's rate": ("fixmatch", {"rate_limit": "theorem"}),
    "FixMatch, rate 1": ("fixmatch", {"learning_rate": 1.0}),
    "FixMatch, rate 1 bounded": (
        "fixmatch",
        {"learning_rate": 1.0, "rate_limit": "linearized"},
    ),
}
SPREADING = "label spreading"
MAIN = (SPREADING, "supervised", "FixMatch", "FixMatch+DARP")
RATES = ("FixMatch, theorem's rate", "FixMatch, rate 1", "FixMatch, rate 1 bounded")
PAIRS = (
    ("FixMatch", "supervised"),
    ("FixMatch", SPREADING),
    ("FixMatch+DARP", SPREADING),
    ("FixMatch+DARP", "FixMatch"),
    ("DARP, raw mask", "FixMatch"),
    ("FixMatch, split", "FixMatch"),
    ("FixMatch, theorem's rate", "FixMatch"),
    ("FixMatch, rate 1", "FixMatch"),
    ("FixMatch, rate 1 bounded", "FixMatch, rate 1"),
)
NAMES = (SPREADING, *TRAINERS)
OUTPUT = Path(__file__).parent / "results" / "ssl_study.jsonl"


class Cell(NamedTuple):
    """One training."""

    data: str
    labels: str
    seed: int
    trainer: str


def plan() -> Iterator[Cell]:
    """Yield every training of the study, seed by seed."""
    for data, num_seeds in SEEDS.items():
        for seed, labels, trainer in product(range(num_seeds), COUNTS, MAIN):
            yield Cell(data, labels, seed, trainer)
    for seed in range(SEEDS["digits"]):
        for labels in ("10", "30 uneven"):
            yield Cell("digits", labels, seed, "DARP, raw mask")
        yield Cell("digits", "30", seed, "FixMatch, split")
    for seed, trainer in product(range(SEEDS["digits"] // 2), RATES):
        yield Cell("digits", "30", seed, trainer)


def loaded(data: str) -> Pool:
    """Return the pool, with its labels and test images."""
    if data == "digits":
        return fewlabels.load("digits")
    return fewlabels.load("mnist", size=14, counts=[500] * 10)


def labeled_pool(pool: Pool, counts: Sequence[int], seed: int) -> Pool:
    """Return the pool with random labels, their counts dealt to random classes."""
    generator = rng.stream(seed, "study labels")
    order = torch.randperm(len(pool), generator=generator)
    dealt = torch.randperm(pool.num_classes, generator=generator)
    classes = pool.labels[order]
    chosen = [
        order[classes == number][: counts[place]]
        for place, number in enumerate(dealt.tolist())
    ]
    indices = torch.cat(chosen)
    known = Answers(indices, pool.labels[indices])
    return hidden(pool, len(indices)).with_answers(known)


def measured(cell: Cell) -> dict[str, Any]:
    """Do one training and return its line of the output."""
    torch.set_num_threads(1)
    whole = loaded(cell.data)
    assert whole.test is not None
    pool = labeled_pool(whole, COUNTS[cell.labels], cell.seed)
    started = time.perf_counter()
    if cell.trainer == SPREADING:
        share = spread(pool, whole.test)
    else:
        name, options = TRAINERS[cell.trainer]
        trainer = training.resolve(name, {**options, "accelerator": "cpu"})
        classifier = trainer.fit(pool, rng.stream(cell.seed, "train", 0))
        share = accuracy(classifier, whole.test)
    seconds = time.perf_counter() - started
    return {**cell._asdict(), "accuracy": 100 * share, "seconds": round(seconds, 1)}


def spread(pool: Pool, test: Split) -> float:
    """Spread labels over the pool and return the accuracy on the test images."""
    model = LabelSpreading(kernel="knn").fit(pixels(pool.images), pool.labels.numpy())
    found = torch.from_numpy(model.predict(pixels(test.images)))
    return float((found == test.labels).double().mean())


def pixels(images: Images) -> Any:
    """Return images as rows of numbers from 0 to 1."""
    return images.read(torch.arange(len(images))).flatten(1).numpy() / 255


def finished(path: Path) -> dict[Cell, dict[str, Any]]:
    """Return the trainings that the output file holds."""
    done = journal.read(path) if path.exists() else []
    return {Cell(*(line[name] for name in Cell._fields)): line for line in done}


def run(path: Path, processes: int, trainers: Sequence[str]) -> None:
    """Do the trainings by these trainers that the output file lacks."""
    wanted = [cell for cell in plan() if cell.trainer in trainers]
    missing = [cell for cell in wanted if cell not in finished(path)]
    print(f"{len(missing)} trainings to do, a minute or less each", flush=True)
    with ProcessPoolExecutor(processes, get_context("spawn")) as workers:
        for number, future in enumerate(
            as_completed([workers.submit(measured, cell) for cell in missing]), 1
        ):
            line = future.result()
            journal.append(path, line)
            print(f"{number}/{len(missing)}  {line}", flush=True)


def report(path: Path) -> str:
    """Return the tables in Markdown."""
    done = finished(path)
    lines: list[str] = []
    for data in SEEDS:
        names = [n for n in NAMES if any(c[0] == data and c[3] == n for c in done)]
        lines += [f"\n{data}, {SEEDS[data]} starting sets\n"]
        lines += [
            "| labels | " + " | ".join(names) + " |",
            "|---" * (1 + len(names)) + "|",
        ]
        for labels in COUNTS:
            columns = [summary(values(done, data, labels, name)) for name in names]
            lines += [f"| {labels} | " + " | ".join(columns) + " |"]
        lines += [
            "",
            "| difference | labels | points | p (t) | p (Wilcoxon) | better |",
        ]
        lines += ["|---" * 6 + "|"]
        for better, worse in PAIRS:
            for labels in COUNTS:
                row = compared(
                    values(done, data, labels, better),
                    values(done, data, labels, worse),
                )
                if row:
                    lines += [f"| {better} - {worse} | {labels} | {row} |"]
    return "\n".join(lines)


def values(
    done: dict[Cell, dict[str, Any]], data: str, labels: str, trainer: str
) -> dict[int, float]:
    """Return the accuracies by seed."""
    return {
        cell.seed: line["accuracy"]
        for cell, line in done.items()
        if (cell.data, cell.labels, cell.trainer) == (data, labels, trainer)
    }


def summary(found: dict[int, float]) -> str:
    """Return mean, standard deviation and worst of some accuracies."""
    if len(found) < 2:
        return ""
    numbers = list(found.values())
    return f"{mean(numbers):.1f} ± {stdev(numbers):.1f} ({min(numbers):.1f})"


def compared(better: dict[int, float], worse: dict[int, float]) -> str:
    """Return the mean difference of pairs, two tests, and how many are better."""
    seeds = sorted(better.keys() & worse.keys())
    gains = [better[seed] - worse[seed] for seed in seeds]
    if len(gains) < 2:
        return ""
    error = stdev(gains) / len(gains) ** 0.5
    student = stats.ttest_1samp(gains, 0).pvalue
    signed = stats.wilcoxon(gains).pvalue if any(gains) else 1.0
    ahead = sum(gain > 0 for gain in gains)
    return (
        f"{mean(gains):+.1f} ± {error:.1f} | {student:.3f} | {signed:.3f} | "
        f"{ahead} of {len(gains)}"
    )


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--trainers", nargs="+", default=list(NAMES))
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--out", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    if not arguments.report:
        run(arguments.out, arguments.processes, arguments.trainers)
    print(report(arguments.out))


if __name__ == "__main__":
    main()
