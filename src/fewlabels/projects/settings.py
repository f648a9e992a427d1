"""Settings of a project: checked, kept in ``project.json``, edited by its owner."""

import json
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from fewlabels import errors, files, training
from fewlabels.experiments.settings import Choice, FrozenModel, validated
from fewlabels.models.encoders import LARGEST_SIDE, Quality
from fewlabels.names import DEFAULT_STRATEGY

_LAST_USED = ".project.json"  # the settings when the project was used last

FILE = "project.json"
"""Where the settings of a project are kept."""

_MOST_BYTES = 2**24

AUDIT_SHARE = 0.2
"""Share of the budget, or of the images if they are fewer, in the audit slice."""


Shares = Literal["unknown", "even"] | tuple[float, ...]
"""Known shares of the classes; or that they are equal, or unknown."""

UNKNOWN_SHARES: Shares = "unknown"


class _Common(FrozenModel):
    """Fields of a new project that are kept in its settings."""

    budget: int = Field(ge=1)
    """Total number of labels."""
    audit: int | None = Field(None, ge=0)
    """Labels used only to measure. [default: a fifth]"""
    query: int = Field(20, ge=1)
    """Labels asked for in each round."""
    overlap: int = Field(1, ge=1)
    """People who label each image."""
    strategy: Choice = Choice(name=DEFAULT_STRATEGY)
    """What chooses images: a name or module:Class."""
    trainer: Choice | None = None
    """What learns: a name or module:Class. [default: what fits the images]"""
    seed: int = 0
    """Seed of everything random."""
    store: str | None = None
    """PostgreSQL address. [default: a file in PROJECT]"""

    @model_validator(mode="after")
    def _leaves_something_to_train_on(self) -> Self:
        if self.audit is not None and self.audit >= self.budget:
            labels = f"{self.audit} of {self.budget} labels"
            raise ValueError(f"the audit takes {labels} and leaves none to train on")
        return self


class NewProject(_Common):
    """Options of :meth:`Project.create` and of the commands that create a project."""

    encoder: str | None = None
    """What makes the features that it learns from. [default: the trainer's]"""
    quality: Quality | None = None
    """Pixels a side for a pretrained network: fast (96), normal (160), best (224).
    [default: normal]"""
    size: int | None = Field(None, ge=1, le=LARGEST_SIDE)
    """Resize images to this side. [default: what fits]"""
    shares: str | tuple[float, ...] = "unknown"
    """Class frequencies: unknown, even, or 40,35,25."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return checked options; None stands for the default."""
        given = {name: value for name, value in options.items() if value is not None}
        return validated(cls, given)

    def settings(self, num_images: int, **resolved: Any) -> "ProjectSettings":
        """Return the settings of a project with so many distinct images.

        Args:
            num_images: Images that can be asked about.
            **resolved: Fields that depend on the images: place, trainer and shape.

        Returns:
            The settings.
        """
        audit, largest = self.audit, largest_audit(num_images)
        if audit is None:
            audit = int(AUDIT_SHARE * min(self.budget, num_images))
        name = f"The audit slice of {num_images} images"
        errors.check_range(name, audit, at_most=largest)
        own = {name: getattr(self, name) for name in _Common.model_fields} | resolved
        given = {name: value for name, value in own.items() if value is not None}
        return ProjectSettings.model_validate(given | {"audit": audit})


class ProjectSettings(_Common):
    """All settings of a project; its labels are in the store."""

    schema_version: Literal[1] = 1
    images: str | None = None
    """Folder of the images: a path, from the project's folder or absolute; None: what
    is labeled are rows."""
    vectors: str | None = None
    """File of rows that are learned from in the place of images, written likewise."""
    store: str = "labels.sqlite"
    """The label store: a file in the project's folder, or a PostgreSQL address."""
    store_identity: str | None = None
    """Which store that has to be; None: any."""
    audit: int = Field(ge=0)
    trainer: Choice
    reason: str = "You chose the trainer."
    """Why this trainer."""
    shape: tuple[int, int, int] | tuple[int]
    """Channels, height and width that images are brought to, or the length of a row;
    fixed from the start."""

    @property
    def noun(self) -> str:
        """What an item is called: ``"image"``, or ``"row"`` without images."""
        return "row" if self.images is None else "image"

    @model_validator(mode="after")
    def _has_items(self) -> Self:
        if self.images is None and self.vectors is None:
            raise ValueError("neither 'images' nor 'vectors' says what is labeled")
        return self

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the checked settings of the project in a folder."""
        path = folder / FILE
        try:
            return cls.model_validate_json(files.read_regular(path, _MOST_BYTES))
        except FileNotFoundError as error:
            raise errors.ProjectError(_advice_without_settings(folder)) from error
        except OSError as error:
            msg = f"'{path}' cannot be read: {error.strerror}."
            raise errors.ProjectError(msg) from error
        except ValidationError as error:
            msg = f"'{path}': {errors.faults(error)} Correct it{_last_used(folder)}."
            raise errors.ProjectError(msg) from error

    def write(self, folder: Path) -> None:
        """Write the settings into the project's folder, wholly or not at all."""
        files.replace_text(folder / FILE, self.model_dump_json(indent=2) + "\n")

    def warn_of_changes(self, folder: Path) -> None:
        """Warn once about settings that changed since the project was used last.

        People edit the file, and a failing disk may change it too. The address of the
        store, which may hold a password, is kept as a hash.
        """
        store = sha256(self.store.encode()).hexdigest()
        now = self.model_copy(update={"store": store}).model_dump(mode="json")
        before = None
        with suppress(OSError, ValueError):
            content = files.verify_checksum((folder / _LAST_USED).read_bytes())
            before = json.loads(content)
        if before == now:
            return
        if before is not None:
            changes = "; ".join(
                f"{name} was {before.get(name)!r} and is now {value!r}"
                if name != "store"
                else "the store is a different one"
                for name, value in now.items()
                if before.get(name) != value
            )
            msg = f"'{folder / FILE}' was changed: {changes}. This is said once."
            warnings.warn(msg, errors.SettingsChangedWarning, stacklevel=2)
        with suppress(errors.StorageError):  # somebody else's folder, read-only
            text = files.add_checksum(json.dumps(now, indent=2) + "\n")
            files.replace_text(folder / _LAST_USED, text)


def _advice_without_settings(folder: Path) -> str:
    """Return what to do about a folder without settings."""
    if (folder / _LAST_USED).exists():
        return f"'{folder}' has lost its '{FILE}': put it back{_last_used(folder)}."
    return (
        f"There is no project in '{folder}'; 'fewlabels start' or 'fewlabels init' "
        "begins one."
    )


def _last_used(folder: Path) -> str:
    """Return where the settings as last used can be read, if they are there."""
    if not (folder / _LAST_USED).exists():
        return ""
    return f"; '{folder / _LAST_USED}' shows the settings used last"


def largest_audit(num_images: int) -> int:
    """Return how many of the images may be in the audit slice: half."""
    return num_images // 2


# -------------------------------------------------------------------- class shares


def read_shares(given: str | Sequence[float], num_classes: int) -> Shares:
    """Return the shares that a person wrote, scaled so that they add up to one.

    Example:
        >>> read_shares("50,30,20", 3), read_shares("even", 3)
        ((0.5, 0.3, 0.2), 'even')
    """
    if given == UNKNOWN_SHARES:
        return UNKNOWN_SHARES
    if given == "even":
        return "even"
    numbers = []
    with suppress(ValueError):
        words = given.split(",") if isinstance(given, str) else given
        numbers = [float(word) for word in words]
    total = sum(numbers)
    if len(numbers) != num_classes or not all(0 < share < total for share in numbers):
        example = ",".join(["2"] + ["1"] * (num_classes - 1))
        raise errors.UsageError(
            f"The shares are {given!r}; give 'even', 'unknown' or such as {example}."
        )
    return tuple(share / total for share in numbers)


def with_shares(trainer: Choice, shares: Shares) -> Choice:
    """Return a trainer with the option that passes the shares."""
    if shares == UNKNOWN_SHARES:
        return trainer
    option = training.share_option(trainer.name)
    if option is None:
        names = [name for name in training.names() if training.share_option(name)]
        bare = [n for n in names if training.variant(n, inputs="") == n]
        raise errors.UsageError(
            f"The trainer '{trainer.name}' has no use for class shares; leave them out,"
            f" or choose one of {', '.join(bare)}, or one of these with 'frozen-'."
        )
    options = dict(trainer.options) | option.as_option(shares)
    return Choice(name=trainer.name, options=options)


def without_stale_shares(trainer: Choice, num_classes: int) -> Choice:
    """Return a trainer without shares if those it has are of fewer classes.

    A class that is added later has no share, and nobody knows what it takes from the
    others: the shares are unknown again.
    """
    option = training.share_option(trainer.name)
    shares = assumed_shares(trainer, num_classes)
    if option is None or shares is None or len(shares) == num_classes:
        return trainer
    options = dict(trainer.options) | option.as_option(UNKNOWN_SHARES)
    return Choice(name=trainer.name, options=options)


def assumed_shares(trainer: Choice, num_classes: int) -> tuple[float, ...] | None:
    """Return the shares that a training is aligned to; None for none."""
    option = training.share_option(trainer.name)
    return None if option is None else option.assumed(trainer.options, num_classes)
