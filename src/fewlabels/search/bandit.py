"""Choosing among advisers by what their advice was worth: Exp4.P.

Beygelzimer, Langford, Li, Reyzin and Schapire (2011), as Hsu and Lin (2015) use it for
active learning. Shapes: K arms, Q items of a query.
"""

import math
from collections.abc import Sequence

import torch
from torch import Generator, Tensor

_HEAVY = 1e100


def arm_probabilities(weights_K: Sequence[float], least: float) -> list[float]:
    """Return the chance of each arm, (1 - K least) w / sum(w) + least."""
    total, share = math.fsum(weights_K), 1 - len(weights_K) * least
    return [share * weight / total + least for weight in weights_K]


def raised(
    weights_K: Sequence[float],
    rewards_K: Sequence[float],
    bonuses_K: Sequence[float],
    least: float,
) -> list[float]:
    """Return the weights after an answer, w exp(least / 2 (reward + bonus)).

    They are scaled down together before they grow out of bounds, which changes no
    chance.
    """
    weights = [
        weight * math.exp(least / 2 * (reward + bonus))
        for weight, reward, bonus in zip(weights_K, rewards_K, bonuses_K, strict=True)
    ]
    heaviest = max(weights)
    return [w / heaviest for w in weights] if heaviest > _HEAVY else weights


def draw(probabilities: Sequence[float], generator: Generator) -> int:
    """Return the number of an arm, drawn by its chance."""
    chances = torch.tensor(probabilities, dtype=torch.float64)
    return int(torch.multinomial(chances, 1, generator=generator))


def draw_advised(
    advice: Sequence[Sequence[int]],
    probabilities: Sequence[float],
    candidates: Tensor,
    size: int,
    generator: Generator,
) -> tuple[Tensor, list[list[float]]]:
    """Return items drawn one by one, each advised by an arm that is drawn first.

    An arm advises the first of its items that is not drawn yet; one arm more, the last,
    advises any candidate that is not. With the items comes how strongly each arm
    advised each of them when it was drawn, shape (Q, K).
    """
    drawn: dict[int, None] = {}
    strengths_QK: list[list[float]] = []
    order = candidates[torch.randperm(len(candidates), generator=generator)].tolist()
    for number in range(size):
        heads = [
            next(item for item in items if item not in drawn)
            for items in (*advice, order)
        ]
        chosen = heads[draw(probabilities, generator)]
        uniform = 1 / (len(candidates) - number)
        strengths_QK.append([float(head == chosen) for head in heads[:-1]] + [uniform])
        drawn[chosen] = None
    return torch.tensor(list(drawn)), strengths_QK
