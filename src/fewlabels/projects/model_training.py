"""Training of a project's models, and what is known of it beforehand."""

import json
import shutil
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from fewlabels import files, training
from fewlabels.data.derived import ChosenImages, row_contents
from fewlabels.errors import TargetWarning, UsageError
from fewlabels.experiments.evaluation.measurement import Change
from fewlabels.experiments.settings import Choice
from fewlabels.models import encoders
from fewlabels.models.cache import FeatureCache
from fewlabels.models.classifiers import Embedded, FrozenClassifier
from fewlabels.models.embedding import embedded
from fewlabels.models.model_folder import load_model, save_model
from fewlabels.names import identity
from fewlabels.pool import UNKNOWN, Pool
from fewlabels.progress import duration
from fewlabels.projects import folder as folders
from fewlabels.projects.settings import assumed_shares, with_shares
from fewlabels.projects.snapshot import Snapshot
from fewlabels.projects.training_plan import expected_seconds
from fewlabels.protocols import Classifier, Trainer
from fewlabels.rng import stream

if TYPE_CHECKING:
    from fewlabels.projects.project import Project

_WORKSPACE = "training"  # of the project's own trainer, below its models
_OTHER_WORKSPACE = "other-training"
_MODELS_LOCK = ".models.lock"
_GUESSES = "predicted.bin"  # the class of each image of the pool, to be compared with
_GUESS = np.dtype([("item", "<u8"), ("class", "<u4")])
_MOST_GUESSES = 2**32


@dataclass(frozen=True)
class Trained:
    """A model, and whether it was trained now."""

    record: folders.ModelRecord
    is_new: bool
    """False: nothing that decides a training has changed since."""


def train_model(project: "Project", other: Choice | None = None) -> Trained:
    """Train on all labels but those that measure, or resume an interrupted training.

    Args:
        project: The project.
        other: Another trainer than the project's.

    Returns:
        The model. It gets its number when it is finished: the project's own trainer
        may finish others meanwhile.
    """
    snapshot, records = project.snapshot(), project.records()
    pool = snapshot.pool(project.images(snapshot))
    num_classes = sum(count > 0 for count in pool.class_counts)
    if num_classes < folders.NUM_TO_TELL_APART:
        raise UsageError(
            f"{len(pool.labeled)} labels of {num_classes} classes are not enough to "
            f"train ({len(snapshot.audited)} audit labels aside). Label two classes."
        )
    chosen = project.chosen_trainer() if other is None else other
    trainer = training.resolve(chosen.name, chosen.options)
    digest = _digest(pool, snapshot, trainer)
    if records and records[-1].settings == digest:
        return Trained(records[-1], is_new=False)
    purpose = len(records) if other is None else chosen.name
    name = _WORKSPACE if other is None else _OTHER_WORKSPACE
    workspace, started = project.models_folder / name, time.monotonic()
    with warnings.catch_warnings():
        # The notes of a status say whether class shares fit.
        warnings.simplefilter("ignore", TargetWarning)
        draws = stream(project.settings.seed, "train", purpose)
        classifier = trainer.fit(pool, draws, workspace=workspace / digest[:16])
    logits = classifier.outputs(pool.images, torch.arange(len(pool))).logits
    sureness, predicted = logits.double().softmax(dim=1).max(dim=1)
    audit = {i: place for i, place in snapshot.positions.items() if i in snapshot.audit}
    is_free = pool.labels == UNKNOWN
    is_free[list(audit.values())] = False
    guesses = np.empty(len(pool), dtype=_GUESS)  # of images known by a hash of their id
    guesses["item"] = _hashes(pool.ids)
    guesses["class"] = predicted.numpy()
    unlabeled = guesses[is_free.numpy()]
    counts = torch.bincount(predicted, minlength=pool.num_classes)
    with project.alone(_MODELS_LOCK, "writing a model", timeout=-1):
        number = len(project.records())
        folder = project.models_folder / folders.folder_name(number)
        record = folders.ModelRecord(
            number=number,
            created=datetime.now(UTC),
            seconds=time.monotonic() - started,
            trainer=chosen.name,
            reason=project.settings.reason if other is None else "You asked for it.",
            settings=digest,
            labels=snapshot.labels_digest,
            classes=pool.classes,
            class_counts=pool.class_counts,
            audit={i: pool.classes[int(predicted[p])] for i, p in audit.items()},
            predicted=tuple(counts.tolist()),
            confidences={i: round(float(sureness[p]), 6) for i, p in audit.items()},
            mean_confidence=float(sureness[is_free].mean()) if is_free.any() else None,
            num_unlabeled=int(is_free.sum()),
            change=_change(project, chosen.name, len(pool.labeled), unlabeled),
        )
        save_model(folder, classifier, pool.classes, pool.images.shape)
        with files.replace_file(folder / _GUESSES) as partial:
            partial.write_bytes(guesses.tobytes())
        folders.write_record(folder, record)
    shutil.rmtree(workspace, ignore_errors=True)
    return Trained(record, is_new=True)


def _change(
    project: "Project", trainer: str, num_labeled: int, guesses: NDArray[np.void]
) -> Change | None:
    """Return how predictions differ from those of the model before with fewer labels.

    Files of models that are gone, damaged or from an earlier version tell nothing.
    """
    for record in reversed(project.records()):
        if record.trainer != trainer or record.num_labeled >= num_labeled:
            continue
        earlier = _read_guesses(project, record)
        both = guesses["item"], earlier["item"]
        _, now, before = np.intersect1d(*both, return_indices=True)
        if not len(now):
            return None
        is_other = guesses["class"][now] != earlier["class"][before]
        return Change(record.num_labeled, num_labeled, float(is_other.mean()))
    return None


def predict_checks(project: "Project", items: Sequence[str]) -> None:
    """Note what the models predict for images drawn to measure after their training.

    Where one of them was labeled before and that was undone, a model may have learned
    the label; then only later models are measured on them.
    """
    if not {event.item for event in project.store.events()}.isdisjoint(items):
        return
    hashes = _hashes(items)
    item_of = dict(zip(hashes.tolist(), items, strict=True))
    with project.alone(_MODELS_LOCK, "writing a model", timeout=-1):
        for record in project.records():
            guesses = _read_guesses(project, record)
            is_valid = guesses["class"] < len(record.classes)  # unless it is damaged
            known = guesses[is_valid & np.isin(guesses["item"], hashes)].tolist()
            new = {item_of[item]: record.classes[number] for item, number in known}
            changed = record.model_copy(update={"audit": record.audit | new})
            folders.write_record(project.models_folder / record.name, changed)


def _hashes(items: Sequence[str]) -> NDArray[np.uint64]:
    """Return the numbers that stand for images in a file of predictions."""
    hashes = b"".join(sha256(item.encode()).digest()[:8] for item in items)
    return np.frombuffer(hashes, dtype="<u8")


def _read_guesses(project: "Project", record: folders.ModelRecord) -> NDArray[np.void]:
    """Return a model's predictions; none from a file that is gone or damaged."""
    try:
        path = project.models_folder / record.name / _GUESSES
        return np.frombuffer(files.read_regular(path, _MOST_GUESSES), dtype=_GUESS)
    except (OSError, ValueError):
        return np.empty(0, dtype=_GUESS)


def load_classifier(
    project: "Project", record: folders.ModelRecord, pool: Pool
) -> Classifier:
    """Return a trained model, with the stored features of the pool."""
    options = project.settings.trainer.options
    name, encoder = options.get("encoder"), None
    if isinstance(name, str) and name not in encoders.names():
        # Somebody wrote this encoder; the folder of the model does not hold it.
        project.allowed(project.settings.trainer)
        encoder = encoders.resolve(name, **options.get("encoder_options", {}))
        # A module does not know how many features it gives before its first image.
        embedded(ChosenImages(pool.images, torch.zeros(1).long()), encoder)
    folder = project.models_folder / record.name
    classifier = load_model(folder, encoder=encoder).classifier
    if not isinstance(classifier, FrozenClassifier):
        return classifier
    cache = FeatureCache.of_this_user()
    rows = embedded(pool.images, classifier.encoder, cache=cache)
    return replace(classifier, known=(Embedded(pool.images, rows),), cache=cache)


def other_trainer(project: "Project", name: str | Choice) -> Choice:
    """Return another trainer than the project's, given its encoder and class shares."""
    chosen, own = Choice.model_validate(name), project.chosen_trainer()
    known = training.options(chosen.name)
    shared = {"encoder", "encoder_options"} & own.options.keys() & set(known)
    options = {option: own.options[option] for option in shared} | chosen.options
    chosen = Choice(name=chosen.name, options=options)
    shares = assumed_shares(own, len(project.store.classes()))
    option = training.share_option(chosen.name)
    if shares is None or option is None or option.name in options:
        return chosen
    return with_shares(chosen, shares)


def expectation(project: "Project", trainer: str | Choice | None) -> str:
    """Return how long the next training takes; see :meth:`Project.expectation`."""
    chosen = other_trainer(project, trainer) if trainer else project.chosen_trainer()
    snapshot, records = project.snapshot(), project.records()
    pool = snapshot.pool(project.images(snapshot))
    if sum(count > 0 for count in pool.class_counts) < folders.NUM_TO_TELL_APART:
        return ""
    fitted = training.resolve(chosen.name, chosen.options)
    if records and records[-1].settings == _digest(pool, snapshot, fitted):
        return ""
    seconds = expected_seconds(chosen, pool, FeatureCache.of_this_user())
    reason = "" if trainer else f"{project.settings.reason} "
    expected = "not known" if seconds is None else duration(seconds)
    return f"{reason}Expected: {expected}."


def is_up_to_date(project: "Project", snapshot: Snapshot) -> bool:
    """Return whether the latest model, of whatever trainer, has learned all labels."""
    records = project.records()
    return bool(records) and records[-1].labels == snapshot.labels_digest


def is_interrupted(project: "Project") -> bool:
    """Return whether a training was begun and not finished."""
    return (project.models_folder / _WORKSPACE).exists()


def _digest(pool: Pool, snapshot: Snapshot, trainer: Trainer) -> str:
    """Return a digest of everything that decides a training and its measurement."""
    decisive = (identity(trainer).model_dump(), pool.classes, pool.images.shape)
    digest = sha256(json.dumps(decisive, sort_keys=True).encode())
    for name in (*pool.ids, "audit", *sorted(snapshot.audit)):
        digest.update(name.encode() + b"\n")
    digest.update(pool.labels.numpy().tobytes())
    for content in row_contents(pool.images):  # names do not identify rows
        digest.update(content)
    return digest.hexdigest()
