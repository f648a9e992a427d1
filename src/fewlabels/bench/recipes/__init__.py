"""Experiments that come with the package, by name."""

from collections.abc import Callable
from dataclasses import fields

from fewlabels.bench.experiment import Condition, Experiment
from fewlabels.bench.recipes import cpu, paper
from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.runs import Choice
from fewlabels.training import FrozenSupervisedTrainer, SupervisedTrainer

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
_TWINS: dict[str, type[SupervisedTrainer]] = {
    "supervised": SupervisedTrainer,
    "frozen-supervised": FrozenSupervisedTrainer,
}


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

    Args:
        name: One of :func:`names`, alone or with ``_supervised`` behind it; dashes
            stand for underscores too.

    Returns:
        The experiment.

    Raises:
        UnknownNameError: If there is none of that name.
    """
    plain = name.replace("-", "_")
    if plain in _RECIPES:
        return _RECIPES[plain]()
    base = plain.removesuffix(_SUPERVISED)
    if base not in _RECIPES:
        raise UnknownNameError("recipe", base, _RECIPES)
    return supervised(_RECIPES[base]())


def supervised(experiment: Experiment) -> Experiment:
    """Return an experiment with the same labels to ask for and no unlabeled images.

    Args:
        experiment: One whose trainer is FixMatch in some form.

    Returns:
        Its twin: trained on labeled images alone.
    """
    return experiment.model_copy(
        update={
            "name": f"{experiment.name}{_SUPERVISED}",
            "title": f"{experiment.title}, trained on labeled images alone",
            "about": f"Like {experiment.name}, without the unlabeled images.",
            "conditions": tuple(map(_without_unlabeled, experiment.conditions)),
            "published": (),
        }
    )


def _without_unlabeled(condition: Condition) -> Condition:
    """Return a condition with the supervised trainer, and the options that it knows."""
    trainer = condition.settings.trainer
    name = "frozen-supervised" if trainer.name.startswith("frozen-") else "supervised"
    if not trainer.name.removeprefix("frozen-").startswith("fixmatch"):
        msg = (
            f"The trainer is '{trainer.name}', which has no supervised twin; give an "
            "experiment whose trainer is FixMatch."
        )
        raise UsageError(msg)
    known = {"preset", *(one.name for one in fields(_TWINS[name]))}
    options = {key: value for key, value in trainer.options.items() if key in known}
    settings = condition.settings.model_copy(
        update={"trainer": Choice(name=name, options=options)}
    )
    return condition.model_copy(update={"settings": settings})
