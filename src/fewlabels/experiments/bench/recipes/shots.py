"""One query alone (NPC paper, Sec. 5.4): by an untrained network or after 10 labels."""

from typing import Any

from fewlabels.experiments.bench.experiment import Condition
from fewlabels.experiments.settings import RunSettings


def zero_shot(settings: dict[str, Any]) -> tuple[Condition, ...]:
    """Return both readings of one query by an untrained network, at 40 and 60 labels.

    The settings are data and trainer. First all labels are asked for, then ten are
    given.
    """
    all_asked = [
        Condition(
            name=f"all asked for, {budget} labels",
            settings=RunSettings(**settings, start=0, query=budget, budget=budget),
        )
        for budget in (40, 60)
    ]
    ten_given = [
        Condition(
            name=f"ten given, {budget} labels",
            settings=RunSettings(
                **settings, start=10, query=budget - 10, budget=budget, zero_shot=True
            ),
            is_other_reading=True,
        )
        for budget in (40, 60)
    ]
    return (*all_asked, *ten_given)


def single_shot(settings: dict[str, Any]) -> tuple[Condition, ...]:
    """Return one query after ten labels, to 40 and to 60."""
    return tuple(
        Condition(
            name=f"{budget} labels",
            settings=RunSettings(
                **settings, start=10, query=budget - 10, budget=budget
            ),
        )
        for budget in (40, 60)
    )
