"""Accuracies of a training as it goes on: measured only, no decision uses them."""

import json
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from fewlabels import files, progress
from fewlabels.data.contents import row_digest
from fewlabels.errors import RunError
from fewlabels.experiments.evaluation import accuracy, settled
from fewlabels.files import add_checksum, make_folder, replace_text
from fewlabels.names import identity
from fewlabels.pool import Pool, Split
from fewlabels.protocols import Classifier, Trainer

FILE = "evaluations.jsonl"
"""Name of the file in the folder of a training."""


@dataclass(frozen=True)
class Evaluations:
    """Accuracy at each checkpoint of one training.

    A training that was interrupted goes on in its middle and shows later checkpoints
    only, so the accuracies of earlier ones are kept in a file. It begins with a mark:
    evaluations of another training are never mixed in.
    """

    test: Split
    """What is measured on."""
    file: Path | None = None
    """Where they are kept, if anywhere."""
    found: dict[int, float] = field(default_factory=dict)
    """Accuracy by step."""

    @classmethod
    def open(cls, test: Split, folder: Path | None, mark: str) -> "Evaluations":
        """Return those that were kept under a mark (:func:`mark_of`), to go on with."""
        if folder is None:
            return cls(test)
        file = folder / FILE
        found = kept(file, mark)
        if found is None:
            make_folder(folder)
            replace_text(file, add_checksum(json.dumps({"mark": mark})) + "\n")
        return cls(test, file, found or {})

    def add(self, step: int, classifier: Classifier) -> None:
        """Measure a checkpoint, keep the outcome and tell it."""
        measured = accuracy(classifier, self.test)
        self.found[int(step)] = measured
        if self.file is not None:
            entry = {"step": int(step), "accuracy": measured}
            files.append_entry(self.file, entry, durable=True)
        progress.tell(step, {"accuracy": measured})

    @property
    def median(self) -> float | None:
        """Median of the last ones; None where the trainer showed no checkpoint."""
        return settled(self.found) if self.found else None


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
    text = json.dumps(decisive, sort_keys=True)
    return f"2-{sha256(text.encode()).hexdigest()}"


def kept(file: Path, mark: str) -> dict[int, float] | None:
    """Return what a file holds under a mark; None where it holds something else."""
    try:
        lines = files.read_entries(file)
        if not lines or lines[0]["mark"] != mark:
            return None
        return {int(entry["step"]): float(entry["accuracy"]) for entry in lines[1:]}
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise RunError(
            f"'{file}' could not be read: {error}. It was changed by something else "
            f"than fewlabels; remove the folder '{file.parent}', and this training "
            "alone is done again."
        ) from error
