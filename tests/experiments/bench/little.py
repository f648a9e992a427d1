"""An experiment small enough to be done many times."""

import warnings
from dataclasses import dataclass

import torch

from fewlabels.errors import DataError, TargetWarning
from fewlabels.experiments.bench.experiment import (
    Cell,
    Condition,
    Experiment,
    Footprint,
    checked,
)
from fewlabels.experiments.bench.folder import BenchFolder
from fewlabels.experiments.bench.runner import run, work
from fewlabels.experiments.settings import Choice, RunSettings
from fewlabels.pool import Query
from fewlabels.protocols import ignore

TRAINER = Choice(name="tests.experiments.runs.toy:Resuming")
FAILING = Choice(name="tests.experiments.bench.little:Failing")
UNFIT = Choice(name="tests.experiments.bench.little:Unfit")


def experiment(**changes):
    settings = RunSettings(
        data=Choice(name="digits"), trainer=TRAINER, start=10, query=5, budget=20
    )
    base = {
        "name": "toy",
        "title": "A toy",
        "conditions": (Condition(settings=settings),),
        "strategies": (Choice(name="random"), Choice(name="margin")),
        "seeds": (0, 1),
        "footprint": Footprint(seconds_per_step=0.01, megabytes=0.1),
    }
    return checked(Experiment(**base | changes))


@dataclass(frozen=True)
class Failing:
    """A strategy that breaks in the second round of the seeds that draw so."""

    def select(self, classifier, pool, size, generator, *, history=()):
        if history:
            msg = "nothing left to say"
            raise RuntimeError(msg)
        order = torch.randperm(len(pool.candidates), generator=generator)
        return Query(pool.candidates[order[:size]])


@dataclass(frozen=True)
class Unfit:
    """A trainer that warns, and then finds that the pool does not suit it."""

    def check(self, pool):
        warnings.warn("classes look uneven", TargetWarning, stacklevel=2)
        raise DataError("there is nothing to train on")

    def fit(self, pool, generator, *, workspace=None, on_checkpoint=ignore):
        raise NotImplementedError


class Here:
    """An executor that does one run after the other in this process."""

    num_workers = 1

    def __init__(self):
        self.done = []

    def run(self, call, orders, folder):
        for number, order in enumerate(orders):
            settings = RunSettings.model_validate_json(order["settings"])
            self.done.append(Cell(settings))
            yield number, {"event": "done", "result": work(**order)}


def opened(path):
    folder = BenchFolder(path)
    folder.open()
    return folder


def done(path, experiment):
    folder, engine = opened(path), Here()
    ended = list(run(folder.ask_for(experiment), folder, engine))
    return folder, engine, ended


def rounds(folder, cell):
    return folder.run_folder(cell).rounds_file.read_bytes()
