"""ALBL as first published: every item is drawn from the mixture of all arms' advice.

Hsu and Lin (2015), Algorithm 1, with a uniform arm added. An arm's advice is the best
of its items that has not been drawn. Items of one query are drawn one after the other
without replacement, from candidates only.

Shapes: K arms, the uniform one last; Q items of a query.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from fewlabels.errors import UsageError
from fewlabels.pool import Pool, Query, Round
from fewlabels.protocols import Classifier, Strategy
from fewlabels.search.bandit import arm_probabilities, draw_advised, raised
from fewlabels.strategies.inputs import are_right


@dataclass(frozen=True)
class Advised:
    """Who advises, and how fast it is learned whom to believe."""

    arms: tuple[Strategy, ...]
    """The strategies, without the uniform arm."""
    delta: float
    """Chance with which the bound may fail."""
    num_draws: int | None
    """Items drawn in the whole run; None: from the pool's budget."""


def advised(
    rule: Advised,
    classifier: Classifier,
    pool: Pool,
    size: int,
    generator: Generator,
    *,
    mine: dict[str, Any],
    past: Sequence[Round],
    history: Sequence[Round],
) -> Query:
    """Return ``size`` candidates by Exp4.P; the record holds what the next one needs.

    ``mine`` marks records of this bandit, and ``past`` are the rounds with such
    records.
    """
    num_arms = len(rule.arms) + 1
    horizon = _horizon(rule, past, pool)
    least = min(math.sqrt(math.log(num_arms) / (num_arms * horizon)), 1 / num_arms)
    weights, reward = [1.0] * num_arms, None
    if past:
        weights, reward = _learned(rule, past, classifier, pool, least, horizon)
    chances = arm_probabilities(weights, least)
    lists = [
        arm.select(classifier, pool, size, generator, history=history).indices.tolist()
        for arm in rule.arms
    ]
    indices, advice = draw_advised(lists, chances, pool.candidates, size, generator)
    mixture = [
        math.fsum(p * phi for p, phi in zip(chances, row, strict=True))
        for row in advice
    ]
    state = mine | {
        "weights": weights,
        "probabilities": chances,
        "horizon": horizon,
        "advice": advice,
        "importance": mixture,
        "reward": reward,
    }
    return Query(indices, record={"albl": state})


def _learned(
    rule: Advised,
    past: Sequence[Round],
    classifier: Classifier,
    pool: Pool,
    least: float,
    horizon: int,
) -> tuple[list[float], float]:
    """Return the weights after the last answers, and the importance-weighted accuracy.

    reward = 1 / (N T) sum of [right] / q over all labeled draws; arm k gets
    reward phi_k / q and a bonus of sqrt(ln(K / delta) / (K T)) / p_k for each.
    """
    reward = _weighted_accuracy(past, classifier, pool) / (len(pool) * horizon)
    last = past[-1].query.record["albl"]
    weights: list[float] = list(last["weights"])
    num_arms = len(weights)
    width = math.sqrt(math.log(num_arms / rule.delta) / (num_arms * horizon))
    bonuses = [width / chance for chance in last["probabilities"]]
    is_answered = _is_answered(past[-1], pool).tolist()
    for known, row, mixed in zip(
        is_answered, last["advice"], last["importance"], strict=True
    ):
        if known:
            rewards = [reward * strength / mixed for strength in row]
            weights = raised(weights, rewards, bonuses, least)
    return weights, reward


def _weighted_accuracy(
    past: Sequence[Round], classifier: Classifier, pool: Pool
) -> float:
    total = 0.0
    for one in past:
        given = one.query.record["albl"]["importance"]
        importance = torch.tensor(given, dtype=torch.float64)
        is_known = _is_answered(one, pool)
        if bool(is_known.any()):
            is_right = are_right(classifier, pool, one.query.indices[is_known])
            total += float((is_right / importance[is_known]).sum())
    return total


def _is_answered(one: Round, pool: Pool) -> Tensor:
    """Return which draws of a round are labeled now, shape (Q,).

    None, where items have left the pool since: nobody knows which draw was whose.
    """
    num_draws = len(one.query.record["albl"]["importance"])
    if len(one.query) != num_draws:
        return torch.zeros(num_draws, dtype=torch.bool)
    return torch.isin(one.query.indices, pool.labeled)


def _horizon(rule: Advised, past: Sequence[Round], pool: Pool) -> int:
    """Return how many items are drawn in the whole run (T)."""
    if past:
        return int(past[0].query.record["albl"]["horizon"])
    if rule.num_draws is not None:
        return rule.num_draws
    if pool.budget is None:
        raise UsageError(
            "How fast Exp4.P learns depends on how many items the whole run asks for, "
            "and neither num_draws nor a budget says; set num_draws, or choose "
            "version='batch'."
        )
    return max(1, pool.budget - len(pool.labeled))
