"""Which learner makes the most of few random labels, on five data sets.

Every learner of the package at three numbers of labels: on digits, MNIST and
Fashion-MNIST (5,000 images at 14 x 14 pixels) at 10, 30 and 50, from pixels; on
CIFAR-10 and CIFAR-100 (10,000 images) at 40, 100 and 250, and at 200, 400 and 1,000,
over features of EfficientNet-Lite0 at 160 pixels. Labels are drawn from the whole pool
at random, the same ones for all learners with a seed. Each pool has a long-tailed twin,
whose first class is 20 times as frequent as its last; test images are even. Learners
that take no steps have ten seeds, the others five.

``FEWLABELS_DATA=DIR python benchmarks/learners.py run --bench FOLDER`` does what is
missing, by the engine of ``fewlabels bench run``: what is in the record is not done
again, and what was interrupted goes on. ``times`` measures the processor time of one
training by each learner; ``make study-report`` makes the tables of docs/learners.md.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fewlabels import data, files, rng, training
from fewlabels.experiments.acquisition import hidden
from fewlabels.experiments.bench import BenchFolder, Cell, run_cells
from fewlabels.experiments.bench.recipes import long_tail
from fewlabels.experiments.settings import Choice, RunSettings
from fewlabels.jobs import LocalExecutor
from fewlabels.names import identity
from fewlabels.pool import Answers

RESULTS = Path(__file__).parent / "results"
RECORD, TIMES = RESULTS / "learners.jsonl", RESULTS / "learner_times.json"
PIXELS, EARLIER_PIXELS = 160, 96
POOLS = ("even", "long-tailed")
RIVAL = "fixmatch-darp"
"""The paper's, which all others are compared with."""
ALIGNED = (RIVAL, "fixmatch-da")
"""Other learners can be aligned as well; FixMatch stands for all."""
OVER_PIXELS = {"encoder": "pixels", "scale": "common", "pool_weight": 1000.0}
"""How a linear head takes the pixels of small images."""
GRAPHS = ("spreading", "poisson", "ot")
LATER = ("blend",)  # learners that came after the table and are not in its record
"""Heads that may be told, as DARP is, that classes are equally frequent."""


class Source(NamedTuple):
    """A data set, and at how many labels learners are compared on it."""

    name: str
    num_labels: tuple[int, ...]
    even: Sequence[int] | None
    tail: Sequence[int]
    is_frozen: bool = False
    options: Mapping[str, Any] = {}

    def data(self, pool: str) -> Choice:
        """Return one of its two pools."""
        counts = self.even if pool == "even" else self.tail
        given = {} if counts is None else {"counts": list(counts)}
        return Choice(name=self.name, options={**self.options, **given})


_FEW, _SMALL = (10, 30, 50), {"size": 14}
_TAIL, _HUNDRED = long_tail(1500, num_classes=10), [100] * 100
SOURCES = (
    Source("digits", _FEW, None, long_tail(120, num_classes=10)),
    Source("mnist", _FEW, [500] * 10, _TAIL, options=_SMALL),
    Source("fashion-mnist", _FEW, [500] * 10, _TAIL, options=_SMALL),
    Source(
        *("cifar10", (40, 100, 250), [1000] * 10, long_tail(3000, num_classes=10)),
        is_frozen=True,
    ),
    Source(
        *("cifar100", (200, 400, 1000), _HUNDRED, long_tail(300, num_classes=100)),
        is_frozen=True,
    ),
)


class Row(NamedTuple):
    """A learner of the table."""

    label: str
    trainer: Choice
    takes_steps: bool

    @property
    def num_seeds(self) -> int:
        """How often it is repeated."""
        return 5 if self.takes_steps else 10


def rows(source: Source) -> Iterator[Row]:
    """Yield what is compared on a data set."""
    prefix = "frozen-" if source.is_frozen else ""
    own = {"encoder_options": {"size": PIXELS}} if source.is_frozen else {}
    for name in training.names():
        label = name.removeprefix("frozen-")
        is_left_out = label.endswith(("-darp", "-da")) and label not in ALIGNED
        is_left_out |= label in LATER
        if name == "linear":  # which takes rows
            if not source.is_frozen:
                yield row(label, "frozen-linear", OVER_PIXELS)
        elif name == prefix + label and not is_left_out:
            yield row(label, name, own)
            if label in GRAPHS:
                yield row(f"{label}, even", name, {**own, "shares": "even"})
    if source.name == "cifar10":  # what photographs were trained with before
        own = {"encoder_options": {"size": EARLIER_PIXELS}}
        label = f"{RIVAL}, {EARLIER_PIXELS} pixels"
        yield row(label, f"frozen-{RIVAL}", own)


def row(label: str, name: str, options: Mapping[str, Any]) -> Row:
    """Return a learner that is measured after its last step alone."""
    steps = training.make(name).num_steps
    last = {} if steps is None else {"checkpoint_every": steps}
    trainer = Choice(name=name, options={**options, **last})
    made = trainer.copy_with(made=identity(training.make(name, **trainer.options)))
    return Row(label, made, steps is not None)


class Place(NamedTuple):
    """Where a training stands in the tables."""

    data: str
    pool: str
    labels: int
    learner: str
    seed: int


def plan(sources: Sequence[str], names: Sequence[str]) -> Iterator[tuple[Place, Cell]]:
    """Yield every training on some data by some learners, quick ones and seeds first.

    Those on the same pool follow each other, so that it is loaded and joined once.

    All labels of a run are asked for at once, by an untrained network and at random.
    """
    found: list[tuple[bool, int, str, str, Place, Cell]] = []
    for source in (one for one in SOURCES if one.name in sources):
        for one in rows(source):
            if names and one.label not in names:
                continue
            for pool in POOLS:
                for number in source.num_labels:
                    settings = RunSettings(
                        data=source.data(pool),
                        strategy=Choice(name="random"),
                        trainer=one.trainer,
                        start=0,
                        query=number,
                        budget=number,
                    )
                    for seed in range(one.num_seeds):
                        place = Place(source.name, pool, number, one.label, seed)
                        cell = Cell(settings.model_copy(update={"seed": seed}))
                        order = (one.takes_steps, seed, source.name, pool)
                        found.append((*order, place, cell))
    for *_, place, cell in sorted(found, key=lambda one: one[:4]):
        yield place, cell


def run(arguments: argparse.Namespace) -> None:
    """Do the trainings that the record lacks."""
    done = {place_of(line) for line in recorded(arguments.record)}
    every = plan(arguments.data, arguments.learners)
    missing = {c.address: (place, c) for place, c in every if place not in done}
    print(f"{len(missing)} trainings to do", flush=True)
    folder = BenchFolder(arguments.bench.absolute())
    folder.open()
    engine = LocalExecutor(arguments.workers)
    cells = [cell for _, cell in missing.values()]
    for number, ended in enumerate(run_cells(cells, folder, engine), 1):
        place, cell = missing[ended.cell.address]
        told = ended.error or ""
        if not told:
            result = folder.result(cell)
            line, seconds = result.lines[-1], result.timings[-1].get("train_seconds")
            own = {"accuracy": line.accuracy, "seconds": seconds}
            files.append_entry(arguments.record, {**place._asdict(), **own})
            told = f"{line.accuracy:.4f}"
        print(
            f"{number}/{len(missing)}  {', '.join(map(str, place))}: {told}", flush=True
        )


def recorded(path: Path) -> list[dict[str, Any]]:
    """Return the lines of the record."""
    return files.read_entries(path) if path.exists() else []


def place_of(line: Mapping[str, Any]) -> Place:
    """Return where a line of the record belongs."""
    return Place(*(line[name] for name in Place._fields))


# -------------------------------------------------------------------------- the times


def times(path: Path, sources: Sequence[str], names: Sequence[str]) -> None:
    """Measure one training by each learner, digits at 30 labels, CIFAR-10 at 40."""
    torch.set_num_threads(1)
    told = json.loads(path.read_text())["seconds"] if path.exists() else {}
    for source, number in ((SOURCES[0], 30), (SOURCES[3], 40)):
        if source.name not in sources:
            continue
        choice = source.data("even")
        whole = data.load(choice.name, **choice.options)
        order = torch.randperm(len(whole), generator=rng.stream(0, "labels"))
        sets = iter(order.split(number))  # what was found for labels is remembered, too
        own = told.setdefault(source.name, {})
        for one in (row for row in rows(source) if not names or row.label in names):
            trainer = training.make(one.trainer.name, **one.trainer.options)
            for _ in range(2):  # at first rows, or a graph, are made
                items = next(sets)
                pool = hidden(whole, number).with_answers(
                    Answers(items, whole.labels[items])
                )
                begin = time.process_time()
                trainer.fit(pool, rng.stream(0, "train"))
                own[one.label] = round(time.process_time() - begin, 4)
            print(source.name, one.label, own[one.label], flush=True)
    path.write_text(json.dumps({"seconds": told}, indent=1) + "\n")


def main() -> None:
    """Do what was asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("run", "times"))
    parser.add_argument("--bench", type=Path, default=Path("bench-learners"))
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--workers", type=int)
    data_sets = [one.name for one in SOURCES]
    labels = sorted({row.label for source in SOURCES for row in rows(source)})
    parser.add_argument("--data", nargs="+", choices=data_sets, default=data_sets)
    parser.add_argument("--learners", nargs="+", choices=labels, default=[])
    arguments = parser.parse_args()
    if arguments.what == "run":
        run(arguments)
    else:
        times(TIMES, arguments.data, arguments.learners)


if __name__ == "__main__":
    main()
