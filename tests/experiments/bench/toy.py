"""Runs of milliseconds, and some that end badly."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from tests.experiments.runs import toy

from fewlabels.experiments.bench.experiment import Cell
from fewlabels.experiments.settings import Choice
from fewlabels.protocols import ignore

TRAINER = Choice(name="tests.experiments.bench.toy:Quick")


def cell(seed, *, strategy="random", trainer=TRAINER, **changes):
    return Cell(
        toy.settings(
            strategy=Choice(name=strategy), trainer=trainer, seed=seed, **changes
        )
    )


def cells(number=4):
    return tuple(cell(seed) for seed in range(number))


@dataclass(frozen=True)
class Quick(toy.Resuming):
    """Trains in no time."""

    steps: int = 4


@dataclass(frozen=True)
class KilledOnce:
    """Is killed in the middle of its first training, once; then trains like another.

    It has a saved state to go on from.
    """

    marker: str

    def fit(self, pool, generator, *, workspace=None, on_checkpoint=ignore):
        def killed(step, classifier):
            on_checkpoint(step, classifier)
            if step > 20 and not Path(self.marker).exists():
                Path(self.marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)

        return toy.Resuming().fit(
            pool, generator, workspace=workspace, on_checkpoint=killed
        )


class Killed:
    """Is killed whenever it trains."""

    def fit(self, pool, generator, *, workspace=None, on_checkpoint=ignore):
        os.kill(os.getpid(), signal.SIGKILL)


class Fails:
    """A strategy that raises."""

    def select(self, classifier, pool, size, generator, *, history=()):
        raise RuntimeError("out of ideas")
