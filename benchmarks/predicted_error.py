"""Whether a labeled set can be judged before training: predicted errors and λmin.

NPC paper, Secs. 4.2 and 5.4. An untrained network asks for 30 labels at once
(zero-shot): for random sets and for the best of m random sets, Algorithm 1, with m up
to the size of the pool. Of each set the record has the smallest eigenvalue, the error
of kernel ridge regression with the kernel that the network has before training, and the
accuracy of that same network after FixMatch+DARP.

``FEWLABELS_DATA=DIR python -m benchmarks.predicted_error`` writes a line per set to
benchmarks/results/predicted_error.jsonl; sets that are in the record are not trained
again. ``--runs`` judges the labeled sets of finished benchmarks, whose accuracies are
in their records, by the networks that the trainings began with.

Shapes: N items in the pool, P labeled items, S sets.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from benchmarks.twins import number_of
from torch import Tensor

from fewlabels import data, files, gram, training
from fewlabels.experiments.acquisition import hidden
from fewlabels.experiments.diagnosis import ErrorPredictor
from fewlabels.experiments.evaluation import accuracy
from fewlabels.models.network import as_input
from fewlabels.pool import Answers, Pool
from fewlabels.protocols import Classifier, Kernel
from fewlabels.rng import stream
from fewlabels.search import maximize_smallest_eigenvalue

RESULTS = Path(__file__).parent / "results"
OUT = RESULTS / "predicted_error.jsonl"
RUNS = RESULTS / "predicted_runs.jsonl"
RECORDS = {
    "table1_digits": "digits",
    "table1_mnist": "of table1_mnist",
    "repeated_mnist": "of repeated_mnist",
}
"""Records of benchmarks with FixMatch+DARP, and their pools."""
DATA: dict[str, dict[str, Any]] = {
    "mnist": {"size": 8, "counts": [200] * 10},
    "digits": {},
}
TRAINER = {"preset": "small", "masking": "code", "steps": 300, "checkpoint_every": 300}
SIZE, NUM_NETWORKS = 30, 5
SETS = {"1": 10, "30": 4, "all": 5, "greedy": 1}
"""Sets per network by the number of draws that each is the best of; "all" is as many as
there are items, "greedy" the search that adds the best item each time."""
NUM_MEASURED = 1000
"""Random items over which errors are measured; half as many for the sets of runs."""
SKETCH = {"sketch_width": 4000, "num_sketches": 10}


POOLS = DATA | {
    "of table1_mnist": {"name": "mnist", "size": 14, "counts": [500] * 10},
    "of repeated_mnist": {
        "name": "repeated-mnist",
        "size": 8,
        "counts": [25] * 10,
        "times": 8,
        "noise": 0.0,
    },
}


@lru_cache
def pool_of(name: str) -> Pool:
    """Return a pool with its labels."""
    options = {"name": name, **POOLS[name]}
    return data.load(options.pop("name"), **options)


@dataclass(frozen=True, eq=False)
class Untrained:
    """An untrained network, which asks, and is then trained."""

    data: str
    seed: int
    step: int = 0
    """Number of the round, of a run."""

    @cached_property
    def classifier(self) -> Classifier:
        """The network before the first step."""
        return self.fit(torch.arange(0))

    def fit(self, items: Tensor) -> Classifier:
        """Return it after FixMatch+DARP with the labels of some items."""
        pool = pool_of(self.data)
        known = hidden(pool, SIZE).with_answers(Answers(items, pool.labels[items]))
        trainer = training.make("fixmatch-darp", **TRAINER)
        return trainer.fit(known, stream(self.seed, "train", self.step))

    @cached_property
    def kernels(self) -> dict[str, Kernel]:
        """Its kernels that need no gradients, over the whole pool."""
        pool = pool_of(self.data)
        features = self.classifier.outputs(
            pool.images, torch.arange(len(pool))
        ).features
        return {
            "last-layer": gram.last_layer_kernel(features, pool.num_classes),
            "wide-head": gram.wide_head_kernel(features),
        }

    @cached_property
    def measured(self) -> Tensor:
        """Items over which errors are measured."""
        generator = stream(0, "predicted error")
        return torch.randperm(len(pool_of(self.data)), generator=generator)[
            : NUM_MEASURED // 2 if self.step else NUM_MEASURED
        ]

    @cached_property
    def targets(self) -> Tensor:
        """Classes as indicators less 1/C, shape (N, C)."""
        pool = pool_of(self.data)
        ones = torch.nn.functional.one_hot(pool.labels, pool.num_classes)
        return ones.double() - 1 / pool.num_classes

    @cached_property
    def predictors(self) -> dict[str, ErrorPredictor]:
        """What predicts errors, by kernel."""
        return {
            name: ErrorPredictor(
                kernel, gram.kernel_modes(kernel, self.measured), self.targets
            )
            for name, kernel in self.kernels.items()
        }

    def chosen(self, draws: str, number: int) -> Tensor:
        """Return the best of so many random sets, by Algorithm 1."""
        kernel = self.kernels["last-layer"]
        every = torch.arange(kernel.num_items)
        is_greedy = draws == "greedy"
        return maximize_smallest_eigenvalue(
            kernel,
            labeled=every[:0],
            candidates=every,
            size=SIZE,
            method="greedy" if is_greedy else "random",
            draws=None if is_greedy or draws == "all" else int(draws),
            generator=stream(self.seed, f"best of {draws}", number),
        ).indices

    def judged(self, items: Tensor) -> dict[str, Any]:
        """Return what can be said of a set before training."""
        found: dict[str, Any] = {"smallest": {}, "predicted": {}, "expected": {}}
        for name, predictor in self.predictors.items():
            gram_PP = predictor.kernel.block(items, items)
            found["smallest"][name] = float(gram.smallest_eigenvalue(gram_PP))
            found["predicted"][name] = predictor.predict(items).error
            blind = ErrorPredictor(predictor.kernel, predictor.modes, None)
            found["expected"][name] = blind.predict(items).error
        found["classes"] = len(pool_of(self.data).labels[items].unique())
        return found

    def tangent(self, sets: list[Tensor]) -> list[dict[str, float]]:
        """Return λmin and predicted error of sets by the whole network's kernel."""
        pool = pool_of(self.data)
        items, places = torch.cat([self.measured, *sets]).unique(return_inverse=True)
        module = self.classifier.module
        assert module is not None
        kernel = gram.ntk_kernel(
            module,
            lambda indices: as_input(pool.images.read(items[indices])),
            len(items),
            num_classes=pool.num_classes,
            generator=stream(self.seed, "sketch"),
            **SKETCH,
        )
        measured, *rest = places.split([len(self.measured), *map(len, sets)])
        modes = gram.kernel_modes(kernel, measured)
        predictor = ErrorPredictor(kernel, modes, self.targets[items])
        return [
            {
                "smallest": float(gram.smallest_eigenvalue(kernel.block(part, part))),
                "predicted": predictor.predict(part).error,
            }
            for part in rest
        ]


def judged_sets(name: str) -> Iterator[dict[str, Any]]:
    """Yield all sets of a pool, before training."""
    for seed in range(NUM_NETWORKS):
        network = Untrained(name, seed)
        plan = [(draws, k) for draws, times in SETS.items() for k in range(times)]
        sets = [network.chosen(draws, number) for draws, number in plan]
        for (draws, number), items, whole in zip(
            plan, sets, network.tangent(sets), strict=True
        ):
            line = {"data": name, "network": seed, "draws": draws, "set": number}
            line |= network.judged(items)
            for measure, value in whole.items():
                line[measure]["tangent"] = value
            yield line | {"items": items.tolist()}


def key_of(line: dict[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a set."""
    return line["set"], line["draws"], line["network"], line["data"]


def train(path: Path) -> None:
    """Train on every set that is not in the record, and add it."""
    text = path.read_text("utf-8") if path.exists() else ""
    done = {key_of(json.loads(line)) for line in text.splitlines()}
    # Those of all networks grow side by side.
    sets = (line for name in DATA for line in sorted(judged_sets(name), key=key_of))
    for line in sets:
        if key_of(line) in done:
            continue
        begin = time.process_time()
        classifier = Untrained(line["data"], line["network"]).fit(
            torch.tensor(line["items"])
        )
        test = pool_of(line["data"]).test
        assert test is not None
        line["accuracy"] = accuracy(classifier, test)
        line["seconds"] = round(time.process_time() - begin, 1)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(key_of(line), line["accuracy"], line["seconds"], flush=True)


def judged_rounds(record: str) -> Iterator[dict[str, Any]]:
    """Yield the labeled sets of a benchmark's record, but for what runs begin with."""
    path = RESULTS / f"{record}.jsonl"
    runs = [json.loads(text) for text in path.read_text("utf-8").splitlines()]
    names = [number_of(name) for name in pool_of(RECORDS[record]).ids]
    places = {name: index for index, name in enumerate(names)}
    for seed in sorted({run["seed"] for run in runs}):
        own = [run for run in runs if run["seed"] == seed]
        for step in range(1, len(own[0]["rounds"])):
            network = Untrained(RECORDS[record], seed, step)
            for run in own:
                asked = [line["ids"] for line in run["rounds"][:step]]
                chosen = [*run["start"], *chain(*asked)]
                items = torch.tensor([places[number_of(name)] for name in chosen])
                reached = run["rounds"][step]
                yield {
                    "record": record,
                    "seed": seed,
                    "strategy": run["strategy"],
                    "num_labeled": reached["num_labeled"],
                    **network.judged(items),
                    "accuracy": reached["accuracy"],
                }


def write(path: Path, found: Iterator[dict[str, Any]]) -> None:
    """Write a record anew, as it is computed."""
    with (
        files.replace_file(path) as partial,
        partial.open("w", encoding="utf-8") as file,
    ):
        for line in found:
            file.write(json.dumps(line) + "\n")


def main() -> None:
    """Judge, train, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--runs", nargs="*", metavar="RECORD", choices=RECORDS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.runs is not None:
        names = given.runs or [n for n in RECORDS if (RESULTS / f"{n}.jsonl").exists()]
        write(RUNS, (line for name in names for line in judged_rounds(name)))
    else:
        train(given.out)


if __name__ == "__main__":
    main()
