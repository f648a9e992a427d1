"""Train, measure, ask, repeat: the loop of the paper's Section 2.1, and its simulation.

In a simulated run the labels of a pool are hidden, and given back when asked for.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from statistics import median_low
from typing import Any

import torch
from torch import Generator, Tensor

from fewlabels import files, progress, strategies, training
from fewlabels.data.derived import ChosenImages, row_digest
from fewlabels.errors import BudgetError, DataError, RunError, UsageError, whole_number
from fewlabels.experiments.evaluation import accuracy, calibration, late_median
from fewlabels.experiments.settings import Seeds, check_numbers
from fewlabels.names import DEFAULT_STRATEGY, identity
from fewlabels.pool import UNKNOWN, Answers, Pool, Query, Round, Split, check_query
from fewlabels.protocols import Classifier, Oracle, Strategy, Trainer, ignore
from fewlabels.rng import stream

EVALUATIONS_FILE = "evaluations.jsonl"
"""Name of the file with a training's evaluations, in the folder of its round."""

Timer = Callable[[str], AbstractContextManager[Any]]
"""Makes a context for a piece of work: "train", "query", or "measure" in a training."""


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
    timer: Timer = nullcontext,
    keep_classifier: bool = False,
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
        history: Rounds that were finished before; their answers join the pool.
        withheld: Labels that are known but join after the first query; until then
            nobody sees them.
        workspace: A folder where trainers keep their work.
        timer: What is entered around each piece of work.
        keep_classifier: Whether rounds hold their classifiers.

    Yields:
        A record of each round. The last one trains on the whole budget and asks
        nothing.
    """
    seeds, history = Seeds.of(seed), tuple(history)
    later = Answers() if withheld is None else withheld
    pool = without(pool, later)
    for done in history:
        pool, later = pool.with_answers(done.answers).with_answers(later), Answers()
    while True:
        step = len(history)
        train_seed = seeds.training(step)
        folder = None if workspace is None else round_folder(workspace, step)
        evaluations = None
        if test is not None:
            mark = mark_of(trainer, pool, test, train_seed, step) if folder else ""
            evaluations = Evaluations(test, folder, mark, timer)
        with (
            progress.shown(),
            progress.part(f"round-{step:03d}"),
            timer("train"),
        ):
            classifier = trainer.fit(
                pool,
                stream(train_seed, "train", step),
                workspace=folder,
                on_checkpoint=evaluations.add if evaluations else ignore,
            )
        left = budget - len(pool.labeled) - len(later.indices)
        size = min(query_size(query, step), left, len(pool.candidates))
        asked = Query()
        if size > 0:
            draws = stream(seeds.query, "query", step)
            with progress.shown(), timer("query"):
                asked = strategy.select(classifier, pool, size, draws, history=history)
            check_query(asked, pool, size)
        answers = oracle.answer(asked)
        quality = (None, None) if test is None else calibration(classifier, test)
        done = Round(
            step=step,
            num_labeled=len(pool.labeled),
            class_counts=pool.class_counts,
            accuracy=None if test is None else accuracy(classifier, test),
            median_accuracy=evaluations.median if evaluations else None,
            query=asked,
            answers=answers,
            calibration_error=quality[0],
            brier_score=quality[1],
            classifier=classifier if keep_classifier else None,
        )
        yield done
        done = replace(done, classifier=None)
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
    return query if isinstance(query, int) else query[min(step, len(query) - 1)]


def without(pool: Pool, withheld: Answers) -> Pool:
    """Return the pool in which nobody is asked about labels that join later."""
    is_asked = ~torch.isin(pool.candidates, withheld.indices)
    return replace(pool, candidates=pool.candidates[is_asked])


def round_folder(workspace: Path, step: int) -> Path:
    """Return the folder in which the trainer of a round keeps its work."""
    return workspace / f"round-{step:03d}"


class Evaluations:
    """Accuracy at each checkpoint of one training; no decision uses it.

    A training that was interrupted resumes in its middle and shows later checkpoints
    only, so the accuracies of earlier ones are kept in a file. It begins with a mark:
    evaluations of another training are never mixed in.
    """

    def __init__(
        self,
        test: Split,
        folder: Path | None = None,
        mark: str = "",
        timer: Timer = nullcontext,
    ) -> None:
        """Read those that a folder keeps under a mark (:func:`mark_of`).

        Args:
            test: What is measured on.
            folder: Where they are kept, if anywhere.
            mark: Tells this training from others.
            timer: Entered around each measurement.
        """
        self.accuracies: dict[int, float] = {}
        self._test, self._timer = test, timer
        self._file = None if folder is None else folder / EVALUATIONS_FILE
        if folder is None or self._file is None:
            return
        with readable(self._file, f"Remove '{folder}' to repeat this training"):
            head, *entries = files.read_entries(self._file) or [{"mark": None}]
            if head["mark"] == mark:
                pairs = [(entry["step"], entry["accuracy"]) for entry in entries]
                self.accuracies = {int(step): float(value) for step, value in pairs}
                return
        files.make_folder(folder)
        text = files.add_checksum(json.dumps({"mark": mark}))
        files.replace_text(self._file, f"{text}\n")

    def add(self, step: int, classifier: Classifier) -> None:
        """Measure a checkpoint, keep the accuracy and report it."""
        with self._timer("measure"):
            measured = accuracy(classifier, self._test)
            self.accuracies[int(step)] = measured
            if self._file is not None:
                entry = {"step": int(step), "accuracy": measured}
                files.append_entry(self._file, entry, durable=True)
            progress.tell(step, {"accuracy": measured})

    @property
    def median(self) -> float | None:
        """Median of the last ones; None where the trainer showed no checkpoint."""
        return late_median(self.accuracies) if self.accuracies else None


def mark_of(trainer: Trainer, pool: Pool, test: Split, seed: int, step: int) -> str:
    """Return a hash of all that decides the evaluations of a round."""
    decisive = (
        identity(trainer).model_dump(),
        pool.ids,
        pool.labeled.tolist(),
        pool.labels[pool.labeled].tolist(),
        test.ids,
        test.labels.tolist(),
        seed,
        step,
        *filter(None, [row_digest(pool.images, test.images)]),
    )
    return f"2-{sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()}"


@contextmanager
def readable(
    file: Path, advice: str = "Restore it or choose another folder"
) -> Iterator[None]:
    """Raise :class:`RunError` with the advice where the block cannot use a file."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        text = f"'{file}' could not be read: {str(error).rstrip('.')}. {advice}."
        raise RunError(text) from error


# ----------------------------------------------------------------------- simulated runs


@dataclass(frozen=True, eq=False)
class TableOracle:
    """Answers from a table: the simulated annotator of an experiment.

    An item without a known label is skipped, as a person would who cannot tell.
    """

    labels: Tensor
    """Class numbers of the whole pool, shape (N,)."""

    def answer(self, query: Query) -> Answers:
        """Look the items up."""
        labels, asked = self.labels[query.indices], query.indices
        is_known = labels != UNKNOWN
        return Answers(asked[is_known], labels[is_known], asked[~is_known])


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
    keep_classifier: bool = False,
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
            median accuracy on the rest of the pool is kept (NPC paper, Sec. 5.1).
        workspace: A folder where trainers keep their work, so that it can resume.
        keep_classifier: Whether each round holds its classifier, for measures of yours.

    Returns:
        An iterator that trains as it goes and yields a record of each round.
    """
    if not isinstance(pool, Pool):
        raise UsageError(f"pool is {pool!s:.80}; load one with fewlabels.load.")
    strategy, trainer = strategies.resolve(strategy), training.resolve(trainer)
    start, budget = whole_number("start", start), whole_number("budget", budget)
    sizes = query if isinstance(query, Sequence) else [query]
    sizes = [whole_number("query", size) for size in sizes]
    number = whole_number("initial_models", initial_models)
    check_plan(pool, start=start, query=sizes, budget=budget)
    answers = starting_answers(
        pool, start, seed, trainer=trainer, num_models=number, workspace=workspace
    )
    return rounds(
        hidden(pool, budget).with_answers(answers),
        trainer=trainer,
        strategy=strategy,
        oracle=TableOracle(pool.labels),
        query=sizes,
        budget=budget,
        seed=seed,
        test=pool.test,
        workspace=workspace,
        keep_classifier=keep_classifier,
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
        msg = f"None of the {len(pool)} items has a label; give a labeled data set."
        raise DataError(msg)
    if budget > known:
        raise BudgetError(f"budget is {budget}; {known} items have a known label.")


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
    the median accuracy on all images that are in none of the sets is kept. The test
    split decides nothing. All are trained with the stream of the first round, so in a
    workspace the training of the set that was kept is that of the first round.

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
    held_out = Split(ChosenImages(pool.images, free), pool.labels[free])
    scores = []
    for trial, answers in enumerate(sets):
        with progress.part(f"start-{trial}"):
            classifier = trainer.fit(
                hidden(pool, start).with_answers(answers),
                stream(seeds.first, "train", 0),
                workspace=workspace and workspace / f"start-{trial}",
            )
        scores.append(accuracy(classifier, held_out))
    kept = scores.index(median_low(scores))
    if workspace is not None:
        files.copy_folder(workspace / f"start-{kept}", round_folder(workspace, 0))
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
                f"A start of {start} takes {wanted} of class '{name}', which has "
                f"{len(members)} items; start with fewer."
            )
        order = torch.randperm(len(members), generator=generator)
        chosen.append(members[order[:wanted]])
    indices = torch.cat(chosen)
    return Answers(indices, pool.labels[indices])
