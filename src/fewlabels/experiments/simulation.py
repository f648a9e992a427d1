"""A simulated run: hidden labels, a checked plan, a starting set, then the rounds."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median_low

import torch
from torch import Generator

from fewlabels import progress, strategies, training
from fewlabels.data.derived import ChosenImages
from fewlabels.errors import BudgetError, DataError, UsageError, whole_number
from fewlabels.experiments.acquisition import Seeds, round_folder, rounds
from fewlabels.experiments.evaluation import accuracy
from fewlabels.experiments.oracles import TableOracle
from fewlabels.files import copy_folder
from fewlabels.names import DEFAULT_STRATEGY
from fewlabels.pool import UNKNOWN, Answers, Pool, Round, Split
from fewlabels.protocols import Strategy, Trainer
from fewlabels.rng import stream

_HELD_OUT_SHARE = 0.2


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
    if not isinstance(pool, Pool):
        raise UsageError(
            f"A run needs a pool, and was given {type(pool).__name__} {pool!s:.80}; "
            'load it first: fewlabels.run(fewlabels.load("digits")).'
        )
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


def hidden(pool: Pool, budget: int) -> Pool:
    """Return the pool with its labels and test split out of sight.

    Only items whose label is known can be asked about: nobody else could answer.
    """
    return replace(
        pool,
        labels=torch.full_like(pool.labels, UNKNOWN),
        candidates=torch.nonzero(pool.labels != UNKNOWN).flatten(),
        test=None,
        budget=budget,
    )


def check_plan(
    pool: Pool, *, start: int, query: int | Sequence[int], budget: int
) -> None:
    """Raise unless start, query size and budget fit the pool and each other.

    A wrong number raises :class:`fewlabels.errors.BudgetError`, a pool without labels
    :class:`fewlabels.errors.DataError`.
    """
    check_numbers(start=start, query=query, budget=budget)
    known = len(pool.labeled)
    if not known:
        raise DataError(
            f"None of the {len(pool)} items has a label, so nothing can answer; give a "
            "labeled data set, such as a folder per class."
        )
    if budget > known:
        raise BudgetError(
            f"The budget of {budget} labels is larger than the pool, which has {known} "
            "items with a known label; lower the budget."
        )


def check_numbers(*, start: int, query: int | Sequence[int], budget: int) -> None:
    """Raise unless start, query size and budget fit each other, in whatever pool.

    A wrong number raises :class:`fewlabels.errors.BudgetError`.
    """
    sizes, left = [query] if isinstance(query, int) else list(query), budget - start
    if start < 0 or budget < 1 or not sizes or min(sizes) < 1:
        raise BudgetError(
            f"start is {start}, query {query} and budget {budget}; start with 0 labels "
            "or more, and ask for at least one label in each round."
        )
    if left < 0:
        raise BudgetError(
            f"The budget of {budget} labels is smaller than the start of {start}; "
            "raise the budget or start with fewer labels."
        )
    if 0 < left < sizes[0]:
        raise BudgetError(
            f"A query of {sizes[0]} labels is larger than what is left: the budget of "
            f"{budget} less the start of {start} leaves {left}; ask for at most that."
        )


def starting_answers(
    pool: Pool,
    start: int,
    seed: int | Seeds,
    *,
    trainer: Trainer,
    num_models: int = 1,
    workspace: Path | None = None,
) -> Answers:
    """Return the labels that a run begins with: random, spread evenly over the classes.

    With several models, each is trained on a starting set of its own, and the set of
    the median accuracy on held-out images of the pool is kept. The test split decides
    nothing. All are trained with the stream of the first round, so in a workspace the
    training of the set that was kept is that of the first round.

    Args:
        pool: The pool with its known labels.
        start: How many labels.
        seed: Seed of the whole run, or one per purpose.
        trainer: Trains the models to choose from.
        num_models: How many starting sets to choose from.
        workspace: A folder where trainers keep their work.

    Returns:
        The labels to begin with.
    """
    if num_models < 1:
        raise BudgetError(f"initial_models is {num_models}; give at least one.")
    seeds = Seeds.of(seed)
    sets = [
        _balanced(pool, start, stream(seeds.start, "start", trial))
        for trial in range(num_models if start else 1)
    ]
    if len(sets) == 1:
        return sets[0]
    taken = torch.cat([answers.indices for answers in sets])
    free = pool.labeled[~torch.isin(pool.labeled, taken)]
    order = torch.randperm(len(free), generator=stream(seeds.start, "held-out"))
    chosen = free[order[: max(1, int(_HELD_OUT_SHARE * len(free)))]]
    held_out = Split(ChosenImages(pool.images, chosen), pool.labels[chosen])
    names, scores = [f"start-{trial}" for trial in range(num_models)], []
    for name, answers in zip(names, sets, strict=True):
        with progress.part(name):
            classifier = trainer.fit(
                hidden(pool, start).with_answers(answers),
                stream(seeds.first, "train", 0),
                workspace=None if workspace is None else workspace / name,
            )
        scores.append(accuracy(classifier, held_out))
    kept = scores.index(median_low(scores))
    if workspace is not None:
        copy_folder(workspace / names[kept], round_folder(workspace, 0))
    return sets[kept]


def _balanced(pool: Pool, start: int, generator: Generator) -> Answers:
    """Draw ``start`` labels whose class counts differ by at most one."""
    lucky = torch.randperm(pool.num_classes, generator=generator)
    even, extra = divmod(start, pool.num_classes)
    chosen = []
    for label, name in enumerate(pool.classes):
        members = torch.nonzero(pool.labels == label).flatten()
        wanted = even + int(label in lucky[:extra])
        if wanted > len(members):
            raise BudgetError(
                f"The start of {start} labels takes {wanted} of class '{name}', which "
                f"has {len(members)} items; start with fewer."
            )
        order = torch.randperm(len(members), generator=generator)
        chosen.append(members[order[:wanted]])
    indices = torch.cat(chosen)
    return Answers(indices, pool.labels[indices])
