"""The models that a project has trained, each in a folder of its own."""

from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from fewlabels import files
from fewlabels.errors import ProjectError

RECORD = "training.json"
"""Record of a model; written last, so a folder without it is unfinished."""

NUM_TO_TELL_APART = 2
"""Classes that need labels before anything can be learned."""


class ModelRecord(BaseModel):
    """How a model was trained, and its predictions for the audit slice."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int
    created: datetime
    seconds: float
    trainer: str
    reason: str
    """Why this trainer."""
    settings: str
    """Digest of everything that decided the training: labels, trainer, images."""
    labels: str
    """Digest of the labels alone."""
    classes: tuple[str, ...]
    class_counts: tuple[int, ...]
    """Labels of each class that it was trained on."""
    audit: dict[str, str]
    """The predicted class of each image of the audit slice, by id."""
    predicted: tuple[int, ...]
    """How many images of the pool are predicted to be of each class."""

    @property
    def name(self) -> str:
        """What the model is called in rounds and events."""
        return folder_name(self.number)

    @property
    def num_labeled(self) -> int:
        """Labels that it was trained on."""
        return sum(self.class_counts)


def folder_name(number: int) -> str:
    """Return the name of a model and of its folder."""
    return f"model-{number:03d}"


def records(folder: Path) -> tuple[ModelRecord, ...]:
    """Return what is known of every finished model, in the order of training."""
    models: list[ModelRecord] = []
    while (path := folder / folder_name(len(models)) / RECORD).is_file():
        try:
            content = files.verify_checksum(path.read_bytes())
            models.append(ModelRecord.model_validate_json(content))
        except (OSError, ValueError) as error:
            raise ProjectError(
                f"'{path}' is damaged, and the labels are not. Remove its folder and "
                "later ones, then train again."
            ) from error
    return tuple(models)


def write_record(folder: Path, record: ModelRecord) -> None:
    """Write the record of a model into its folder, which makes the model count."""
    text = files.add_checksum(record.model_dump_json(indent=2) + "\n")
    files.replace_text(folder / RECORD, text)
    files.remove_leftovers(folder.iterdir())
