"""Which labels are worth asking for: query strategies at very few labels.

What is compared, on what, with which seeds, and what counts as a win is said in
docs/study.md, which was written before the first run. ``screen`` has ten pools for
every strategy; ``confirm`` has thirty others for the best of them. Pools of one data
set are drawn from it anew each time: many strategies leave nothing to chance, so that
on one pool all repetitions would be the same.

``FEWLABELS_DATA=DIR python benchmarks/study.py run screen --bench FOLDER`` does what is
missing, by the engine of ``fewlabels bench run``; what was interrupted goes on, and
``fewlabels bench verify FOLDER`` does a run again. Networks are not kept: they can be
made again, and would fill the disk.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fewlabels import bench, journal
from fewlabels.bench import BenchFolder, Cell, Condition, Experiment, Footprint
from fewlabels.bench.experiment import resolved
from fewlabels.bench.recipes.cpu import long_tail
from fewlabels.runs import Choice, RunSettings

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
ORACLE = "stratified"
"""Random labels, equally many of each class: nobody can ask for that."""
HEADS = ("spreading", "ot", "fixmatch-darp", "supervised")


class Source(NamedTuple):
    """A data set, of which pools are drawn."""

    name: str
    data: Choice
    num_classes: int
    pixels: int | None = None
    """Size at which an encoder sees the images; None: learners see the pixels."""
    is_even: bool = True

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
    Source("cifar100", _data("cifar100", [20] * 100), 100, 160),
)
"""Blurred: seen by the encoder at 48 pixels, where it recognizes little."""

STAGES = {"screen": range(10), "confirm": range(100, 130)}
LABELS_EACH, AT_ONCE = 4, 2
"""Labels for each class at the end of a loop, and where all are asked for at once."""


def experiment(
    source: Source, head: str, selectors: Sequence[str], seeds: Sequence[int]
) -> Experiment:
    """Return the comparison of strategies on some pools, with one learner."""
    each = source.num_classes
    asked = {"loop": (each, LABELS_EACH * each), "at once": (AT_ONCE * each,) * 2}
    conditions = [
        condition(source, head, f"{name}, pool {seed}", seed, 0, *numbers)
        for seed in seeds
        for name, numbers in asked.items()
    ]
    return Experiment(
        name="_".join(f"study {source.name} {head}".replace(",", "").split()),
        title=f"{source.name}, {head}",
        conditions=tuple(conditions),
        strategies=tuple(SELECTORS[name] for name in selectors),
        seeds=(0,),
        footprint=Footprint(seconds_per_step=0.02, megabytes=0.1),
    )


def oracle(source: Source, head: str, seeds: Sequence[int]) -> Experiment:
    """Return trainings on labels that are even over the classes."""
    conditions = [
        condition(source, head, f"{number} each, pool {seed}", seed, budget, 1, budget)
        for seed in seeds
        for number in (1, 2, 4)
        for budget in (number * source.num_classes,)
    ]
    asked = experiment(source, head, ["random"], seeds)
    return asked.model_copy(
        update={"name": f"{asked.name}_{ORACLE}", "conditions": tuple(conditions)}
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
    seeds = STAGES[stage]
    for source in (one for one in SOURCES if one.name in data):
        for head in heads:
            yield source, head, experiment(source, head, selectors, seeds)
            yield source, head, oracle(source, head, seeds)


def line_of(
    source: Source, head: str, cell: Cell, folder: BenchFolder
) -> Mapping[str, Any]:
    """Return what is kept of a run."""
    settings, lines = cell.settings, folder.lines(cell)
    known = {choice.label: name for name, choice in SELECTORS.items()}
    timings = folder.timings(cell)
    return {
        "data": source.name,
        "head": head,
        "selector": known[settings.strategy.label] if cell.is_asking else ORACLE,
        "query": settings.query if cell.is_asking else 0,
        "pool": settings.data.options["seed"],
        "labels": [line.num_labeled for line in lines],
        "accuracy": [line.accuracy for line in lines],
        "classes": [sum(count > 0 for count in line.class_counts) for line in lines],
        "items": [line.indices for line in lines if line.indices],
        "seconds": [round(one.get("query_seconds") or 0.0, 3) for one in timings],
    }


def run(arguments: argparse.Namespace) -> None:
    """Do the runs that are missing, and write down what they came to."""
    folder = BenchFolder(arguments.bench.absolute())
    folder.open()
    engine = bench.LocalEngine(arguments.workers)
    told = (arguments.data, arguments.heads, arguments.selectors)
    for source, head, named in planned(arguments.stage, *told):
        one = resolved(named)
        folder.ask_for(one)
        for number, ended in enumerate(bench.run(one, folder, engine), 1):
            cell = ended.cell
            said = ended.error or ""
            if not said:
                line = line_of(source, head, cell, folder)
                journal.append(arguments.record, {"stage": arguments.stage, **line})
                for network in folder.run_folder(cell).path.rglob("*.safetensors"):
                    network.unlink()
                said = str(line["accuracy"])
            print(f"{one.name} {number}: {cell.label}: {said}", flush=True)


def main() -> None:
    """Do what was asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("run",))
    parser.add_argument("stage", choices=tuple(STAGES))
    parser.add_argument("--bench", type=Path, default=Path("bench-study"))
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--data", nargs="+", default=[one.name for one in SOURCES])
    parser.add_argument("--heads", nargs="+", default=list(HEADS[:2]), choices=HEADS)
    parser.add_argument("--selectors", nargs="+", default=list(SELECTORS))
    run(parser.parse_args())


if __name__ == "__main__":
    main()
