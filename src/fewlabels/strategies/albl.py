"""Active learning by learning: other strategies are the arms of a bandit.

An arm is chosen by its weight; what was right among the labels since then raises it
(Hsu and Lin, 2015). Memory is in the record of each query, under ``albl``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Generator, Tensor

from fewlabels.errors import UsageError
from fewlabels.integers import whole_number
from fewlabels.naming import check_known
from fewlabels.pool import Pool, Query, Round
from fewlabels.protocols import Classifier, Strategy
from fewlabels.search import check_size
from fewlabels.search.bandit import arm_probabilities, draw, raised
from fewlabels.strategies.coreset import Coreset
from fewlabels.strategies.exp4p import Advised, advised
from fewlabels.strategies.inputs import are_right
from fewlabels.strategies.uncertainty import LeastConfidence

Version = Literal["batch", "exp4p"]


def _default_arms() -> tuple[Strategy, ...]:
    return LeastConfidence(), Coreset()


@dataclass(frozen=True)
class ActiveLearningByLearning:
    """Let one of several strategies answer, likelier the more its labels were worth."""

    arms: tuple[Strategy, ...] | None = None
    """The strategies; None: least confidence and core-set, as in the NPC paper.

    :func:`fewlabels.strategies.resolve` makes them from names, too."""
    version: Version = "batch"
    """``batch``: one arm answers the whole query; ``exp4p``: an arm for each item."""
    delta: float = 0.1
    """Chance with which the bandit's bound may fail; smaller explores more."""
    num_draws: int | None = None
    """Items asked for in the whole run, for ``exp4p``; None: from the pool's budget."""

    def __post_init__(self) -> None:
        """Refuse misspelt versions, and arms that are not strategies."""
        check_known("version", self.version, Version)
        for arm in self.arms or ():
            if isinstance(arm, type) or not hasattr(arm, "select"):
                raise UsageError(
                    f"The arm {arm!r} is not a strategy object; give objects such as "
                    "Margin(). Names will do where 'albl' itself is given by name."
                )
        if self.arms is not None and len(self.arms) < 2:
            raise UsageError(
                f"There are {len(self.arms)} arms; give at least 2 to choose between."
            )
        if self.num_draws is not None:
            whole_number("num_draws", self.num_draws)
        asks_nothing = self.num_draws is not None and self.num_draws < 1
        if asks_nothing or not 0 < self.delta < 1:
            raise UsageError(
                f"delta is {self.delta:g} and num_draws {self.num_draws}; delta is "
                "between 0 and 1, and at least 1 item is asked for."
            )

    def select(
        self,
        classifier: Classifier,
        pool: Pool,
        size: int,
        generator: Generator,
        *,
        history: Sequence[Round] = (),
    ) -> Query:
        """Choose ``size`` candidates; see :class:`fewlabels.protocols.Strategy`."""
        check_size(size, len(pool.candidates))
        arms = _default_arms() if self.arms is None else self.arms
        mine = {"version": self.version, "arms": [type(arm).__name__ for arm in arms]}
        past = [one for one in history if _is_part(mine, _state(one))]
        if self.version == "exp4p":
            rule = Advised(arms, self.delta, self.num_draws)
            return advised(
                rule,
                classifier,
                pool,
                size,
                generator,
                mine=mine,
                past=past,
                history=history,
            )
        least = 1 / (10 * len(arms))
        weights, reward = self._learned(len(arms), least, past, classifier, pool)
        chances = arm_probabilities(weights, least)
        chosen = draw(chances, generator)
        query = arms[chosen].select(classifier, pool, size, generator, history=history)
        state = mine | {
            "weights": weights,
            "probabilities": chances,
            "chosen": chosen,
            "importance": chances[chosen],
            "reward": reward,
        }
        return Query(query.indices, query.value, {**query.record, "albl": state})

    def _learned(
        self,
        num_arms: int,
        least: float,
        past: Sequence[Round],
        classifier: Classifier,
        pool: Pool,
    ) -> tuple[list[float], float | None]:
        """Return the weights, and the reward of the arm that was chosen last."""
        if not past:
            return [1.0] * num_arms, None
        last = _state(past[-1])
        if not len(pool.labeled):
            return list(last["weights"]), None
        is_right = are_right(classifier, pool, pool.labeled)
        reward = float((is_right / _importance(past, pool)).mean())
        rewards, bonuses = [0.0] * num_arms, [0.0] * num_arms
        rewards[last["chosen"]] = reward
        bonuses[last["chosen"]] = (
            math.sqrt(math.log(num_arms / self.delta) / num_arms) / last["importance"]
        )
        return raised(last["weights"], rewards, bonuses, least), reward


def _importance(past: Sequence[Round], pool: Pool) -> Tensor:
    """Return the chance with which each labeled item's arm was chosen; 1 at first."""
    importance = torch.ones(len(pool), dtype=torch.float64)
    for one in past:
        importance[one.query.indices] = _state(one)["importance"]
    return importance[pool.labeled]


def _state(one: Round) -> dict[str, Any]:
    """Return what an earlier query of a bandit left; nothing where it left nothing."""
    return dict(one.query.record.get("albl", {}))


def _is_part(some: dict[str, Any], state: dict[str, Any]) -> bool:
    return all(state.get(key) == some[key] for key in some)
