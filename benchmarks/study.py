"""Which labels are worth asking for: query strategies at very few labels.

What is compared, on what, with which seeds, and what counts as a win is said in
docs/study.md, which was written before the first run. ``screen`` has ten pools for
every strategy; ``confirm`` has thirty others for the best of them. Pools of one data
set are drawn from it anew each time: many strategies leave nothing to chance, so that
on one pool all repetitions would be the same.

``FEWLABELS_DATA=DIR python benchmarks/study.py run screen --bench FOLDER`` does what
the record lacks, by the engine of ``fewlabels bench run``; what was interrupted goes
on, and ``fewlabels bench verify FOLDER`` does a run again. Networks are not kept: they
can be made again, and would fill the disk.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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

RESULTS = Path(__file__).parent / "results"
RECORD = RESULTS / "study.jsonl"

_LARGEST_VALUE = {"tie_tolerance": 0.0}
_ON_GRAPH = {"kernel": "diffusion", "weights": "influence"}
SELECTORS = {
    "random": Choice(name="random"),
    "margin": Choice(name="margin"),
    "entropy": Choice(name="entropy"),
    "coreset": Choice(name="coreset"),
    "badge": Choice(name="badge"),
    "typiclust": Choice(name="typiclust"),
    "probcover": Choice(name="probcover"),
    "uherding": Choice(name="uherding"),
    "maxdet": Choice(name="maxdet"),
    "npc": Choice(name="npc", options=_LARGEST_VALUE),
    "npc, clusters": Choice(name="npc", options={"proposal": "clusters"}),
    "npc, greedy": Choice(name="npc", options={"method": "greedy"}),
    "npc, diffusion": Choice(name="npc", options=_ON_GRAPH),
    "outward": Choice(name="outward"),
    "v-opt": Choice(name="v-opt"),
    "sigma-opt": Choice(name="sigma-opt"),
    "rdss": Choice(name="rdss"),
    "medoids": Choice(name="medoids"),
}
"""What is compared, beside the oracle; npc is as printed."""
AFTERWARDS = {"outward, even": Choice(name="outward", options={"power": 0.0})}
"""What was added when all was known, to see why: where doubt does not count."""
ORACLE = "stratified"
"""Random labels, equally many of each class: nobody can ask for that."""
AGAIN = "retraining"
"""Trainings on one such set: how much of the spread is the chance of training."""
HEADS = ("spreading", "ot", "fixmatch-darp", "supervised")
STEPLESS, STEPPED = HEADS[:2], HEADS[2:]
"""Heads without training steps, and networks, which have ten confirming pools."""
STAGES = {
    "screen": range(10),
    "confirm": range(100, 130),
    "afterwards": range(100, 130),
}


class Source(NamedTuple):
    """A data set, of which pools are drawn."""

    name: str
    data: Choice
    num_classes: int
    pixels: int | None = None
    """Size at which an encoder sees the images; None: learners see the pixels."""
    is_even: bool = True
    is_slow: bool = False
    """Whether queries take so long that there are ten confirming pools alone."""

    def pools(self, stage: str, head: str) -> range:
        """Return the seeds of a stage's pools."""
        if self.is_slow and stage == "screen":
            return range(0)
        is_short = self.is_slow or head in STEPPED
        return STAGES[stage][:10] if is_short else STAGES[stage]

    def pool(self, seed: int) -> Choice:
        """Return one of its pools."""
        return Choice(name=self.data.name, options={**self.data.options, "seed": seed})

    def trainer(self, head: str) -> Choice:
        """Return the trainer that a head is on these data."""
        options: dict[str, Any] = {}
        if head == "ot" and self.is_even:  # as DARP is told
            options["shares"] = "even"
        if self.pixels is not None:
            options["encoder_options"] = {"size": self.pixels}
        name = head if self.is_even else head.removesuffix("-darp")
        prefix = "" if self.pixels is None else "frozen-"
        return Choice(name=prefix + name, options=options)


def _data(name: str, counts: Sequence[int], **options: int) -> Choice:
    return Choice(name=name, options={"counts": list(counts), **options})


_TWO_THOUSAND = [200] * 10
SOURCES = (
    Source("digits", _data("digits", [100] * 10), 10),
    Source("mnist", _data("mnist", _TWO_THOUSAND, size=14), 10),
    Source("fashion-mnist", _data("fashion-mnist", _TWO_THOUSAND, size=14), 10),
    Source(
        "mnist, long-tailed",
        _data("mnist", long_tail(600, num_classes=10), size=14),
        10,
        is_even=False,
    ),
    Source("cifar10", _data("cifar10", _TWO_THOUSAND), 10, 160),
    Source("cifar10, blurred", _data("cifar10", _TWO_THOUSAND), 10, 48),
    Source("cifar100", _data("cifar100", [20] * 100), 100, 160, is_slow=True),
)
"""Blurred: seen by the encoder at 48 pixels, where it recognizes little."""

LABELS_EACH, AT_ONCE = 4, 2
"""Labels for each class at the end of a loop, and where all are asked for at once."""


def experiment(
    source: Source, head: str, selectors: Sequence[str], stage: str
) -> Experiment:
    """Return the comparison of strategies on the pools of a stage, with one learner."""
    each = source.num_classes
    asked = {"loop": (each, AT_ONCE * each)}  # where the main question is asked
    if stage == "screen":
        asked = {
            "loop": (each, LABELS_EACH * each),
            "at once": (AT_ONCE * each, AT_ONCE * each),
        }
    conditions = [
        condition(source, head, f"{name}, pool {seed}", seed, 0, *numbers)
        for seed in source.pools(stage, head)
        for name, numbers in asked.items()
    ]
    return Experiment(
        name="_".join(f"{stage} {source.name} {head}".replace(",", "").split()),
        title=f"{source.name}, {head}",
        conditions=tuple(conditions),
        strategies=tuple((SELECTORS | AFTERWARDS)[name] for name in selectors),
        seeds=(0,),
        retrainings=10 * (stage == "confirm" and head == "fixmatch-darp"),
        footprint=Footprint(seconds_per_step=0.02, megabytes=0.1),
    )


def oracle(source: Source, head: str, stage: str) -> Experiment:
    """Return trainings on labels that are even over the classes."""
    conditions = [
        condition(source, head, f"{number} each, pool {seed}", seed, budget, 1, budget)
        for seed in source.pools(stage, head)
        for number in ((1, 2, 4) if stage == "screen" else (1, 2))
        for budget in (number * source.num_classes,)
    ]
    asked = experiment(source, head, ["random"], stage)
    return asked.model_copy(
        update={
            "name": f"{asked.name}_{ORACLE}",
            "conditions": tuple(conditions),
            "retrainings": 0,
        }
    )


def condition(
    source: Source, head: str, name: str, seed: int, start: int, query: int, budget: int
) -> Condition:
    """Return the settings of runs on one pool."""
    settings = RunSettings(
        data=source.pool(seed),
        trainer=source.trainer(head),
        start=start,
        query=query,
        budget=budget,
    )
    return Condition(name=name, settings=settings)


def planned(
    stage: str, data: Sequence[str], heads: Sequence[str], selectors: Sequence[str]
) -> Iterator[tuple[Source, str, Experiment]]:
    """Yield the experiments of a stage: data, learner, comparison."""
    for source in (one for one in SOURCES if one.name in data):
        for head in (one for one in heads if source.pools(stage, one)):
            yield source, head, experiment(source, head, selectors, stage)
            if stage != "afterwards":
                yield source, head, oracle(source, head, stage)


def place_of(source: Source, head: str, cell: Cell) -> dict[str, Any]:
    """Return where a run stands in the record."""
    settings = cell.settings
    known = {choice.label: name for name, choice in (SELECTORS | AFTERWARDS).items()}
    if cell.is_asking:
        selector, query = known[settings.strategy.label], settings.query
    elif settings.seeds.start is None:
        selector, query = ORACLE, 0
    else:
        selector, query = AGAIN, settings.seed
    return {
        "data": source.name,
        "head": head,
        "selector": selector,
        "query": query,
        "pool": settings.data.options["seed"],
    }


def line_of(cell: Cell, folder: BenchFolder) -> Mapping[str, Any]:
    """Return what is kept of a run, beside its place."""
    result = folder.result(cell)
    lines = result.lines
    return {
        "labels": [line.num_labeled for line in lines],
        "accuracy": [line.accuracy for line in lines],
        "classes": [sum(count > 0 for count in line.class_counts) for line in lines],
        "items": [line.indices for line in lines if line.indices],
        "seconds": [
            round(timing.get("query_seconds") or 0.0, 3) for timing in result.timings
        ],
    }


def run(arguments: argparse.Namespace) -> None:
    """Do the runs that the record lacks, and write down what they came to."""
    stage, folder = arguments.stage, BenchFolder(arguments.bench.absolute())
    folder.open()
    engine = LocalExecutor(arguments.workers)
    done = {_key(line, line["labels"][-1]) for line in recorded(arguments.record)}
    told = (arguments.data, arguments.heads, arguments.selectors)
    for source, head, named in planned(stage, *told):
        one = checked(named)
        folder.ask_for(one)
        places = {
            cell.address: {"stage": stage, **place_of(source, head, cell)}
            for cell in plan(one).all
        }
        todo = {
            _key(places[cell.address], cell.settings.budget): cell
            for cell in plan(one).all
        }
        missing = [cell for key, cell in todo.items() if key not in done]
        for number, ended in enumerate(run_cells(missing, folder, engine), 1):
            cell, said = ended.cell, ended.error or ""
            if not said:
                line = line_of(cell, folder)
                files.append_entry(arguments.record, {**places[cell.address], **line})
                for network in folder.run_folder(cell).path.rglob("*.safetensors"):
                    network.unlink()
                said = str(line["accuracy"])
            count = f"{one.name} {number}/{len(missing)}"
            print(f"{count}: {cell.label}: {said}", flush=True)


def recorded(path: Path) -> list[dict[str, Any]]:
    """Return the lines of the record."""
    return files.read_entries(path) if path.exists() else []


def _key(place: Mapping[str, Any], num_labels: int) -> tuple[Any, ...]:
    names = ("stage", "data", "head", "selector", "query", "pool")
    return (*(place[name] for name in names), num_labels)


def main() -> None:
    """Do what was asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("run",))
    parser.add_argument("stage", choices=tuple(STAGES))
    parser.add_argument("--bench", type=Path, default=Path("bench-study"))
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--workers", type=int)
    every = [one.name for one in SOURCES]
    parser.add_argument("--data", nargs="+", default=every, choices=every)
    parser.add_argument("--heads", nargs="+", default=list(STEPLESS), choices=HEADS)
    known = [*SELECTORS, *AFTERWARDS]
    parser.add_argument(
        "--selectors", nargs="+", default=list(SELECTORS), choices=known
    )
    run(parser.parse_args())


if __name__ == "__main__":
    main()
