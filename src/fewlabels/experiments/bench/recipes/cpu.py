"""Experiments for two CPU cores: minutes to hours, at least ten paired seeds.

They stand for those of the paper where a GPU is missing. Networks, images and pools are
smaller, so that numbers cannot be compared with the paper's; the order of strategies
may.
"""

from typing import Any

from fewlabels import training
from fewlabels.experiments.bench.experiment import Condition, Experiment, Footprint
from fewlabels.experiments.bench.recipes.parts import named, with_trainer
from fewlabels.experiments.bench.recipes.shots import single_shot, zero_shot
from fewlabels.experiments.settings import Choice, RunSettings
from fewlabels.names import DEFAULT_STRATEGY

_SEEDS = tuple(range(10))
_RETRAININGS = 5
_RATIO = 20  # of the most frequent class to the rarest, in long-tailed pools

# What a claim is measured against, whatever is compared.
_ALWAYS = ("random", "margin", "coreset", "badge", "typiclust", "maxdet")
_OF_THE_PAPER = ("random", "margin", "albl", "badge", "npc")

_SMALL = Choice(name="fixmatch-darp", options={"preset": "small"})
# 10,000 images to measure on cost as much as training; five times in a training do.
_SELDOM_MEASURED = Choice(
    name="fixmatch-darp", options={"preset": "small", "checkpoint_every": 120}
)
_FROZEN = Choice(name="frozen-fixmatch-darp", options={"preset": "small"})
# With a hundred classes, the masking of DARP's paper leaves nearly every refinement
# without a solution; that of its program does not.
_FROZEN_MANY_CLASSES = Choice(
    name="frozen-fixmatch-darp", options={"preset": "small", "masking": "code"}
)

# Processor seconds of one thread of a busy two-core machine, queries and measuring
# included; of long queries (CIFAR-100: up to a minute) the mean over strategies.
_DIGITS_COST = Footprint(seconds_per_step=0.035, megabytes=0.35)
_MNIST_COST = Footprint(seconds_per_step=0.09, megabytes=0.35)
_CIFAR10_COST = Footprint(seconds_per_step=0.02, megabytes=0.1)
_CIFAR100_COST = Footprint(seconds_per_step=0.07, megabytes=0.6)

_NO_TARGET = (
    f"The classes of the pool are long-tailed: each is rarer than the one before by "
    f"the same factor, the first {_RATIO} times as frequent as the last. The starting "
    "labels are one per class, and the images to measure on stay even, so that rare "
    "classes count. Trained by FixMatch without DARP: the paper's uniform target is "
    "wrong here, labels that a strategy chose say nothing about how frequent classes "
    "are, and shares estimated from the predictions of a model of ten labels may do "
    "harm (as the paper says, Sec. 5.1)."
)


def demo() -> Experiment:
    """Digits, 10 to 100 labels in no time, and the paper's protocol: for anybody."""
    pools = {"name": "digits", "counts": [60] * 10}
    return Experiment(
        name="demo",
        title="Which digits to label",
        about=(
            "Each strategy chooses ten digits at a time, the first ten too, from a "
            "pool of 600 that differs from seed to seed. The learner blend mixes label "
            "spreading with a regression over pixels and graph, and learns in "
            "milliseconds. FixMatch+DARP is the paper's protocol: ten labels are "
            "given, one of each digit, each strategy chooses ten more of 1,297, and a "
            "small network learns from labeled and unlabeled images. npc is as "
            "printed: of many random sets, the one with the largest smallest "
            "eigenvalue. Digits are easy; your images will give other numbers."
        ),
        conditions=(
            Condition(
                name="blend",
                settings=_run(
                    pools, Choice(name="blend"), start=0, query=10, budget=100
                ),
                own_pools=True,
            ),
            Condition(
                name="FixMatch+DARP",
                settings=_run(
                    {"name": "digits"}, _SELDOM_MEASURED, query=10, budget=20
                ),
                num_seeds=10,
            ),
        ),
        strategies=(
            *named("random"),
            Choice(name="npc", options={"tie_tolerance": 0.0}),
            *named("typiclust", DEFAULT_STRATEGY),
        ),
        seeds=tuple(range(30)),
        subject=DEFAULT_STRATEGY,
        figures=("accuracy", "savings"),
        footprint=_DIGITS_COST,
    )


def digits() -> Experiment:
    """Digits, 10 to 30 labels: the smallest, minutes."""
    return _small(
        "digits",
        title="Digits, 10 to 30 labels",
        about="The smallest experiment. 1,297 images of 8 x 8 pixels in the pool.",
        data={"name": "digits"},
        query=10,
        budget=30,
        footprint=_DIGITS_COST,
    )


def digits_imbalanced() -> Experiment:
    """Digits with long-tailed classes."""
    return _imbalanced(digits(), long_tail(120, num_classes=10))


def digits_shots() -> Experiment:
    """Digits, one query alone: Table 3 for a CPU."""
    settings: dict[str, Any] = {"data": Choice(name="digits"), "trainer": _SMALL}
    conditions = [
        condition.model_copy(update={"name": f"{shot}, {condition.name}"})
        for shot, found in (
            ("zero-shot", zero_shot(settings)),
            ("single-shot", single_shot(settings)),
        )
        for condition in found
    ]
    return Experiment(
        name="digits_shots",
        title="Digits, one query by an untrained network or after 10 labels",
        about=(
            "Table 3 of the paper on digits with a small network, both readings of "
            "its left half: all labels are asked for, or ten are given that the query "
            "did not know. The network has 64 features: at 60 labels NPC looks "
            "through the wide head, at 40 through the last layer."
        ),
        conditions=tuple(conditions),
        strategies=named("badge", "npc"),
        seeds=_SEEDS,
        retrainings=_RETRAININGS,
        footprint=_DIGITS_COST,
    )


def mnist() -> Experiment:
    """MNIST, 10 to 50 labels."""
    return _small(
        "mnist",
        title="MNIST, 10 to 50 labels",
        about="5,000 images at 14 x 14 pixels, 500 of each class.",
        data={"name": "mnist", "size": 14, "counts": [500] * 10},
        query=20,
        budget=50,
        trainer=_SELDOM_MEASURED,
        footprint=_MNIST_COST,
    )


def mnist_imbalanced() -> Experiment:
    """MNIST with long-tailed classes."""
    return _imbalanced(mnist(), long_tail(1500, num_classes=10))


def fashion_mnist() -> Experiment:
    """Fashion-MNIST, 10 to 50 labels."""
    return _small(
        "fashion_mnist",
        title="Fashion-MNIST, 10 to 50 labels",
        about="5,000 images at 14 x 14 pixels, 500 of each class.",
        data={"name": "fashion-mnist", "size": 14, "counts": [500] * 10},
        query=20,
        budget=50,
        trainer=_SELDOM_MEASURED,
        footprint=_MNIST_COST,
    )


def fashion_mnist_imbalanced() -> Experiment:
    """Fashion-MNIST with long-tailed classes."""
    return _imbalanced(fashion_mnist(), long_tail(1500, num_classes=10))


def repeated_mnist() -> Experiment:
    """MNIST with every image eight times: who asks twice?"""
    data = {
        "name": "repeated-mnist",
        "size": 8,
        "counts": [25] * 10,
        "times": 8,
        "noise": 0.0,
    }
    return Experiment(
        name="repeated_mnist",
        title="Repeated MNIST: 250 images, eight times each",
        about=(
            "Proposition 1 of the paper: a set with copies has a singular Gram matrix, "
            "so NPC never asks for one. 250 images at 8 x 8 pixels, eight exact "
            "copies of each. NPC makes as many draws as it always does, one per "
            "candidate: a quarter of them are free of copies at first, 6 % at the "
            "second query."
        ),
        conditions=(
            Condition(settings=_run(data, _SELDOM_MEASURED, query=20, budget=50)),
        ),
        strategies=named("random", "margin", "coreset", "badge", "npc"),
        seeds=_SEEDS,
        retrainings=_RETRAININGS,
        figures=("redundancy", "accuracy"),
        footprint=_DIGITS_COST,
    )


def cifar10() -> Experiment:
    """CIFAR-10 through frozen features: Table 1 for a CPU."""
    data = {"name": "cifar10", "counts": [1000] * 10}
    return Experiment(
        name="cifar10",
        title="CIFAR-10 through frozen features, 10 to 70 labels",
        about=(
            "Table 1 of the paper with a linear head over features that were learnt "
            "from ImageNet, which knows some of these classes. 10,000 images, 1,000 "
            "of each class."
        ),
        conditions=(Condition(settings=_run(data, _FROZEN, query=20, budget=70)),),
        strategies=named(*_ALWAYS, "albl", "npc"),
        seeds=_SEEDS,
        retrainings=_RETRAININGS,
        footprint=_CIFAR10_COST,
    )


def cifar10_imbalanced() -> Experiment:
    """CIFAR-10 through frozen features, with long-tailed classes."""
    return _imbalanced(cifar10(), long_tail(3000, num_classes=10))


def cifar100() -> Experiment:
    """CIFAR-100 through frozen features: Table 2 for a CPU."""
    data = {"name": "cifar100", "counts": [100] * 100}
    settings = _run(data, _FROZEN_MANY_CLASSES, start=100, query=200, budget=900)
    return Experiment(
        name="cifar100",
        title="CIFAR-100 through frozen features, 100 to 900 labels",
        about=(
            "Table 2 of the paper with a linear head over features that were learnt "
            "from ImageNet, which knows many of these classes. 10,000 images, 100 of "
            "each class. There are 1,280 features, so that the paper's kernel of the "
            "last layer has rank enough for 900 labels here. DARP masks as its program "
            "does: as its paper says, nearly every refinement has no solution here."
        ),
        conditions=(Condition(settings=settings),),
        strategies=named(*_ALWAYS, "albl", "npc"),
        seeds=_SEEDS,
        retrainings=_RETRAININGS,
        footprint=_CIFAR100_COST,
    )


def cifar100_imbalanced() -> Experiment:
    """CIFAR-100 through frozen features, with long-tailed classes."""
    return _imbalanced(cifar100(), long_tail(300, num_classes=100))


def cifar100_iou() -> Experiment:
    """CIFAR-100 through frozen features: Figure 1 for a CPU."""
    whole = cifar100()
    settings = whole.conditions[0].settings.model_copy(update={"budget": 700})
    return whole.model_copy(
        update={
            "name": "cifar100_iou",
            "conditions": (Condition(settings=settings),),
            "title": "Overlap of what was asked for, CIFAR-100 through frozen features",
            "about": (
                "Figure 1 of the paper: its five algorithms, three trials, 300, 500 "
                "and 700 labels; runs end there. Unlike in the paper, every trial "
                "begins with a set of its own."
            ),
            "strategies": named(*_OF_THE_PAPER),
            "seeds": _SEEDS[:3],
            "figures": ("overlap", "accuracy"),
        }
    )


def _small(
    name: str,
    *,
    title: str,
    about: str,
    data: dict[str, Any],
    query: int,
    budget: int,
    footprint: Footprint,
    trainer: Choice = _SMALL,
) -> Experiment:
    """Return a comparison that begins with ten labels, with the small network."""
    settings = _run(data, trainer, query=query, budget=budget)
    return Experiment(
        name=name,
        title=title,
        about=about,
        conditions=(Condition(settings=settings),),
        strategies=named(*_ALWAYS, "npc"),
        seeds=_SEEDS,
        retrainings=_RETRAININGS,
        footprint=footprint,
    )


def _imbalanced(even: Experiment, counts: list[int]) -> Experiment:
    """Return the same comparison on a pool whose classes are unevenly frequent."""
    [condition] = even.conditions
    settings = condition.settings
    options = settings.data.options | {"counts": counts}
    data = Choice(name=settings.data.name, options=options)
    uneven = Condition(settings=settings.model_copy(update={"data": data}))
    plain = training.variant(settings.trainer.name, alignment="")
    assert plain is not None
    return even.model_copy(
        update={
            "name": f"{even.name}_imbalanced",
            "title": f"{even.title}, classes long-tailed",
            "about": f"{sum(counts):,} images, {counts[0]:,} of the most frequent "
            f"class and {counts[-1]} of the rarest. {_NO_TARGET}",
            "conditions": (with_trainer(uneven, plain),),
        }
    )


def long_tail(most: int, *, num_classes: int) -> list[int]:
    """Return counts that fall by one factor from class to class, from ``most``."""
    last = num_classes - 1
    return [round(most * _RATIO ** (-k / last)) for k in range(num_classes)]


def _run(
    data: dict[str, Any], trainer: Choice, *, query: int, budget: int, start: int = 10
) -> RunSettings:
    return RunSettings(
        data=Choice.model_validate(data),
        trainer=trainer,
        start=start,
        query=query,
        budget=budget,
    )
