"""The loop: a pool, a trainer, a strategy and an oracle in; a record per round out."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from fewlabels import strategies, training
from fewlabels.errors import UsageError
from fewlabels.integers import whole_number
from fewlabels.loop.rounds import query_size, round_folder, rounds, without
from fewlabels.loop.seeds import Seeds
from fewlabels.loop.start import (
    check_numbers,
    check_plan,
    hidden,
    starting_answers,
)
from fewlabels.naming import DEFAULT_STRATEGY
from fewlabels.oracles import TableOracle
from fewlabels.pool import Pool, Round
from fewlabels.protocols import Strategy, Trainer

__all__ = [
    "Seeds",
    "check_numbers",
    "check_plan",
    "hidden",
    "query_size",
    "round_folder",
    "rounds",
    "run",
    "starting_answers",
    "without",
]


def run(
    pool: Pool,
    *,
    strategy: str | Strategy = DEFAULT_STRATEGY,
    trainer: str | Trainer = "fixmatch-darp",
    start: int = 10,
    query: int | Sequence[int] = 20,
    budget: int = 50,
    seed: int = 0,
    initial_models: int = 1,
    workspace: Path | None = None,
) -> Iterator[Round]:
    """Simulate active learning on a labeled pool, from the first label to the budget.

    The pool's labels are hidden; a simulated oracle gives them back when asked. The
    same seed gives the same starting set and the same training stream for every
    strategy.

    Args:
        pool: A pool whose labels are known, such as ``fewlabels.load("digits")``.
        strategy: A built-in name, ``"package.module:Name"``, or an object.
        trainer: The same for the trainer.
        start: Labels at the beginning, spread evenly over the classes; 0: the first
            query is made with the untrained network.
        query: Labels asked for in each round; several numbers: in the first rounds,
            the last of them from then on.
        budget: Labels at the end.
        seed: Seed of the whole run.
        initial_models: With k > 1, k starting sets are trained on, and the one of
            median accuracy on held-out images is kept (NPC paper, Sec. 5.1: k = 5).
        workspace: A folder where trainers keep their work, so that it can go on.

    Returns:
        An iterator that trains as it goes and yields a record of each round.
    """
    _check_pool(pool)
    chooser, learner = strategies.resolve(strategy), training.resolve(trainer)
    start, budget = whole_number("start", start), whole_number("budget", budget)
    if isinstance(query, Sequence):
        query = [whole_number("query", size) for size in query]
    else:
        query = whole_number("query", query)
    initial_models = whole_number("initial_models", initial_models)
    check_plan(pool, start=start, query=query, budget=budget)
    answers = starting_answers(
        pool,
        start,
        seed,
        trainer=learner,
        num_models=initial_models,
        workspace=workspace,
    )
    return rounds(
        hidden(pool, budget).with_answers(answers),
        trainer=learner,
        strategy=chooser,
        oracle=TableOracle(pool.labels),
        query=query,
        budget=budget,
        seed=seed,
        test=pool.test,
        workspace=workspace,
    )


def _check_pool(pool: object) -> None:
    if not isinstance(pool, Pool):
        raise UsageError(
            f"A run needs a pool, and was given {type(pool).__name__} {pool!s:.80}; "
            'load it first: fewlabels.run(fewlabels.load("digits")).'
        )
