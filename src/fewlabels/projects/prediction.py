"""An exported model on images that it has not seen.

Shapes: n images, C classes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from fewlabels.data.files import FileImages, check_files
from fewlabels.data.folder import image_names
from fewlabels.data.vectors import Vectors
from fewlabels.errors import DataError, ShapeError, UnreadableFile
from fewlabels.pool import ArrayImages, Images
from fewlabels.progress import track
from fewlabels.projects.export import (
    LoadedModel,
    PredictionRows,
    check_replaceable_table,
    load_model,
    write_predictions,
)
from fewlabels.projects.rows import row_names
from fewlabels.protocols import Classifier

_IMAGE_AXES = 3
_CHUNK = 128  # as many as four threads embed at once; progress shows after each


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
    are_rows: bool = False
    """Whether it is rows that were looked at, and no images."""

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
    model: str | PathLike[str] | LoadedModel, source: str | PathLike[str]
) -> Predictions:
    """Use an exported model on all images below a folder, or on all rows of a file.

    Images are decoded as they were for training: brought to the same size and number
    of channels. What cannot be read is left out and listed.

    Args:
        model: The folder of an exported model, or one that was loaded.
        source: Where the images are; for a model of rows a file of them (.parquet,
            .npz or .npy), or a folder of shards, that are as long as those it learned
            from.

    Returns:
        Probabilities, in the natural order of the files' names, or that of the rows.
    """
    loaded = model if isinstance(model, LoadedModel) else load_model(Path(model))
    shape = loaded.input_shape
    if len(shape) != _IMAGE_AXES:
        rows, names = _rows(Path(source), shape[0])
        shares = torch.cat(list(probabilities(loaded.classifier, rows)))
        return Predictions(names, loaded.classes, shares, are_rows=True)
    images, unreadable = _images(Path(source), (shape[0], shape[1], shape[2]))
    return Predictions(
        tuple(file.name for file in images.files),
        loaded.classes,
        torch.cat(list(probabilities(loaded.classifier, images))),
        unreadable,
    )


def probabilities(
    classifier: Classifier,
    images: Images,
    *,
    on_features: Callable[[Tensor], object] | None = None,
) -> Iterator[Tensor]:
    """Yield what a classifier says about all images, a hundred or so at a time.

    Args:
        classifier: The classifier.
        images: The images.
        on_features: Called with the features of the same images.

    Yields:
        Probabilities of the next images, float32, shape (at most 128, C).
    """
    with track("Predicting", len(images)) as advance:
        for part in torch.split(torch.arange(len(images)), _CHUNK):
            outputs = classifier.outputs(images, part)
            if on_features is not None:
                on_features(outputs.features[:])
            yield torch.softmax(outputs.logits, dim=1)
            advance(len(part))


def _rows(path: Path, width: int) -> tuple[Images, tuple[str, ...]]:
    """Return the rows of a file, and their names."""
    if path.is_dir() and not any(path.glob("*.parquet")):
        raise ShapeError(
            f"The model takes rows of {width} numbers, not images, and '{path}' is a "
            "folder without any. Give a file of rows (.parquet, .npz or .npy), or a "
            "folder of shards."
        )
    found = Vectors.read(path)
    if found.rows.shape[1] != width:
        raise ShapeError(
            f"The model takes rows of {width} numbers, and those in '{path}' have "
            f"{found.rows.shape[1]}. Make them by what made the rows it learned from."
        )
    return ArrayImages(found.rows), row_names(found)


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
