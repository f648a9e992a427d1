"""How often the report finds a difference between strategies where there is none.

A *taste* is a number for every image, drawn once and unrelated to what it shows. Two
strategies that ask for the images they like best do not differ: on new images, neither
is better. On images that several pools share they do, since they ask for the same ones
with every seed. So seeds are no independent repetitions of the comparison, and tests
that take them for such find differences.

``python -m benchmarks.null_comparisons`` simulates reports of random and two tastes on
digits, from 10 to 70 labels, ten seeds, with kernel ridge regression, and writes to
benchmarks/results/null_comparisons.json how often tests were significant at 5 %.

Shapes: N images, T test images, C classes, n labeled images.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import fewlabels
from fewlabels import files
from fewlabels.experiments.bench import Experiment
from fewlabels.experiments.bench.experiment import cell_of
from fewlabels.experiments.bench.folder import CellResult, ConditionResults, Results
from fewlabels.experiments.evaluation import paired_tests
from fewlabels.experiments.evaluation.comparisons import LEVEL
from fewlabels.experiments.runs import RoundLine
from fewlabels.gram import wide_head_kernel
from fewlabels.report.bench_sections import END, Context, context_of

OUT = Path(__file__).parent / "results" / "null_comparisons.json"
NUM_SEEDS, START, QUERY, BUDGET = 10, 10, 20, 70
STRATEGIES = ("random", "npc", "badge")  # the last two stand for tastes
RIDGE = 1e-3


@dataclass(frozen=True)
class Case:
    """How pools are drawn, and how strong tastes are."""

    name: str
    pool_size: int
    """Images that each seed draws; those of disjoint pools are drawn together."""
    is_disjoint: bool = False
    weight: float = 1.0
    """Share of a taste in what is asked for; the rest differs by seed."""


CASES = (
    Case("disjoint pools", 129, is_disjoint=True),
    Case("pools of 600", 600),
    Case("pools of 600, weak tastes", 600, weight=0.8),
    Case("pools of 1,000", 1000),
    Case("one pool", 1297),
    Case("one pool, weak tastes", 1297, weight=0.8),
)


@dataclass(frozen=True, eq=False)
class Learner:
    """Kernel ridge regression on digits, from classes as indicators."""

    gram: NDArray[np.float64]
    """Of the images, shape (N, N)."""
    to_test: NDArray[np.float64]
    """Of the test images and these, shape (T, N)."""
    targets: NDArray[np.float64]
    """Shape (N, C)."""
    test: NDArray[np.int64]
    """Classes of the test images, shape (T,)."""

    @classmethod
    def on_digits(cls) -> "Learner":
        """Return it with the kernel of a wide network over the pixels."""
        pool = fewlabels.load("digits")
        assert pool.test is not None
        parts = [pool.images, pool.test.images]
        pixels = torch.cat([p.read(torch.arange(len(p))).flatten(1) for p in parts])
        every = torch.arange(len(pixels))
        gram = wide_head_kernel(pixels.double() / 255).block(every, every).numpy()
        size = len(pool)
        targets = np.eye(pool.num_classes)[pool.labels.numpy()]
        return cls(
            gram[:size, :size], gram[size:, :size], targets, pool.test.labels.numpy()
        )

    def accuracy(self, items: NDArray[np.int64]) -> float:
        """Return the accuracy on the test images after learning from some items."""
        gram_nn = self.gram[np.ix_(items, items)]
        ridge = RIDGE * np.trace(gram_nn) / len(items) * np.eye(len(items))
        weights_nC = np.linalg.solve(gram_nn + ridge, self.targets[items])
        guesses = (self.to_test[:, items] @ weights_nC).argmax(axis=1)
        return float((guesses == self.test).mean())


def experiment() -> Experiment:
    """Return what the simulated report is about."""
    settings = {
        "data": "digits", "trainer": "supervised",
        "start": START, "query": QUERY, "budget": BUDGET,
    }  # fmt: skip
    return Experiment.model_validate(
        {
            "name": "null",
            "title": "Tastes",
            "conditions": [{"settings": settings, "own_pools": True}],
            "strategies": STRATEGIES,
            "seeds": range(NUM_SEEDS),
            "footprint": {"seconds_per_step": 1, "megabytes": 1},
        }
    )


def report(case: Case, learner: Learner, number: int) -> Context:
    """Return one simulated experiment as the report sees it."""
    asked = experiment()
    (condition,) = asked.conditions
    rng = np.random.default_rng([number, CASES.index(case)])
    num_items = len(learner.gram)
    tastes = {name: rng.normal(size=num_items) for name in STRATEGIES[1:]}
    order = rng.permutation(num_items)
    cells = []
    for seed in range(NUM_SEEDS):
        if not case.is_disjoint:
            order = rng.permutation(num_items)
        begin = seed * case.pool_size * case.is_disjoint
        pool = order[begin : begin + case.pool_size]
        start = rng.choice(pool, START, replace=False)
        for choice in asked.strategies:
            liking = rng.normal(size=num_items)
            if choice.name in tastes:
                liking *= np.sqrt(1 - case.weight**2)
                liking += case.weight * tastes[choice.name]
            rest = np.setdiff1d(pool, start)
            picks = rest[np.argsort(-liking[rest])][: BUDGET - START]
            lines = tuple(rounds(learner, start, picks))
            cell = cell_of(condition, choice, seed)
            cells.append(CellResult(cell, lines=lines))
    labels = tuple(choice.label for choice in asked.strategies)
    results = ConditionResults(condition, tuple(cells), labels, asked.seeds)
    return context_of(Results(asked, (results,), ()))


def rounds(
    learner: Learner, start: NDArray[np.int64], picks: NDArray[np.int64]
) -> Iterator[RoundLine]:
    """Yield the rounds of a run that asks for some items in turn."""
    for step in range(1 + len(picks) // QUERY):
        known = np.concatenate([start, picks[: step * QUERY]])
        asked = picks[step * QUERY : (step + 1) * QUERY].tolist()
        yield RoundLine(
            step=step, num_labeled=len(known), accuracy=learner.accuracy(known),
            median_accuracy=None, ids=tuple(map(str, asked)), indices=tuple(asked),
            labels=(0,) * len(asked), class_counts=(), kernel=None, value=None,
            ceiling=None, tie=None, record={},
        )  # fmt: skip


def rejections(context: Context) -> dict[str, bool]:
    """Return which tests of one experiment call a difference significant."""
    (case,) = context.conditions
    ends = {name: array[:, -1] for name, array in case.paired.items()}
    plain = {t.name: t for t in paired_tests(ends, against="npc")}["badge"]
    (own,) = (
        comparison.test
        for comparison in context.comparisons
        if (comparison.test.name, comparison.test.against) == ("badge", "npc")
        and comparison.measure == END
    )
    every = [comparison.test for comparison in context.comparisons]
    return {
        "one test, uncorrected t": plain.t_p < LEVEL,
        "one test, uncorrected Wilcoxon": plain.wilcoxon_p < LEVEL,
        "one test, t": own.t_p < LEVEL,
        "one test, Wilcoxon": own.wilcoxon_p < LEVEL,
        "any of the report, t": any(test.t_holm < LEVEL for test in every),
        "any of the report, Wilcoxon": any(
            test.wilcoxon_holm < LEVEL for test in every
        ),
    }


def rates(case: Case, learner: Learner, num_comparisons: int) -> dict[str, Any]:
    """Return how often tests are significant, and the mean overlap of differences."""
    counts, overlaps = Counter[str](), list[float]()
    for number in range(num_comparisons):
        context = report(case, learner, number)
        counts.update(rejections(context))
        overlaps += [
            comparison.test.overlap
            for comparison in context.comparisons
            if comparison.test.against == "npc" and comparison.measure == END
        ]
    shares = {name: times / num_comparisons for name, times in counts.items()}
    return {"overlap": round(float(np.mean(overlaps)), 3), **shares}


def main() -> None:
    """Simulate and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--comparisons", type=int, default=500)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    learner, found = Learner.on_digits(), dict[str, Any]()
    for case in CASES:
        found[case.name] = rates(case, learner, given.comparisons)
        print(case.name, found[case.name], flush=True)
    record = {"comparisons": given.comparisons, "seeds": NUM_SEEDS, "cases": found}
    files.replace_text(given.out, json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
