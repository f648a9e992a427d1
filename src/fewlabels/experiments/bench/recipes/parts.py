"""What recipes have in common."""

from fewlabels import training
from fewlabels.experiments.bench.experiment import Condition
from fewlabels.experiments.settings import Choice


def named(*names: str) -> tuple[Choice, ...]:
    """Return built-in strategies as they are."""
    return tuple(Choice(name=name) for name in names)


def with_trainer(condition: Condition, name: str) -> Condition:
    """Return a condition with another trainer, and the options that both know."""
    known = training.options(name)
    given = condition.settings.trainer.options
    kept = {option: value for option, value in given.items() if option in known}
    trainer = Choice(name=name, options=kept)
    settings = condition.settings.model_copy(update={"trainer": trainer})
    return condition.model_copy(update={"settings": settings})
