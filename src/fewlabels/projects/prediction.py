"""Predictions of an exported model on new images.

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
from fewlabels.data.vectors import Vectors
from fewlabels.errors import DataError, ShapeError, UnreadableFile
from fewlabels.pool import ArrayImages, Images
from fewlabels.progress import track
from fewlabels.projects import export
from fewlabels.projects.rows import row_names
from fewlabels.protocols import Classifier

_CHUNK = 128  # images that four threads embed at once, and a step of the progress


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of a model for some images."""

    file_names: tuple[str, ...]
    """Path of each image below its folder, n names."""
    classes: tuple[str, ...]
    """Names of the classes."""
    probabilities: Tensor
    """Shape (n, C), float32."""
    unreadable: tuple[UnreadableFile, ...] = ()
    """Files that could not be used, by name and reason."""
    are_rows: bool = False
    """Whether the items are rows, not images."""

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
        export.check_replaceable_table(Path(path))
        rows = export.PredictionRows(self.file_names, self.probabilities)
        export.write_predictions(Path(path), self.classes, [rows])


def predict(
    model: str | PathLike[str] | export.LoadedModel, source: str | PathLike[str]
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
    loaded = (
        model
        if isinstance(model, export.LoadedModel)
        else export.load_model(Path(model))
    )
    shape, path = loaded.input_shape, Path(source)
    unreadable: tuple[UnreadableFile, ...] = ()
    images: Images
    if len(shape) == 1:
        vectors = Vectors.read(path)
        width = vectors.rows.shape[1]
        if width != shape[0]:
            raise ShapeError(
                f"The model takes rows of {shape[0]} numbers, not {width}."
            )
        images, names = ArrayImages(vectors.rows), row_names(vectors)
    else:
        if not path.is_dir():
            raise DataError(f"There is no folder {path}; give a folder of images.")
        listed, passed_over = image_names(path)
        files, damaged = check_files((name, path / name) for name in listed)
        unreadable = tuple(sorted([*passed_over, *damaged]))
        if not files:
            first = f" ({unreadable[0]})" if unreadable else ""
            raise DataError(f"There is no image to be used in {path}{first}.")
        images = FileImages(tuple(files), (shape[0], shape[1], shape[2]))
        names = tuple(file.name for file in files)
    shares = torch.cat(list(probabilities(loaded.classifier, images)))
    are_rows = len(shape) == 1
    return Predictions(names, loaded.classes, shares, unreadable, are_rows=are_rows)


def probabilities(classifier: Classifier, images: Images) -> Iterator[Tensor]:
    """Yield the probabilities of all images, some at a time.

    Args:
        classifier: The classifier.
        images: The images.

    Yields:
        Probabilities of the next images, float32, shape (at most 128, C).
    """
    with track("Predicting", len(images)) as advance:
        for part in torch.split(torch.arange(len(images)), _CHUNK):
            yield torch.softmax(classifier.outputs(images, part).logits, dim=1)
            advance(len(part))
