"""An exported model on images that it has not seen.

Shapes: n images, C classes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from fewlabels.data.files import FileImages, check_files
from fewlabels.data.folder import image_names
from fewlabels.errors import DataError, ShapeError, UnreadableFile
from fewlabels.pool import Images
from fewlabels.progress import track
from fewlabels.projects.export import (
    LoadedModel,
    PredictionRows,
    check_replaceable_table,
    load_model,
    write_predictions,
)
from fewlabels.protocols import Classifier

_IMAGE_AXES = 3
_CHUNK = 512


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says about some images."""

    file_names: tuple[str, ...]
    """Path of each image below its folder, n names."""
    classes: tuple[str, ...]
    """Names of the classes."""
    probabilities: Tensor
    """Shape (n, C), float32."""
    unreadable: tuple[UnreadableFile, ...] = ()
    """Files that could not be used, by name and reason."""

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.file_names)

    @property
    def labels(self) -> list[str]:
        """The likeliest class of each image."""
        numbers = self.probabilities.argmax(dim=1).tolist()
        return [self.classes[number] for number in numbers]

    def write(self, path: str | PathLike[str]) -> None:
        """Write them as ``.csv`` or ``.parquet``, by the ending of the name.

        Earlier predictions are replaced; another file is left alone.
        """
        check_replaceable_table(Path(path))
        rows = PredictionRows(self.file_names, self.probabilities)
        write_predictions(Path(path), self.classes, [rows])


def predict(
    model: str | PathLike[str] | LoadedModel, folder: str | PathLike[str]
) -> Predictions:
    """Use an exported model on all images below a folder.

    Images are decoded as they were for training: brought to the same size and number
    of channels. What cannot be read is left out and listed.

    Args:
        model: The folder of an exported model, or one that was loaded.
        folder: Where the images are.

    Returns:
        Probabilities, in the natural order of the files' names.

    Raises:
        ShapeError: If the model takes rows of numbers, not images.
    """
    loaded = model if isinstance(model, LoadedModel) else load_model(Path(model))
    shape = loaded.input_shape
    if len(shape) != _IMAGE_AXES:
        raise ShapeError(
            f"The model takes rows of {shape[0]} numbers, not images; use its "
            "classifier on your rows in Python."
        )
    images, unreadable = _images(Path(folder), (shape[0], shape[1], shape[2]))
    return Predictions(
        tuple(file.name for file in images.files),
        loaded.classes,
        torch.cat(list(probabilities(loaded.classifier, images))),
        unreadable,
    )


def probabilities(classifier: Classifier, images: Images) -> Iterator[Tensor]:
    """Yield what a classifier says about all images, some hundred at a time.

    Yields:
        Probabilities of the next images, float32, shape (at most 512, C).
    """
    with track("Predicting", len(images)) as advance:
        for part in torch.split(torch.arange(len(images)), _CHUNK):
            yield torch.softmax(classifier.outputs(images, part).logits, dim=1)
            advance(len(part))


def _images(
    folder: Path, shape: tuple[int, int, int]
) -> tuple[FileImages, tuple[UnreadableFile, ...]]:
    """Return the usable images below a folder, and the others."""
    if not folder.is_dir():
        msg = f"There is no folder {folder}. Give the folder that holds the images."
        raise DataError(msg)
    names, passed_over = image_names(folder)
    files, damaged = check_files((name, folder / name) for name in names)
    unreadable = tuple(sorted([*passed_over, *damaged]))
    if not files:
        first = f"; the first of {len(unreadable)} that cannot be used is "
        why = f"{first}{unreadable[0]}" if unreadable else ""
        raise DataError(
            f"There is no image to be used in {folder}{why}. Give the folder that "
            "holds the images."
        )
    return FileImages(tuple(files), shape), unreadable
