"""Practical budgets: what labels are worth from 2 to 64 for each class.

The plan, written before the first run.

Question: how many random labels does it take to reach what 120 chosen labels reach, if
the same learner gets them, and which strategy should be the default?

Data: pools of 4,000 images and 2,000 test images: CIFAR-10, CIFAR-100 in its 20 groups,
and both uneven (class sizes fall by a factor of 20, test images are even, so that
accuracy is mean recall), over features of EfficientNet-Lite0 at 160 pixels; MNIST and
Fashion-MNIST at 28 pixels, and 1,000 of digits, over pixels. Pools with the same seed
have no image in common; pools of different seeds may.

Runs begin without a label and ask for 20, 20, 40, 40, 40, 80, 80, 160 and 160. Random
labels go to 640 everywhere, the strategies of ``LONG`` too in the screening on even
photographs, all others to 320. (Shortened after the first dozen runs, which had shown
what 640 labels cost: at first all were to go to 640 there.)

1. Screening: every strategy with ``blend``, eight pools of each data set; the four
   strategies of ``FEW`` also with ``spreading`` and ``linear``, on even photographs.
2. Confirmation on fresh pools: random labels and the four strategies that are best in
   the screening by their mean accuracy from 20 to 320 labels, averaged over data sets;
   50 pools of each even set of photographs, 25 of each uneven one, 20 of each of the
   others.

The default is the strategy with the highest mean of the same kind in the confirmation;
where its lead over a quicker one is within the 95 % interval of paired differences,
the quicker one. Labels saved: how many random labels reach the same mean accuracy, with
intervals by resampling pools. At most twelve core-hours.

``FEWLABELS_DATA=DIR python -m benchmarks.practical screen --bench FOLDER`` does what
the record lacks, by the engine of ``fewlabels bench run``.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.study import RESULTS, recorded

from fewlabels import files
from fewlabels.experiments.bench import (
    BenchFolder,
    Cell,
    Condition,
    Experiment,
    run_cells,
)
from fewlabels.experiments.bench.experiment import Footprint, checked, plan
from fewlabels.experiments.bench.recipes import long_tail
from fewlabels.experiments.settings import Choice, RunSettings
from fewlabels.jobs import LocalExecutor

RECORD = RESULTS / "practical.jsonl"
QUERIES = [20, 20, 40, 40, 40, 80, 80, 160, 160]
MOST, LESS = 640, 320

_IN_KERNEL = {"kernel": "joint", "power": 2.0, "noise": 0.3}
STRATEGIES = {
    "random": Choice(name="random"),
    "margin": Choice(name="margin"),
    "entropy": Choice(name="entropy"),
    "coreset": Choice(name="coreset"),
    "badge": Choice(name="badge"),
    "typiclust": Choice(name="typiclust"),
    "bait": Choice(name="bait"),
    "npc": Choice(name="npc", options={"tie_tolerance": 0.0}),
    "npc, graph": Choice(
        name="npc", options={"kernel": "diffusion", "weights": "influence"}
    ),
    "outward": Choice(name="outward"),
    "outward, joint": Choice(name="outward", options=_IN_KERNEL),
    "v-opt, joint": Choice(name="v-opt", options=_IN_KERNEL),
    "uherding": Choice(name="uherding"),
    "dropquery": Choice(name="benchmarks.rivals:DropQuery"),
    "typiclust, then margin": Choice(name="benchmarks.rivals:TypiClustThenMargin"),
}
"""What is compared; npc is as printed. The joint kernel is that of ``blend``."""
FEW = ("random", "typiclust", "v-opt, joint", "uherding")
LONG = (*FEW, "margin", "badge")
LEARNERS = ("blend", "spreading", "linear")


class Source(NamedTuple):
    """A data set, of which pools are drawn."""

    name: str
    data: str
    counts: Sequence[int]
    tests: int | None
    """Test images of each class."""
    num_parts: int
    """How many pools of one seed have no image in common."""
    num_confirming: int
    is_photographs: bool = True
    is_even: bool = True

    def pool(self, number: int) -> Choice:
        """Return one of its pools."""
        seed, part = divmod(number, self.num_parts)
        options: dict[str, Any] = {"counts": list(self.counts), "seed": seed}
        options |= {"part": part} if self.num_parts > 1 else {}
        options |= {} if self.tests is None else {"tests": self.tests}
        return Choice(name=self.data, options=options)

    def trainer(self, learner: str) -> Choice:
        """Return the trainer that a learner is on these data."""
        if not self.is_photographs:
            return Choice(name=learner)
        size = {"encoder_options": {"size": 160}}
        return Choice(name=f"frozen-{learner}", options=size)


def _uneven(most: int, num_classes: int) -> list[int]:
    return long_tail(most, num_classes=num_classes)


SOURCES = (
    Source("cifar10", "cifar10", [400] * 10, 200, 12, 50),
    Source("20 groups", "cifar20", [200] * 20, 100, 12, 50),
    Source("cifar10, uneven", "cifar10", _uneven(1171, 10), 200, 4, 25, is_even=False),
    Source("20 groups, uneven", "cifar20", _uneven(610, 20), 100, 4, 25, is_even=False),
    Source("mnist", "mnist", [400] * 10, 200, 12, 20, is_photographs=False),
    Source(
        "fashion-mnist", "fashion-mnist", [400] * 10, 200, 12, 20, is_photographs=False
    ),
    Source("digits", "digits", [100] * 10, None, 1, 20, is_photographs=False),
)
NUM_SCREENING, FIRST_CONFIRMING = 8, 96


def experiments(
    stage: str, data: Sequence[str], strategies: Sequence[str], learners: Sequence[str]
) -> Iterator[tuple[Source, str, Experiment]]:
    """Yield what is compared: data, learner, and runs of the same budget."""
    for source in (one for one in SOURCES if one.name in data):
        pools = range(NUM_SCREENING)
        if stage == "confirm":
            pools = range(FIRST_CONFIRMING, FIRST_CONFIRMING + source.num_confirming)
        is_long = stage == "screen" and source.is_photographs and source.is_even
        for learner in learners:
            is_other = learner != LEARNERS[0]
            if is_other and not is_long:
                continue
            budgets: dict[int, list[Choice]] = {}
            for name in strategies:
                if name in FEW or not is_other:
                    goes_on = is_long and name in LONG
                    budget = MOST if goes_on or name == "random" else LESS
                    budgets.setdefault(budget, []).append(STRATEGIES[name])
            for budget, chosen in budgets.items():
                words = f"{stage} {source.name} {learner} {budget}".replace(",", "")
                yield (
                    source,
                    learner,
                    Experiment(
                        name="_".join(words.split()),
                        title=f"{source.name}, {learner}",
                        conditions=tuple(
                            Condition(
                                name=f"pool {pool}",
                                settings=RunSettings(
                                    data=source.pool(pool),
                                    trainer=source.trainer(learner),
                                    start=0,
                                    query=QUERIES,
                                    budget=budget,
                                ),
                            )
                            for pool in pools
                        ),
                        strategies=tuple(chosen),
                        seeds=(0,),
                        footprint=Footprint(seconds_per_step=0.5, megabytes=0.1),
                    ),
                )


def planned(
    stage: str, folder: BenchFolder, *chosen: Sequence[str]
) -> Iterator[tuple[dict[str, Any], Cell]]:
    """Yield the runs of a stage and their places in the record."""
    names = {choice.label: name for name, choice in STRATEGIES.items()}
    for source, learner, named in experiments(stage, *chosen):
        experiment = checked(named)
        folder.ask_for(experiment)
        numbers = {
            one.settings.data.model_dump_json(): int(one.name.split()[1])
            for one in experiment.conditions
        }
        for cell in plan(experiment).all:
            settings = cell.settings
            place = {"stage": stage, "data": source.name, "learner": learner}
            place |= {"strategy": names[settings.strategy.label]}
            yield place | {"pool": numbers[settings.data.model_dump_json()]}, cell


def run(arguments: argparse.Namespace) -> None:
    """Do the runs that the record lacks, and write down their results."""
    folder = BenchFolder(arguments.bench.absolute())
    folder.open()
    done = {_key(line) for line in recorded(arguments.record)}
    chosen = (arguments.data, arguments.strategies, arguments.learners)
    every = planned(arguments.stage, folder, *chosen)
    todo = {_key(place): (place, cell) for place, cell in every}
    # Pool by pool, so that runs share a graph and what is done can be compared.
    order = sorted(todo.keys() - done, key=lambda key: (key[1], key[-1], key))
    places = {todo[key][1].address: todo[key][0] for key in order}
    cells = [todo[key][1] for key in order]
    engine = LocalExecutor(arguments.workers)
    for number, ended in enumerate(run_cells(cells, folder, engine), 1):
        cell, words = ended.cell, ended.error or ""
        if not words:
            kept = folder.result(cell)
            lines = kept.lines
            seconds = [timing.get("query_seconds") or 0.0 for timing in kept.timings]
            result = {
                "labels": [line.num_labeled for line in lines],
                "accuracy": [line.accuracy for line in lines],
                "classes": [sum(c > 0 for c in line.class_counts) for line in lines],
                "seconds": [round(one, 2) for one in seconds],
            }
            files.append_entry(arguments.record, {**places[cell.address], **result})
            for network in folder.run_folder(cell).path.rglob("*.safetensors"):
                network.unlink()
            words = str([round(100 * one, 1) for one in result["accuracy"]])
        where = " / ".join(map(str, _key(places[cell.address])))
        print(f"{number}/{len(cells)} {where}: {words}", flush=True)


def _key(place: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(place[k] for k in ("stage", "data", "learner", "strategy", "pool"))


def main() -> None:
    """Do what was asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=("screen", "confirm"))
    parser.add_argument("--bench", type=Path, default=Path("bench-practical"))
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--workers", type=int)
    every = [one.name for one in SOURCES]
    parser.add_argument("--data", nargs="+", default=every, choices=every)
    parser.add_argument(
        "--strategies", nargs="+", default=list(STRATEGIES), choices=list(STRATEGIES)
    )
    parser.add_argument("--learners", nargs="+", default=LEARNERS[:1], choices=LEARNERS)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
