"""A run small enough to be done, killed and repeated many times."""

from dataclasses import dataclass, replace

import torch

from fewlabels import files, progress, rng
from fewlabels.data import load
from fewlabels.experiments.runs import RunFolder, execute
from fewlabels.experiments.settings import Choice, RunSettings
from fewlabels.pool import ArrayImages, Pool, Query
from fewlabels.protocols import Outputs, ignore

STEPS = 5


def settings(**changes):
    base = {
        "data": Choice(name="digits"),
        "strategy": Choice(name="npc", options={"draws": 300}),
        "trainer": Choice(name="fixmatch", options={"steps": STEPS}),
        "start": 10,
        "query": 5,
        "budget": 20,
        "seed": 3,
    }
    return RunSettings(**base | changes)


def digits():
    return load("digits")


def whole_run(path, pool, **changes):
    """Do a run to its end; return the rounds it yields and its folder."""
    return list(execute(settings(**changes), path, pool)), RunFolder(path)


def replace_classes(pool, names):
    return replace(pool, classes=tuple(names))


def tiny_pool(num_items):
    return Pool.build(
        ArrayImages(torch.zeros(num_items, 1, 2, 2, dtype=torch.uint8)),
        torch.zeros(num_items, dtype=torch.int64),
        classes=("a", "b"),
        ids=[f"item-{number}" for number in range(num_items)],
    )


class FirstOnes:
    """A strategy from outside the package."""

    def select(self, classifier, pool, size, generator, *, history=()):
        return Query(pool.candidates[:size])


@dataclass(frozen=True)
class Guesses:
    """Guesses that depend on the training and its step, so that accuracy wavers."""

    key: int
    step: int
    num_classes: int = 10
    module: None = None

    def outputs(self, images, indices):
        generator = rng.stream(self.key, "guesses", self.step)
        logits = torch.rand(len(images), self.num_classes, generator=generator)
        return Outputs(torch.zeros(len(indices), 1), logits[indices])


@dataclass(frozen=True)
class Resuming:
    """A trainer that saves its state now and then and goes on from it.

    As a trainer must: a checkpoint is shown before the state that passes it is saved.
    """

    steps: int = 40
    checkpoint_every: int = 2
    save_every: int = 9

    def fit(self, pool, generator, *, workspace=None, on_checkpoint=ignore):
        key = rng.fork(generator)
        state = workspace / "state.txt"
        files.remove_leftovers([state])  # what a killed process left of it
        begin = int(state.read_text()) if state.exists() else 0
        with progress.track("Training", self.steps, done=begin) as advance:
            for step in range(begin + 1, self.steps + 1):
                advance()
                if step % self.checkpoint_every == 0:
                    on_checkpoint(step, Guesses(key, step))
                if step % self.save_every == 0 or step == self.steps:
                    files.make_folder(workspace)
                    files.replace_text(state, str(step))
        if begin == self.steps:
            on_checkpoint(begin, Guesses(key, begin))
        return Guesses(key, self.steps)
