"""Active learning by learning: other strategies are the arms of a bandit.

An arm is chosen by its weight; what was right among the labels since then raises it
(Hsu and Lin, 2015, in the batch version of Ash et al., 2020). Memory is in the record
of each query, under ``albl``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch

from fewlabels.errors import Limits, UsageError, check_range
from fewlabels.pool import Query, Round
from fewlabels.protocols import Strategy
from fewlabels.strategies.coreset import Coreset
from fewlabels.strategies.inputs import BuiltIn, Request, check_labels_given
from fewlabels.strategies.uncertainty import LeastConfidence

_HEAVY = 1e100


@dataclass(frozen=True)
class ActiveLearningByLearning(BuiltIn):
    """Let one of several strategies answer, likelier the more its labels were worth."""

    arms: tuple[Strategy, ...] | None = None
    """The strategies; None: least confidence and core-set, as in the NPC paper.

    :func:`fewlabels.strategies.resolve` makes them from names, too."""
    delta: Annotated[float, Limits(above=0, below=1)] = 0.1
    """Chance with which the bandit's bound may fail; smaller explores more."""

    def __post_init__(self) -> None:
        """Refuse arms that are not strategies."""
        super().__post_init__()
        for arm in self.arms or ():
            if isinstance(arm, type) or not hasattr(arm, "select"):
                raise UsageError(
                    f"The arm {arm!r} is not a strategy object; give one like Margin()."
                )
        if self.arms is not None:
            check_range("number of arms", len(self.arms), at_least=2)

    def choose(self, request: Request) -> Query:
        """Let an arm choose that is drawn by its weight."""
        arms = self.arms or (LeastConfidence(), Coreset())
        names = [type(arm).__name__ for arm in arms]
        past = [done for done in request.history if _state(done).get("arms") == names]
        p_min = 1 / (10 * len(arms))
        weights, reward = [1.0] * len(arms), None
        if past:
            weights, reward = self._learned(request, past, p_min)
        total, share = math.fsum(weights), 1 - len(arms) * p_min
        chances = [share * weight / total + p_min for weight in weights]
        odds, generator = torch.tensor(chances, dtype=torch.float64), request.generator
        chosen = int(torch.multinomial(odds, 1, generator=generator))
        given = request.classifier, request.pool, request.size, generator
        query = arms[chosen].select(*given, history=request.history)
        state = {
            "arms": names,
            "weights": weights,
            "probabilities": chances,
            "chosen": chosen,
            "importance": chances[chosen],
            "reward": reward,
        }
        return Query(query.indices, query.value, {**query.record, "albl": state})

    def _learned(
        self, request: Request, past: Sequence[Round], p_min: float
    ) -> tuple[list[float], float | None]:
        """Return the weights, and the reward of the arm that was chosen last.

        The reward is the mean of [right] / importance over labeled items, where
        importance is the chance with which the arm that asked was chosen; 1 at first.
        """
        pool, last = request.pool, _state(past[-1])
        weights = list(last["weights"])
        if not len(pool.labeled):
            return weights, None
        check_labels_given(pool)
        importance = torch.ones(len(pool), dtype=torch.float64)
        for done in past:
            importance[done.query.indices] = _state(done)["importance"]
        predicted = request.predictions(pool.labeled).logits.argmax(dim=1).cpu()
        is_right = (predicted == pool.labels[pool.labeled]).to(torch.float64)
        reward = float((is_right / importance[pool.labeled]).mean())
        bonus = math.sqrt(math.log(len(weights) / self.delta) / len(weights))
        bonus /= last["importance"]
        weights[last["chosen"]] *= math.exp(p_min / 2 * (reward + bonus))
        heaviest = max(weights)  # scaled down together, which changes no chance
        if heaviest > _HEAVY:
            weights = [weight / heaviest for weight in weights]
        return weights, reward


def _state(done: Round) -> dict[str, Any]:
    """Return what an earlier query of a bandit left; nothing where it left nothing."""
    return dict(done.query.record.get("albl", {}))
