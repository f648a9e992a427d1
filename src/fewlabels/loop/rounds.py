"""Train, measure, ask, repeat: the loop of the paper's Section 2.1."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from fewlabels.evaluation import accuracy
from fewlabels.pool import Pool, Query, Round, Split, check_query
from fewlabels.protocols import Oracle, Strategy, Trainer
from fewlabels.rng import stream


def rounds(
    pool: Pool,
    *,
    trainer: Trainer,
    strategy: Strategy,
    oracle: Oracle,
    query: int,
    budget: int,
    seed: int,
    test: Split | None,
    history: Sequence[Round] = (),
    workspace: Path | None = None,
) -> Iterator[Round]:
    """Alternate training and asking until the budget is spent.

    Args:
        pool: What is labeled now and what may be asked.
        trainer: Makes a classifier from the pool, from scratch in each round.
        strategy: Chooses what to ask.
        oracle: Answers, wholly or in part.
        query: Labels asked for in each round.
        budget: Labels at the end.
        seed: Seed of the whole run; streams are named by purpose and round.
        test: What accuracy is measured on.
        history: Rounds that were finished before; ``pool`` knows their answers.
        workspace: A folder where trainers keep their work.

    Yields:
        A record of each round. The last one trains on the whole budget and asks
        nothing.
    """
    history = tuple(history)
    while True:
        step = len(history)
        classifier = trainer.fit(
            pool,
            stream(seed, "train", step),
            workspace=None if workspace is None else round_folder(workspace, step),
        )
        size = min(query, budget - len(pool.labeled), len(pool.candidates))
        asked = Query()
        if size > 0:
            asked = strategy.select(
                classifier, pool, size, stream(seed, "query", step), history=history
            )
            check_query(asked, pool, size)
        answers = oracle.answer(asked)
        done = Round(
            step=step,
            num_labeled=len(pool.labeled),
            class_counts=pool.class_counts,
            accuracy=None if test is None else accuracy(classifier, test),
            query=asked,
            answers=answers,
        )
        yield done
        if not len(answers.indices) + len(answers.skipped):
            return
        history = (*history, done)
        pool = pool.with_answers(answers)


def round_folder(workspace: Path, step: int) -> Path:
    """Return the folder in which the trainer of a round keeps its work."""
    return workspace / f"round-{step:03d}"
