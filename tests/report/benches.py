"""Benchmarks that were never run: run folders with numbers known beforehand."""

from fewlabels import files
from fewlabels.experiments.bench.experiment import (
    Condition,
    Experiment,
    Footprint,
    cell_of,
    noise_cells,
)
from fewlabels.experiments.bench.folder import BenchFolder, Failure
from fewlabels.experiments.runs import RoundLine
from fewlabels.experiments.settings import Choice, RunSettings

POOL_SIZE = 1000
CLASSES = ("a", "b", "c", "d")


def condition(name="", **changed):
    settings = {
        "data": Choice(name="toys"),
        "trainer": Choice(name="fixmatch", options={"steps": 400}),
        "start": 4,
        "query": 4,
        "budget": 12,
    }
    return Condition(name=name, settings=RunSettings(**settings | changed))


def experiment(**changed):
    given = {
        "name": "toys",
        "title": "Toys",
        "conditions": (condition(),),
        "strategies": (Choice(name="random"), Choice(name="npc")),
        "seeds": (0, 1, 2),
        "footprint": Footprint(seconds_per_step=0.1, megabytes=1.0),
    }
    return Experiment(**given | changed)


def name_of(item):
    return f"toy-{item}"


def facts(**changed):
    base = {
        "data": {
            "num_items": POOL_SIZE,
            "num_test": 500,
            "classes": list(CLASSES),
            "shape": [1, 8, 8],
            "hash": "f00d" * 16,
        },
        "versions": {"python": "3.11.2", "torch": "2.13.0"},
        "platform": "Linux",
    }
    return base | changed


class Bench:
    """Writes the runs of an experiment."""

    def __init__(self, path, asked):
        self.folder = BenchFolder(path)
        self.folder.open()
        self.experiment = self.folder.ask_for(asked)

    def run(
        self, strategy, seed, accuracies, number=0, picks=None, name=name_of, **more
    ):
        """Write a run; with fewer accuracies than rounds it is not finished.

        ``picks`` are the items of all queries in turn.
        """
        one = self.experiment.conditions[number]
        choice = next(c for c in self.experiment.strategies if c.label == strategy)
        cell = cell_of(one, choice, seed)
        own = self.folder.run_folder(cell)
        own.path.mkdir(parents=True)
        own.begin(cell.settings, facts(**more))
        settings = cell.settings
        labeled = [10 * seed + item for item in range(settings.start)]
        own.write_start({name(item): item % len(CLASSES) for item in labeled})
        withheld = settings.zero_shot
        begin = 100 + 50 * seed + 7 * choice_number(self.experiment, strategy)
        left = list(picks if picks is not None else range(begin, begin + 200))
        steps = cell.num_rounds
        for step, accuracy in enumerate(accuracies):
            size = (
                0
                if step == steps - 1
                else min(settings.query, settings.budget - len(labeled))
            )
            asked, left = left[:size], left[size:]
            counted = [] if withheld and step == 0 else labeled
            counts = [
                sum(item % len(CLASSES) == c for item in counted)
                for c in range(len(CLASSES))
            ]
            own.append(
                RoundLine(
                    step=step,
                    num_labeled=len(counted),
                    median_accuracy=None,
                    accuracy=accuracy,
                    ids=tuple(name(item) for item in asked),
                    indices=tuple(range(len(asked))),
                    labels=tuple(item % len(CLASSES) for item in asked),
                    class_counts=tuple(counts),
                    kernel=None, value=None, ceiling=None, tie=None, record={},
                ),
                {"train_seconds": 10.0 + step}
                | ({"query_seconds": 0.5, "query_peak_mb": 120.0} if size else {}),
            )  # fmt: skip
            labeled = labeled + asked
        return self

    def note(self, strategy, seed, text):
        cell = self.cell(strategy, seed)
        files.append_entry(self.folder.notes_file(cell), {"note": text})

    def fail(self, strategy, seed, error):
        cell = self.cell(strategy, seed)
        failure = Failure(label=cell.label, error=error)
        self.folder.write_failure(cell, failure)

    def cell(self, strategy, seed, number=0):
        choice = next(c for c in self.experiment.strategies if c.label == strategy)
        return cell_of(self.experiment.conditions[number], choice, seed)

    def retrain(self, accuracies):
        """Write trainings on one label set."""
        for cell, accuracy in zip(
            noise_cells(self.experiment), accuracies, strict=False
        ):
            own = self.folder.run_folder(cell)
            own.path.mkdir(parents=True)
            own.begin(cell.settings, facts())
            own.write_start({name_of(item): 0 for item in range(cell.settings.start)})
            own.append(
                RoundLine(
                    step=0, num_labeled=cell.settings.start, accuracy=accuracy,
                    median_accuracy=None, ids=(),
                    indices=(), labels=(), class_counts=(cell.settings.start, 0, 0, 0),
                    kernel=None, value=None, ceiling=None, tie=None, record={},
                ),
                {"train_seconds": 9.0},
            )  # fmt: skip


def choice_number(asked, strategy):
    return [one.label for one in asked.strategies].index(strategy)
