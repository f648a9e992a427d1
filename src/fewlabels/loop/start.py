"""What a simulated run begins with: hidden labels, a checked plan, a starting set."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median_low

import torch

from fewlabels import progress
from fewlabels.data.derived import ChosenImages
from fewlabels.errors import BudgetError, DataError
from fewlabels.evaluation import accuracy
from fewlabels.files import copy_folder
from fewlabels.loop.rounds import round_folder
from fewlabels.loop.seeds import Seeds
from fewlabels.pool import UNKNOWN, Answers, Pool, Split
from fewlabels.protocols import Classifier, Trainer
from fewlabels.rng import stream

_HELD_OUT_SHARE = 0.2


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
            f"None of the {len(pool)} items has a label, so nothing can answer in a "
            "simulated run. Give a labeled data set, such as a folder per class."
        )
    _require(
        budget <= known,
        f"The budget of {budget} labels is larger than the pool, which has {known} "
        "items with a known label; lower the budget.",
    )


def check_numbers(*, start: int, query: int | Sequence[int], budget: int) -> None:
    """Raise unless start, query size and budget fit each other, in whatever pool.

    A wrong number raises :class:`fewlabels.errors.BudgetError`.
    """
    _require(start >= 0, f"start is {start}; it is a number of labels, zero or more.")
    sizes = [query] if isinstance(query, int) else list(query)
    _require(
        bool(sizes) and min(sizes) >= 1,
        f"query is {query}; each round asks for at least one label.",
    )
    _require(budget >= 1, f"budget is {budget}; a run ends with one label or more.")
    _require(
        budget >= start,
        f"The budget of {budget} labels is smaller than the start of {start}; raise "
        "the budget or start with fewer labels.",
    )
    _require(
        budget == start or sizes[0] <= budget - start,
        f"A query of {sizes[0]} labels is larger than what is left: the budget of "
        f"{budget} less the start of {start} leaves {budget - start}. Ask for at most "
        "that many.",
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
    _require(
        num_models >= 1,
        f"initial_models is {num_models}; at least one model begins a run.",
    )
    seeds = Seeds.of(seed)
    sets = [
        _balanced(pool, start, seeds.start, trial)
        for trial in range(num_models if start else 1)
    ]
    if len(sets) == 1:
        return sets[0]
    held_out = _held_out(pool, sets, seeds.start)
    scores = [
        accuracy(
            _tried(
                trainer,
                hidden(pool, start).with_answers(answers),
                seeds.first,
                trial,
                workspace,
            ),
            held_out,
        )
        for trial, answers in enumerate(sets)
    ]
    kept = scores.index(median_low(scores))
    if workspace is not None:
        copy_folder(workspace / _trial_name(kept), round_folder(workspace, 0))
    return sets[kept]


def _trial_name(trial: int) -> str:
    return f"start-{trial}"


def _tried(
    trainer: Trainer, pool: Pool, seed: int, trial: int, workspace: Path | None
) -> Classifier:
    """Return the classifier of one starting set."""
    name = _trial_name(trial)
    with progress.part(name):
        return trainer.fit(
            pool,
            stream(seed, "train", 0),
            workspace=None if workspace is None else workspace / name,
        )


def _balanced(pool: Pool, start: int, seed: int, trial: int) -> Answers:
    """Draw ``start`` labels whose class counts differ by at most one."""
    generator = stream(seed, "start", trial)
    lucky = torch.randperm(pool.num_classes, generator=generator)
    even, extra = divmod(start, pool.num_classes)
    chosen = []
    for label in range(pool.num_classes):
        members = torch.nonzero(pool.labels == label).flatten()
        wanted = even + int(label in lucky[:extra])
        _require(
            wanted <= len(members),
            f"The start of {start} labels takes {wanted} of class "
            f"'{pool.classes[label]}', which has {len(members)} items; start with "
            "fewer.",
        )
        order = torch.randperm(len(members), generator=generator)
        chosen.append(members[order[:wanted]])
    indices = torch.cat(chosen)
    return Answers(indices, pool.labels[indices])


def _held_out(pool: Pool, sets: Sequence[Answers], seed: int) -> Split:
    """Return labeled images of the pool that belong to no starting set."""
    taken = torch.cat([answers.indices for answers in sets])
    free = pool.labeled[~torch.isin(pool.labeled, taken)]
    order = torch.randperm(len(free), generator=stream(seed, "held-out"))
    kept = free[order[: max(1, int(_HELD_OUT_SHARE * len(free)))]]
    return Split(ChosenImages(pool.images, kept), pool.labels[kept])


def _require(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - a sentence
    if not holds:
        raise BudgetError(otherwise)
