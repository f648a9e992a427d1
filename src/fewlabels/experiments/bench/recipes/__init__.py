"""Experiments that come with the package, by name."""

from collections.abc import Callable

from fewlabels import training
from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.experiments.bench.experiment import Condition, Experiment, Footprint
from fewlabels.experiments.bench.recipes import cpu, paper
from fewlabels.experiments.bench.recipes.parts import with_trainer

__all__ = ["names", "recipe", "supervised"]

_RECIPES: dict[str, Callable[[], Experiment]] = {
    made.__name__: made
    for made in (
        cpu.digits,
        cpu.digits_imbalanced,
        cpu.digits_shots,
        cpu.mnist,
        cpu.mnist_imbalanced,
        cpu.fashion_mnist,
        cpu.fashion_mnist_imbalanced,
        cpu.repeated_mnist,
        cpu.cifar10,
        cpu.cifar10_imbalanced,
        cpu.cifar100,
        cpu.cifar100_imbalanced,
        cpu.cifar100_iou,
        paper.table1_cifar10,
        paper.table2_cifar100,
        paper.figure1_iou,
        paper.table3_zero_shot,
        paper.table3_single_shot,
        paper.balanced_fixmatch,
    )
}

_SUPERVISED = "_supervised"
# What a step costs without unlabeled images: a third on digits, where measuring and
# other work remain; one image of 1 + 2 * 7 at the size of the paper.
_SUPERVISED_COST = {"cpu": 1 / 3, "paper": 1 / 15}


def names() -> tuple[str, ...]:
    """Return the names of all recipes; each has a twin ``NAME_supervised`` besides."""
    return tuple(_RECIPES)


def recipe(name: str) -> Experiment:
    """Return the experiment of a name.

    Example:
        >>> recipe("repeated-mnist").title
        'Repeated MNIST: 250 images, eight times each'
        >>> recipe("digits_supervised").conditions[0].settings.trainer.name
        'supervised'
    """
    plain = name.replace("-", "_")
    if plain in _RECIPES:
        return _RECIPES[plain]()
    base = plain.removesuffix(_SUPERVISED)
    if base not in _RECIPES:
        raise UnknownNameError("recipe", base, _RECIPES)
    return supervised(_RECIPES[base]())


def supervised(experiment: Experiment) -> Experiment:
    """Return the twin of an experiment of FixMatch: trained on labeled images alone."""
    return experiment.model_copy(
        update={
            "name": f"{experiment.name}{_SUPERVISED}",
            "title": f"{experiment.title}, trained on labeled images alone",
            "about": f"Like {experiment.name}, without the unlabeled images.",
            "conditions": tuple(map(_without_unlabeled, experiment.conditions)),
            "published": (),
            "footprint": Footprint(
                seconds_per_step=experiment.footprint.seconds_per_step
                * _SUPERVISED_COST[experiment.scale],
                megabytes=experiment.footprint.megabytes,
            ),
        }
    )


def _without_unlabeled(condition: Condition) -> Condition:
    """Return a condition with the supervised trainer."""
    name = condition.settings.trainer.name
    twin = training.variant(name, learner="supervised", alignment="")
    if twin is None or twin == name:
        raise UsageError(
            f"The trainer is '{name}', which has no supervised twin; give an "
            "experiment whose trainer is FixMatch."
        )
    return with_trainer(condition, twin)
