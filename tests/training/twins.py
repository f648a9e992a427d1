"""One step of a learner, and its loss by plain arithmetic, one number at a time."""

import math
from dataclasses import dataclass

import torch
from lightning_fabric import Fabric
from tests.training.conftest import tiny_pool

from fewlabels import models, rng
from fewlabels.models import as_input
from fewlabels.training import loop, make
from fewlabels.training import options as names_of_options
from fewlabels.training.devices import ProcessGroup
from fewlabels.training.learner import Learned, Loss, Step
from fewlabels.training.training import TrainingTask

CLASSES, STEPS = 3, 100


@dataclass
class Pass:
    """What a network was shown, and what it said."""

    inputs: object
    learned: Learned


@dataclass
class Taken:
    """A step whose loss was asked for."""

    step: Step
    loss: Loss
    passes: list[Pass]
    """Of the network that learns."""
    averaged: list[Pass]
    """Of its average."""


def taken(name, seed=0, number=20, **options):
    """Ask a learner for the loss of a step, from random weights."""
    settings = {"steps": STEPS, "minibatch_size": 4, "weak": {"shift": 0.5}}
    if "mu" in names_of_options(name):  # not of those that see labeled items alone
        settings["mu"] = 2
    trainer = make(name, **settings | options)
    pool = tiny_pool(num_classes=CLASSES, seed=seed)
    task = TrainingTask(trainer, pool, trainer.inputs.of(pool, None), 5 + seed, None)
    draws = rng.stream(seed, "weights")
    network = models.build("wrn-10-1", (1, 4, 4), CLASSES, draws)
    stepper = loop.Stepper(task, ProcessGroup(Fabric(accelerator="cpu")), network)
    for parameter in stepper.average.parameters():
        parameter.mul_(1.1)  # so that it can be told from the network
    both = [], []
    for module, passes in zip(
        (stepper.learning.train(), stepper.average), both, strict=True
    ):
        module.register_forward_hook(
            lambda _, shown, said, passes=passes: passes.append(Pass(shown[0], said))
        )
    step = stepper.step(number, stepper.minibatch(number))
    return Taken(step, stepper.learner.loss(step), *both)


def rows(logits):
    """Return probabilities as lists of floats."""
    found = []
    for row in logits.detach().double().tolist():
        powers = [math.exp(one) for one in row]
        found.append([one / sum(powers) for one in powers])
    return found


def cross_entropy(found, targets):
    """Return the mean over rows; targets are classes or distributions."""
    losses = []
    for row, target in zip(found, targets, strict=True):
        if isinstance(target, int):
            losses.append(-math.log(row[target]))
        else:
            pairs = zip(row, target, strict=True)
            losses.append(-sum(share * math.log(one) for one, share in pairs))
    return sum(losses) / len(losses)


def squared(found, targets):
    """Return the mean squared difference over rows and classes."""
    differences = [
        (one - other) ** 2
        for row, target in zip(found, targets, strict=True)
        for one, other in zip(row, target, strict=True)
    ]
    return sum(differences) / len(differences)


def ramp(number, share):
    """Return how much of its weight a term has in a step."""
    return min(1.0, number / (share * STEPS)) if share else 1.0


def sharpened_slowly(row, temperature):
    """Return a row of probabilities, sharpened."""
    powers = [one ** (1 / temperature) for one in row]
    return [one / sum(powers) for one in powers]


def mixture_of(found, names, guessed, concentration):
    """Return the mixed inputs of a step, and its mixed targets as lists."""
    minibatch = found.step.minibatch
    targets = [
        [float(number == label) for number in range(CLASSES)]
        for label in minibatch.labels.tolist()
    ]
    targets += guessed * len(names)
    views = [minibatch.views[name] for name in ("labeled", *names)]
    inputs = as_input(torch.cat(views))
    draws = found.step.stream("mixture")
    partners = torch.randperm(len(inputs), generator=draws).tolist()
    both = torch.full((len(inputs), 2), concentration)
    pairs = torch._sample_dirichlet(both, generator=draws).tolist()
    shown, blended = [], []
    for own, (other, pair) in enumerate(zip(partners, pairs, strict=True)):
        most, least = max(pair), min(pair)
        shown.append(most * inputs[own] + least * inputs[other])
        both = zip(targets[own], targets[other], strict=True)
        blended.append([most * a + least * b for a, b in both])
    return torch.stack(shown), blended
