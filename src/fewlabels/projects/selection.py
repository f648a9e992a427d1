"""A new round: images that a strategy chooses, mixed with images that measure."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from fewlabels import strategies
from fewlabels.errors import BudgetError, FewlabelsWarning, count
from fewlabels.experiments.settings import Choice
from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Images, Pool, Query, check_query
from fewlabels.projects import model_training
from fewlabels.projects.folder import ModelRecord
from fewlabels.projects.snapshot import Snapshot
from fewlabels.projects.store import RoundItem, StoredRound, candidates_digest
from fewlabels.protocols import Classifier
from fewlabels.rng import stream
from fewlabels.strategies.random import Random

if TYPE_CHECKING:
    from fewlabels.projects.project import Project


def new_round(
    project: "Project",
    snapshot: Snapshot,
    size: int | None,
    strategy: Choice | None,
    *,
    ahead: bool = False,
) -> StoredRound:
    """Choose images and store the round.

    Args:
        project: The project.
        snapshot: Its current content.
        size: How many images the strategy chooses; None: as the project says.
        strategy: Another strategy than the project's, for this round.
        ahead: Keep open what is open; it is not chosen again.

    Returns:
        The round. The latest model's predictions are in it, so that it can be written
        for people again without the model.
    """
    settings, step = project.settings, len(snapshot.rounds)
    choice = strategy or project.allowed(settings.strategy)
    pending = [snapshot.positions[entry.item] for entry in snapshot.open if ahead]
    group_of = [item.group for item in snapshot.items]
    closed = {group_of[index] for index in pending}
    free = [index for index in snapshot.candidates if group_of[index] not in closed]
    audit = _audit_slice(project, snapshot, free)
    again = [entry for entry in snapshot.open if entry.role == "audit" and not ahead]
    num_promised = len(snapshot.waiting & snapshot.positions.keys()) if ahead else 0
    unaudited = set(free) - set(audit)
    left = settings.budget - snapshot.num_spent - num_promised - len(audit) - len(again)
    if left < (0 if audit else 1) or not unaudited:
        why = f"every {settings.noun} has been asked about"
        if left < 1:
            why = f"{snapshot.num_spent} of {settings.budget} labels are spent"
        raise BudgetError(
            f"Nothing more to ask: {why}. Raise 'budget' in '{project.settings_file}', "
            f"add {settings.noun}s, or train and export."
        )
    size = min(settings.query if size is None else size, left, len(unaudited))
    choice = choice if left else Choice(name="random")  # all of the round measures
    records = project.records()
    model = records[-1] if records else None
    chooser = strategies.resolve(choice.name, choice.options)
    is_blind = model is None and isinstance(chooser, Random)
    pool, classifier = _prepare(project, snapshot, model, unaudited, is_blind=is_blind)
    unknown = [i for i in pending if snapshot.items[i].id not in snapshot.audit]
    expected = _with_expected_labels(pool, classifier, unknown)
    draws, history = stream(settings.seed, "query", step), snapshot.history()
    query = Query()
    if left:
        query = chooser.select(classifier, expected, size, draws, history=history)
    check_query(query, expected, size)
    asked = [RoundItem(pool.ids[index]) for index in query.indices.tolist()]
    measuring = [*(RoundItem(pool.ids[index], "audit") for index in audit), *again]
    if measuring:
        asked = _mixed(asked + measuring, stream(settings.seed, "order", step))
    options: dict[str, Any] = {
        "strategy_options": choice.options,
        "value": query.value,
        "record": dict(query.record),
        "class_counts": list(pool.class_counts),
    }
    if pending:
        options["since"] = _first_open(snapshot)
    if model is not None and all(entry.role == "query" for entry in asked):
        indices = sorted(snapshot.positions[entry.item] for entry in asked)
        shares = _shares(classifier, pool, indices).tolist()
        known = (pool.ids[index] for index in indices)
        options["guesses"] = dict(zip(known, shares, strict=True))
    if audit and model is not None:
        model_training.predict_checks(project, [pool.ids[index] for index in audit])
    candidates = (pool.ids[index] for index in pool.candidates.tolist())
    new = StoredRound(
        step=step,
        strategy=choice.name,
        items=tuple(asked),
        options=options,
        seed=settings.seed,
        model=None if model is None else model.name,
        candidates_digest=candidates_digest(candidates),
    )
    return project.store.add_round(new)


def _mixed(items: list[RoundItem], draws: torch.Generator) -> list[RoundItem]:
    """Return items in random order, so that nobody can tell what measures."""
    return [
        items[place] for place in torch.randperm(len(items), generator=draws).tolist()
    ]


def _with_expected_labels(pool: Pool, classifier: Classifier, items: list[int]) -> Pool:
    """Return the pool in which some items have the labels that the model expects.

    Otherwise a strategy would ask about the same regions again before the answers are
    there.
    """
    if not items:
        return pool
    labels = pool.labels.clone()
    labels[items] = _shares(classifier, pool, items).argmax(dim=1).to(labels)
    return replace(pool, labels=labels)


def _shares(classifier: Classifier, pool: Pool, indices: list[int]) -> torch.Tensor:
    logits = classifier.outputs(pool.images, torch.tensor(indices)).logits
    return logits.double().softmax(dim=1)


def _first_open(snapshot: Snapshot) -> int:
    """Return the first round with an open image, of those that are handed out."""
    waiting, rounds = {entry.item for entry in snapshot.open}, snapshot.open_rounds
    return next(r.step for r in rounds if waiting & {e.item for e in r.items})


def _audit_slice(
    project: "Project", snapshot: Snapshot, candidates: Sequence[int]
) -> list[int]:
    """Return uniformly drawn images to complete the audit slice."""
    free = torch.tensor(candidates, dtype=torch.int64)
    missing = max(0, min(snapshot.num_undrawn(project.settings.audit), len(free) - 1))
    draws = stream(project.settings.seed, "audit", len(snapshot.rounds))
    drawn: list[int] = free[torch.randperm(len(free), generator=draws)].tolist()
    return sorted(drawn[:missing])


def _prepare(
    project: "Project",
    snapshot: Snapshot,
    model: ModelRecord | None,
    free: set[int],
    *,
    is_blind: bool,
) -> tuple[Pool, Classifier]:
    """Return the pool, with free images as candidates, and a classifier of it.

    The classifier is the latest model; without one, the untrained network or, where the
    strategy looks at nothing, zeros.
    """
    settings = project.settings
    num_unasked = len(snapshot.consensus) - snapshot.num_spent
    budget = settings.budget - settings.audit + num_unasked
    images: Images
    if is_blind:  # listing many files takes seconds
        shape = (len(snapshot.items), *settings.shape)
        images = ArrayImages(torch.zeros((), dtype=torch.uint8).expand(shape))
    else:
        images = project.images(snapshot)
    pool = snapshot.pool(images, budget=budget)
    is_free = [index in free for index in pool.candidates.tolist()]
    pool = replace(pool, candidates=pool.candidates[is_free])
    if model is not None:
        return pool, project.classifier(model, pool)
    if len(pool.labeled):
        message = (
            "The choice uses an untrained network: no model was trained on the "
            f"{count(len(pool.labeled), 'label')}. Train first."
        )
        warnings.warn(message, FewlabelsWarning, stacklevel=4)
    if is_blind:
        zeros = torch.zeros(len(pool), pool.num_classes)
        return pool, PrecomputedClassifier(zeros[:, :1], zeros)
    unlabeled = replace(pool, labels=torch.full_like(pool.labels, UNKNOWN))
    return pool, project.trainer().fit(unlabeled, stream(settings.seed, "train", 0))
