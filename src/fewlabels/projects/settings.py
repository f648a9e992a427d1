"""What a project is about: typed, kept in ``project.json``, changed by its owner."""

import warnings
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fewlabels import files
from fewlabels.errors import ProjectError, SettingsChangedWarning, StorageError
from fewlabels.naming import DEFAULT_STRATEGY
from fewlabels.runs import Choice
from fewlabels.runs.settings import faults
from fewlabels.seals import opened, sealed

_SEEN = ".project.json"  # as it was when the project was used last

FILE = "project.json"
"""Where the settings of a project are kept."""

_MOST_BYTES = 2**24

AUDIT_SHARE = 0.2
"""Share of the budget, or of the images where they are fewer, that measures."""

LARGEST_AUDIT = 0.5
"""Share of the images that may measure, so that as many are left to learn from."""


class ProjectSettings(BaseModel):
    """Everything that decides what a project does; its labels are in the store."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    images: str | None = None
    """Folder of the images: a path, from the project's folder or absolute; None: what
    is labeled are rows."""
    vectors: str | None = None
    """File of rows that are learned from in the place of images, written likewise."""
    store: str = "labels.sqlite"
    """The label store: a file in the project's folder, or a PostgreSQL address."""
    store_identity: str | None = None
    """Which store that has to be; None: any, in projects of earlier versions."""
    budget: int = Field(ge=1)
    """Labels in all, those of the audit slice included."""
    audit: int = Field(ge=0)
    """Labels that measure and do nothing else."""
    query: int = Field(default=20, ge=1)
    """Labels asked for in each round."""
    overlap: int = Field(default=1, ge=1)
    """Annotators who shall label each image."""
    strategy: Choice = Choice(name=DEFAULT_STRATEGY)
    trainer: Choice
    reason: str = "You chose the trainer."
    """Why this trainer."""
    shape: tuple[int, int, int] | tuple[int]
    """Channels, height and width that images are brought to, or the length of a row;
    fixed from the start."""
    seed: int = 0

    @property
    def noun(self) -> str:
        """What an item is called: ``"image"``, or ``"row"`` without images."""
        return "row" if self.images is None else "image"

    @model_validator(mode="after")
    def _has_items(self) -> Self:
        if self.images is None and self.vectors is None:
            raise ValueError("neither 'images' nor 'vectors' says what is labeled")
        return self

    @model_validator(mode="after")
    def _leaves_something_to_train_on(self) -> Self:
        if self.audit >= self.budget:
            raise ValueError(
                f"the audit slice takes {self.audit} of {self.budget} labels and "
                "leaves none to train on; make audit smaller or budget larger"
            )
        return self

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the checked settings of the project in a folder."""
        path = folder / FILE
        try:
            return cls.model_validate_json(files.read_regular(path, _MOST_BYTES))
        except FileNotFoundError as error:
            raise ProjectError(
                f"There is no project in '{folder}': it has no {FILE}. Begin one there "
                "(init) or give the folder of another."
            ) from error
        except OSError as error:
            msg = f"'{path}' cannot be read: {error.strerror}. Make it readable."
            raise ProjectError(msg) from error
        except ValidationError as error:
            raise ProjectError(f"'{path}': {faults(error)}") from error

    def write(self, folder: Path) -> None:
        """Write the settings into the project's folder, wholly or not at all."""
        files.replace_text(folder / FILE, self.model_dump_json(indent=2) + "\n")

    def tell_changes(self, folder: Path) -> None:
        """Say once what is not as it was when the project was used before.

        People edit the file, and so may a failing disk: nothing of it goes unsaid.
        """
        before, now = None, self._without_address()
        with suppress(OSError, ValueError):  # damaged, or of an earlier version
            content = opened((folder / _SEEN).read_bytes())[0]
            before = type(self).model_validate_json(content)
        if before == now:
            return
        if before is not None:
            msg = (
                f"'{folder / FILE}' was changed: {'; '.join(now._changes(before))}. If "
                "that was not you, restore it. This message appears once."
            )
            warnings.warn(msg, SettingsChangedWarning, stacklevel=2)
        with suppress(StorageError):  # somebody else's folder, to look at
            text = sealed(now.model_dump_json(indent=2) + "\n")
            files.replace_text(folder / _SEEN, text)

    def _without_address(self) -> Self:
        """Return the settings with a hash for the store, which may hold a password."""
        store = sha256(self.store.encode()).hexdigest()
        return self.model_copy(update={"store": store})

    def _changes(self, before: Self) -> list[str]:
        was, now = before.model_dump(), self.model_dump()
        different = [name for name in now if was[name] != now[name]]
        return [
            "the store is a different one"
            if name == "store"
            else f"{name} was {was[name]!r} and is now {now[name]!r}"
            for name in different
        ]


def checked(num_images: int, **given: Any) -> ProjectSettings:
    """Return settings, or say in a sentence which of them cannot be meant.

    Args:
        num_images: Images that can be asked about.
        **given: Settings by name; None: the default.

    Returns:
        The settings.

    Raises:
        ProjectError: If one is unknown, of a wrong type or out of range.
    """
    own = {name: value for name, value in given.items() if value is not None}
    if "audit" not in own and isinstance(own.get("budget"), int):
        own["audit"] = int(AUDIT_SHARE * min(own["budget"], num_images))
    try:
        settings = ProjectSettings.model_validate(own)
    except ValidationError as error:
        raise ProjectError(f"The project cannot be made. {faults(error)}") from error
    largest = largest_audit(num_images)
    if settings.audit > largest:
        raise ProjectError(
            f"The project cannot be made. The audit slice would take {settings.audit} "
            f"of {num_images} images and leave too few to learn from; at most half of "
            f"them, {largest}, may measure."
        )
    return settings


def largest_audit(num_images: int) -> int:
    """Return how many of some images may measure."""
    return int(LARGEST_AUDIT * num_images)
