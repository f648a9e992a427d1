"""Training on what people said so far."""

import json
import shutil
import time
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

import torch
from torch import Tensor

from fewlabels import training
from fewlabels.data.contents import row_contents
from fewlabels.errors import TargetWarning, UsageError
from fewlabels.identity import identity
from fewlabels.pool import Pool
from fewlabels.projects import models
from fewlabels.projects.export import Facts, save_model
from fewlabels.projects.folder import ProjectFolder
from fewlabels.projects.models import ModelRecord
from fewlabels.projects.shares import assumed, informed
from fewlabels.projects.snapshot import Snapshot
from fewlabels.protocols import Trainer
from fewlabels.rng import stream
from fewlabels.runs import Choice

_WORKSPACE = "training"  # of the project's own trainer, below its models
_OTHER_WORKSPACE = "other-training"
_MODELS_LOCK = ".models.lock"


@dataclass(frozen=True)
class Trained:
    """A model, and whether it was trained now."""

    record: ModelRecord
    is_new: bool
    """False: nothing that decides a training has changed since."""


def train(project: ProjectFolder, other: Choice | None = None) -> Trained:
    """Train on all labels but those that measure; go on with what was interrupted.

    Args:
        project: The project.
        other: Another trainer than the project's.

    Returns:
        The model. It gets its number when it is finished: the project's own trainer
        may give others meanwhile.
    """
    snapshot = project.snapshot()
    pool = snapshot.pool(project.images(snapshot))
    _check_labels(pool, snapshot)
    chosen = project.chosen_trainer() if other is None else other
    trainer = training.resolve(chosen.name, chosen.options)
    digest = _digest(pool, snapshot, trainer)
    done = project.records()
    if done and done[-1].settings == digest:
        return Trained(done[-1], is_new=False)
    purpose = len(done) if other is None else chosen.name
    workspace = project.models_folder / (
        _WORKSPACE if other is None else _OTHER_WORKSPACE
    )
    before = time.monotonic()
    with warnings.catch_warnings():
        # In a trainer's words; whether shares fit is told by the notes of a status.
        warnings.simplefilter("ignore", TargetWarning)
        classifier = trainer.fit(
            pool,
            stream(project.settings.seed, "train", purpose),
            workspace=workspace / digest[:16],
        )
    logits = classifier.outputs(pool.images, torch.arange(len(pool))).logits
    predicted = logits.argmax(dim=1)
    counts = torch.bincount(predicted, minlength=pool.num_classes)
    facts = Facts(
        trainer=chosen.name,
        label_counts=pool.class_counts,
        num_images=len(pool),
        strategy=project.settings.strategy.name,
    )
    with project.alone(_MODELS_LOCK, "writing a model", patience=-1):
        number = len(project.records())
        folder = project.models_folder / models.folder_name(number)
        record = ModelRecord(
            number=number,
            created=datetime.now(UTC),
            seconds=time.monotonic() - before,
            trainer=chosen.name,
            reason=project.settings.reason if other is None else "You asked for it.",
            settings=digest,
            labels=snapshot.labels_digest,
            classes=pool.classes,
            class_counts=pool.class_counts,
            audit=_audit(predicted, pool, snapshot),
            predicted=tuple(counts.tolist()),
        )
        save_model(folder, classifier, pool.classes, pool.images.shape, facts)
        models.write(folder, record)
    shutil.rmtree(workspace, ignore_errors=True)
    return Trained(record, is_new=True)


def other_trainer(project: ProjectFolder, name: str | Choice) -> Choice:
    """Return another trainer than the project's, given its encoder and class shares."""
    chosen, own = Choice.model_validate(name), project.chosen_trainer()
    known = training.options(chosen.name)
    shared = {"encoder", "encoder_options"} & own.options.keys() & set(known)
    options = {option: own.options[option] for option in shared} | chosen.options
    chosen = Choice(name=chosen.name, options=options)
    shares = assumed(own, len(project.store.classes()))
    option = training.share_option(chosen.name)
    if shares is None or option is None or option.name in options:
        return chosen
    return informed(chosen, shares)


def is_up_to_date(project: ProjectFolder, snapshot: Snapshot) -> bool:
    """Tell whether the latest model, by whatever trainer, has learned all labels."""
    done = project.records()
    return bool(done) and done[-1].labels == snapshot.labels_digest


def is_needed(project: ProjectFolder, other: Choice | None = None) -> bool:
    """Tell whether :func:`train` would train: there is something, and it is new."""
    snapshot = project.snapshot()
    pool = snapshot.pool(project.images(snapshot))
    if _num_labeled_classes(pool) < models.NUM_TO_TELL_APART:
        return False
    done = project.records()
    chosen = project.chosen_trainer() if other is None else other
    trainer = training.resolve(chosen.name, chosen.options)
    return not done or done[-1].settings != _digest(pool, snapshot, trainer)


def is_interrupted(project: ProjectFolder) -> bool:
    """Tell whether a training was begun and did not come to its end."""
    return (project.models_folder / _WORKSPACE).exists()


def _num_labeled_classes(pool: Pool) -> int:
    return sum(count > 0 for count in pool.class_counts)


def _check_labels(pool: Pool, snapshot: Snapshot) -> None:
    """Raise unless there is something to tell apart."""
    num_classes = _num_labeled_classes(pool)
    if num_classes >= models.NUM_TO_TELL_APART:
        return
    raise UsageError(
        f"{len(pool.labeled)} labels of {num_classes} classes are available for "
        f"training; the {len(snapshot.audited)} audit labels do not count. A "
        "classifier needs labels of at least two classes: ask and tell some more."
    )


def _digest(pool: Pool, snapshot: Snapshot, trainer: Trainer) -> str:
    """Return a digest of what decides a training and what is measured of it."""
    decisive = (identity(trainer).model_dump(), pool.classes, pool.images.shape)
    digest = sha256(json.dumps(decisive, sort_keys=True).encode())
    for name in (*pool.ids, "audit", *sorted(snapshot.audit)):
        digest.update(name.encode() + b"\n")
    digest.update(pool.labels.numpy().tobytes())
    for content in row_contents(pool.images):  # names do not tell what rows hold
        digest.update(content)
    return digest.hexdigest()


def _audit(predicted: Tensor, pool: Pool, snapshot: Snapshot) -> dict[str, str]:
    """Return the class that the model gives to each image that measures, by id."""
    return {
        item: pool.classes[int(predicted[snapshot.positions[item]])]
        for item in sorted(snapshot.audit & snapshot.positions.keys())
    }
