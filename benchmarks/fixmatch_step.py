"""Time of a FixMatch step at the paper's size, and twenty steps of the full recipe.

WRN-28-2, 64 labeled and 7 x 64 unlabeled images of CIFAR-10, all settings official.
First the same steps with ``forward="joint"`` and ``forward="split"``, turn by turn, and
the ratio of their medians; then ``--steps`` steps of a training, with the loss of each.
A step takes tens of seconds on two CPU cores; nothing here is a trained network.

Run ``python benchmarks/fixmatch_step.py`` with ``FEWLABELS_DATA`` set.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from lightning_fabric import Fabric

import fewlabels
from fewlabels import progress, rng
from fewlabels.experiments.acquisition import hidden
from fewlabels.files import replace_text
from fewlabels.pool import Answers, Pool
from fewlabels.training import make
from fewlabels.training.devices import ProcessGroup
from fewlabels.training.loop import Stepper
from fewlabels.training.training import Training, TrainingTask

TARGET = 1.3
NUM_LABELS = 40
OUTPUT = Path(__file__).parent / "results" / "fixmatch_step.json"


def cifar10() -> Pool:
    """Return CIFAR-10 with four random labels a class."""
    pool = fewlabels.load("cifar10")
    order = torch.randperm(len(pool), generator=rng.stream(0, "labels"))
    chosen = torch.cat(
        [
            order[pool.labels[order] == number][: NUM_LABELS // pool.num_classes]
            for number in range(pool.num_classes)
        ]
    )
    return hidden(pool, NUM_LABELS).with_answers(Answers(chosen, pool.labels[chosen]))


def stepper(trainer: Training, pool: Pool) -> Callable[[int], float]:
    """Return a function that does one step and returns its seconds."""
    key = 0
    task = TrainingTask(trainer, pool, trainer.inputs.of(pool, None), key, None)
    training = Stepper(
        task, ProcessGroup(Fabric(accelerator="cpu")), task.build_network()
    )

    def step(number: int) -> float:
        minibatch = training.minibatch(number)
        began = time.perf_counter()
        loss = training.advance(number, minibatch)
        assert math.isfinite(float(loss.total.detach()))
        return time.perf_counter() - began

    return step


def compared(pool: Pool, repetitions: int) -> dict[str, Any]:
    """Return the median seconds of both kinds of step, and their ratio."""
    steps = {
        forward: stepper(
            make("fixmatch", preset="official", steps=100, forward=forward), pool
        )
        for forward in ("joint", "split")
    }
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(repetitions + 1):
        for name, step in steps.items():
            taken = step(number)
            print(f"{name} step {number}: {taken:.1f} s", flush=True)
            seconds[name] += [taken] if number else []  # the first one warms up
    medians = {name: median(values) for name, values in seconds.items()}
    return {"seconds": medians, "ratio": medians["joint"] / medians["split"]}


class Losses:
    """Writes down the figures of a training."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.told: dict[int, dict[str, float]] = {}

    def start(self, task: str, total: int, done: int) -> int:
        """Hear that a task begins."""
        del task, total, done
        return 0

    def advance(self, handle: int, amount: int) -> None:
        """Hear that steps are done."""

    def tell(self, step: int, figures: Any) -> None:
        """Write the figures down."""
        self.told[step] = dict(figures)
        print(step, {k: round(v, 4) for k, v in figures.items()}, flush=True)

    def finish(self, handle: int) -> None:
        """Hear that the task ended."""


def full_recipe(pool: Pool, steps: int) -> dict[str, Any]:
    """Do some steps of the official training and return loss and seconds per step."""
    losses = Losses()
    trainer = make("fixmatch", preset="official", steps=steps, accelerator="cpu")
    began = time.perf_counter()
    with progress.reporting(losses):
        trainer.fit(pool, rng.stream(0, "train"))
    seconds = (time.perf_counter() - began) / steps
    final = losses.told[max(losses.told)]
    assert all(math.isfinite(value) for value in final.values())
    return {"steps": steps, "seconds_per_step": seconds, "last": final}


def main() -> None:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="of the full recipe")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    pool = cifar10()
    found = compared(pool, arguments.repetitions)
    print(f"joint / split: {found['ratio']:.2f} (target {TARGET})")
    if arguments.steps:
        found["full recipe"] = full_recipe(pool, arguments.steps)
        print(f"{found['full recipe']['seconds_per_step']:.1f} s per step")
    replace_text(arguments.out, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
