"""Train, measure, ask, repeat: the loop of the paper's Section 2.1."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from fewlabels import progress
from fewlabels.errors import whole_number
from fewlabels.experiments.evaluation import accuracy
from fewlabels.experiments.evaluations import Evaluations, mark_of
from fewlabels.pool import Answers, Pool, Query, Round, Split, check_query
from fewlabels.protocols import Classifier, Oracle, Strategy, Trainer
from fewlabels.rng import stream


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """Seeds of a run; usually all the same.

    Runs that share ``start`` and ``first`` begin with one and the same model, as the
    trials of the NPC paper do (Sec. 5.1). Runs that share ``start`` alone show what the
    chance of training does to one set of labels.
    """

    start: int
    """Decides the starting set."""
    first: int
    """Decides the first training, and those that choose among starting sets."""
    train: int
    """Decides the later trainings."""
    query: int
    """Decides what a strategy draws."""

    @classmethod
    def of(cls, seed: "int | Seeds") -> "Seeds":
        """Return one seed for every purpose; seeds come back as they are."""
        if isinstance(seed, cls):
            return seed
        number = whole_number("seed", seed)
        return cls(start=number, first=number, train=number, query=number)

    def training(self, step: int) -> int:
        """Return the seed of the training of a round."""
        return self.train if step else self.first


def rounds(
    pool: Pool,
    *,
    trainer: Trainer,
    strategy: Strategy,
    oracle: Oracle,
    query: int | Sequence[int],
    budget: int,
    seed: int | Seeds,
    test: Split | None,
    history: Sequence[Round] = (),
    withheld: Answers | None = None,
    workspace: Path | None = None,
) -> Iterator[Round]:
    """Alternate training and asking until the budget is spent.

    Args:
        pool: What is labeled now and what may be asked.
        trainer: Makes a classifier from the pool, from scratch in each round.
        strategy: Chooses what to ask.
        oracle: Answers, wholly or in part.
        query: Labels asked for in each round; several numbers: in the first rounds,
            the last of them from then on.
        budget: Labels at the end.
        seed: Seed of the whole run, or one per purpose; streams are named by purpose
            and round.
        test: What accuracy is measured on.
        history: Rounds that were finished before; ``pool`` knows their answers.
        withheld: Labels that are known but join after the first query; until then
            nobody sees them.
        workspace: A folder where trainers keep their work.

    Yields:
        A record of each round. The last one trains on the whole budget and asks
        nothing.
    """
    seeds, history = Seeds.of(seed), tuple(history)
    later = Answers() if withheld is None else withheld
    pool = without(pool, later)
    while True:
        step = len(history)
        classifier, median = _trained(trainer, pool, test, seeds, step, workspace)
        left = budget - len(pool.labeled) - len(later.indices)
        size = min(query_size(query, step), left, len(pool.candidates))
        asked = Query()
        if size > 0:
            asked = strategy.select(
                classifier,
                pool,
                size,
                stream(seeds.query, "query", step),
                history=history,
            )
            check_query(asked, pool, size)
        answers = oracle.answer(asked)
        done = Round(
            step=step,
            num_labeled=len(pool.labeled),
            class_counts=pool.class_counts,
            accuracy=None if test is None else accuracy(classifier, test),
            median_accuracy=median,
            query=asked,
            answers=answers,
        )
        yield done
        if not len(answers.indices) + len(answers.skipped):
            return
        history = (*history, done)
        pool, later = pool.with_answers(answers).with_answers(later), Answers()


def query_size(query: int | Sequence[int], step: int) -> int:
    """Return how many labels a round asks for.

    Example:
        >>> [query_size([20, 40], step) for step in range(3)]
        [20, 40, 40]
    """
    if isinstance(query, int):
        return query
    return query[min(step, len(query) - 1)]


def without(pool: Pool, withheld: Answers) -> Pool:
    """Return the pool in which nobody is asked about labels that join later."""
    is_asked = ~torch.isin(pool.candidates, withheld.indices)
    return replace(pool, candidates=pool.candidates[is_asked])


def round_folder(workspace: Path, step: int) -> Path:
    """Return the folder in which the trainer of a round keeps its work."""
    return workspace / f"round-{step:03d}"


def _trained(
    trainer: Trainer,
    pool: Pool,
    test: Split | None,
    seeds: Seeds,
    step: int,
    workspace: Path | None,
) -> tuple[Classifier, float | None]:
    """Return the classifier of a round and the median of its last evaluations."""
    folder = None if workspace is None else round_folder(workspace, step)
    seed = seeds.training(step)
    generator = stream(seed, "train", step)
    with progress.part(f"round-{step:03d}"):
        if test is None:
            return trainer.fit(pool, generator, workspace=folder), None
        mark = "" if folder is None else mark_of(trainer, pool, test, seed, step)
        evaluations = Evaluations.open(test, folder, mark)
        classifier = trainer.fit(
            pool, generator, workspace=folder, on_checkpoint=evaluations.add
        )
    return classifier, evaluations.median
