"""Everything raised or warned about on purpose, drawn as a tree.

::

    FewlabelsError
    ├── UsageError (also a ValueError)  the call cannot be right; exit code 2
    │   ├── UnknownNameError            no strategy, data set or option of that name
    │   ├── AbsentModelError            a model is not here, and none is downloaded
    │   ├── BudgetError                 start, query, budget, pool do not fit together
    │   ├── ShapeError                  arrays that do not belong together
    │   └── UnlearnedLabelsError        labels that no model has learned from
    ├── DataError                       what was read is not usable; exit code 1
    │   ├── DownloadError               a file could not be fetched whole and unchanged
    │   ├── NotFiniteError              NaN or infinity where numbers are needed
    │   ├── LabelError                  a label outside the classes
    │   └── AnswersError                a file of answers with faults; all are listed
    ├── RunError                        the folder of a run is not usable; exit code 1
    │   ├── ForeignFolderError          the folder is not empty and not a run's
    │   ├── SettingsChangedError        the folder holds a run with other settings
    │   └── RunInUseError               another process works in the folder
    ├── StoreError                      the label store is not usable; exit code 1
    │   ├── NetworkDriveError           SQLite would lie on a network drive
    │   ├── NewerStoreError             a later version of fewlabels wrote it
    │   ├── DamagedStoreError           it cannot be read
    │   ├── StoreBusyError              somebody else writes, for too long
    │   ├── StoreAwayError              its server is out of reach
    │   └── ReplayError                 one UUID came with two contents
    ├── ProjectError                    a project is not usable; exit code 1
    │   └── UntrustedStoreError         its server was not confirmed by this user
    ├── StrategyError                   a strategy broke its promise; exit code 1
    ├── StorageError                    a file could not be written; exit code 1
    ├── JobError                        a job ended without a result; exit code 1
    ├── TrainingError                   training broke down; exit code 1
    └── InfeasibleTargetError           no pseudo-labels meet the target; exit code 1

    FewlabelsWarning
    ├── DegenerateGramWarning           every choice scores zero: the choice is a tie
    ├── ConvergenceWarning              an equation was solved inexactly
    ├── DataChangedWarning              the data are not those the run began with
    ├── DamagedWarning                  a damaged file; its work is done again
    ├── SettingsChangedWarning          somebody has edited the settings of a project
    ├── TargetWarning                   class shares do not fit the predictions
    └── UnreadableFilesWarning          files that were left out of a pool

To catch everything, write ``except fewlabels.errors.FewlabelsError``. Each message says
what was wrong, with the numbers seen, and what to do.

Below the tree are the checks that raise these errors: of a number, of the names and
numbers in a dataclass of options (:class:`Settings`).
"""

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from numbers import Real
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args, get_type_hints

if TYPE_CHECKING:
    from pydantic import ValidationError

_MOST_NAMED = 100
_MOST_FAULTS = 20


class FewlabelsError(Exception):
    """Base of every error raised on purpose."""

    def __str__(self) -> str:
        """Return the message; lone surrogates, which nothing can print, are escaped."""
        return super().__str__().encode("utf-8", "backslashreplace").decode()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message and attributes; types may take arguments of their own."""
        return type(self).__new__, (type(self), *self.args), self.__dict__


class UsageError(FewlabelsError, ValueError):
    """The call itself cannot be right, whatever the data."""


class UnknownNameError(UsageError):
    """An unknown name; the message suggests the nearest known one."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        """Name the nearest choice and all choices."""
        choices = sorted(known)
        near = get_close_matches(name.lower(), choices, n=1, cutoff=0.5)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        listed = ", ".join(choices) or "none"
        super().__init__(f"There is no {kind} called '{name}'.{hint} Known: {listed}.")


class BudgetError(UsageError):
    """Start, query size, budget and pool do not fit together."""


class UnlearnedLabelsError(UsageError):
    """An export would lack the model, or what the latest labels say."""


class ShapeError(UsageError):
    """Arrays whose shapes do not belong together."""


class DataError(FewlabelsError):
    """What was read from a file, a folder or an array is not usable."""


class DownloadError(DataError):
    """A file could not be fetched whole and unchanged."""


class NotFiniteError(DataError):
    """NaN or infinity where finite numbers are needed."""


class LabelError(DataError):
    """A label outside the classes."""


@dataclass(frozen=True, order=True)
class Fault:
    """What is wrong with one line of a file of answers."""

    line: int
    """Its number, as editors count; 1 for the file as a whole, 0 if it has no lines."""
    sentence: str

    def __str__(self) -> str:
        """Return line and sentence."""
        return f"line {self.line}: {self.sentence}" if self.line else self.sentence


class AbsentModelError(UsageError):
    """A model is not on this machine, and no download was requested."""


class AnswersError(DataError):
    """A file of answers was refused as a whole because of its ``faults``."""

    def __init__(self, path: Path, faults: Sequence[Fault]) -> None:
        """List the faults, the first twenty in full."""
        self.path = path
        self.faults = tuple(faults)
        listed = "".join(f"\n  {fault}" for fault in self.faults[:_MOST_FAULTS])
        rest = len(self.faults) - _MOST_FAULTS
        more = f"\n  and {rest} more" if rest > 0 else ""
        super().__init__(
            f"'{path}' has {count(len(self.faults), 'fault')}, and nothing was taken "
            f"from it:{listed}{more}\n"
            "Correct them and try again, or take the good rows alone."
        )


class RunError(FewlabelsError):
    """The folder of a run is not usable."""


class ForeignFolderError(RunError):
    """The folder is not empty and does not hold a run."""


class SettingsChangedError(RunError):
    """The folder holds a run with other settings."""


class RunInUseError(RunError):
    """Another process works in the folder."""


class StoreError(FewlabelsError):
    """The label store is not usable, or refused what it was given."""


class NetworkDriveError(StoreError):
    """SQLite cannot keep labels safe on a network drive."""


class NewerStoreError(StoreError):
    """The label store was written by a later version of fewlabels."""


class DamagedStoreError(StoreError):
    """The label store is damaged, or something else than a label store."""


class StoreBusyError(StoreError):
    """Somebody else wrote to the label store for longer than was waited."""


class StoreAwayError(StoreError):
    """The database is out of reach, or ended the work; the same may succeed later."""


class ReplayError(StoreError):
    """An event came again under the same UUID with another content."""


class ProjectError(FewlabelsError):
    """The folder of a project, or what is in it, is not usable."""


class UntrustedStoreError(ProjectError):
    """The label store is on a server that this user has not confirmed."""

    def __init__(self, folder: Path, address: str) -> None:
        """Say which project names which server, and how to confirm it."""
        self.folder, self.address = folder, address
        super().__init__(
            f"The project in '{folder}' keeps its labels on the server '{address}', "
            "which you have not confirmed on this machine; your PostgreSQL password "
            f"would be sent there. To confirm it: fewlabels trust "
            f"{shlex.quote(str(folder))}, or Project.open(folder, trust_store=True)."
        )


class StrategyError(FewlabelsError):
    """A strategy returned something else than distinct candidates."""


class StorageError(FewlabelsError):
    """A file could not be written, for example because the disk is full."""


class JobError(FewlabelsError):
    """A job ended without a result: it was canceled, died, or met a defect."""


class TrainingError(FewlabelsError):
    """Training broke down, for example because the loss is no longer finite."""


class InfeasibleTargetError(FewlabelsError):
    """A wanted number of pseudo-labels per class that cannot be reached."""


class FewlabelsWarning(UserWarning):
    """Base of every warning given on purpose."""


class DegenerateGramWarning(FewlabelsWarning):
    """Every choice scores zero up to rounding, so the choice is a tie."""


class ConvergenceWarning(FewlabelsWarning):
    """Labels were spread over a graph less exactly than was asked for."""


class TargetWarning(FewlabelsWarning):
    """Class shares that DARP aims at do not fit the predictions."""


class DamagedWarning(FewlabelsWarning):
    """A file of this package was damaged, and its work is done again."""


class SettingsChangedWarning(FewlabelsWarning):
    """The settings of a project are not those that it was used with before."""


class DataChangedWarning(FewlabelsWarning):
    """The data differ from those the run began with."""


@dataclass(frozen=True, order=True)
class UnreadableFile:
    """A file that could not be used."""

    name: str
    """Path below the folder that was read; what cannot be printed is escaped."""
    reason: str
    """What is wrong with it, in a few words."""

    def __str__(self) -> str:
        """Return name and reason in one line."""
        return f"{self.name} ({self.reason})"


class UnreadableFilesWarning(FewlabelsWarning):
    """Files that could not be used were left out of a pool; ``files`` are all of them.

    The message names every one up to a hundred, and counts the rest.
    """

    def __init__(self, folder: Path, files: Sequence[UnreadableFile]) -> None:
        """Name the files."""
        self.folder = folder
        self.files = tuple(files)
        named = "; ".join(map(str, self.files[:_MOST_NAMED]))
        rest = len(self.files) - _MOST_NAMED
        more = f"; and {rest} more, listed in this warning's files" if rest > 0 else ""
        super().__init__(
            f"{count(len(self.files), 'file')} in {folder} cannot be used and "
            f"{'was' if len(self.files) == 1 else 'were'} left out: {named}{more}."
        )


def whole_number(name: str, value: object) -> int:
    """Return an integer of any library as an ``int``.

    Floats and booleans are refused even if they equal an integer: streams of random
    numbers are named by the seed as it is written, and a size of 4.5 has no meaning.

    Args:
        name: What to call it in the message.
        value: The value given.

    Returns:
        The number.

    Raises:
        UsageError: If the value is not an integer.
    """
    with suppress(TypeError):
        if not isinstance(value, bool):
            return index(value)  # type: ignore[arg-type]  # it raises TypeError
    kind = type(value).__name__
    raise UsageError(f"{name} is {value!r}, of type {kind}; give a whole number.")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of a number, in its type: ``Annotated[float, Limits(at_least=1)]``."""

    at_least: float = -math.inf
    above: float = -math.inf
    at_most: float = math.inf
    below: float = math.inf

    def check(self, name: str, value: float) -> None:
        """Raise unless a value is a finite number within the limits."""
        given: object = value  # of callers without a type checker
        if isinstance(given, bool) or not isinstance(given, Real):
            kind = type(given).__name__
            raise UsageError(f"{name} is {given!r}, of type {kind}; give a number.")
        is_within = self.at_least <= value <= self.at_most
        if is_within and self.above < value < self.below and math.isfinite(value):
            return
        words = [
            f"{word.replace('_', ' ')} {limit}"
            for word, limit in vars(self).items()
            if math.isfinite(limit)
        ]
        if min(self.at_most, self.below) == math.inf:
            words.append("finite")
        raise UsageError(f"{name} is {value}; it must be {' and '.join(words)}.")


def check_range(name: str, value: float, **limits: float) -> None:
    """Raise unless a value is a finite number within some :class:`Limits`."""
    Limits(**limits).check(name, value)


def check_distinct(
    kind: str, names: Sequence[str], error: type[FewlabelsError] = UsageError
) -> None:
    """Raise if a name appears twice."""
    if len(set(names)) < len(names):
        name, times = Counter(names).most_common(1)[0]
        raise error(f"The {kind} '{name}' is there {times} times; give each once.")


def check_finite_rows(
    what: str, not_finite: Any, num_rows: int, advice: str = "leave such rows out"
) -> None:
    """Raise if there are rows that are not finite, given by their indices."""
    if len(not_finite):
        raise NotFiniteError(
            f"{len(not_finite)} of {num_rows} {what} are NaN or infinite, the first at "
            f"index {int(not_finite[0])}; {advice}."
        )


def check_count(
    name: str,
    length: int,
    wanted: int,
    of: str,
    error: type[FewlabelsError] = ShapeError,
) -> None:
    """Raise unless there is one entry for each ``of`` something."""
    if length != wanted:
        raise error(f"{name} has {length} entries; give {wanted}, one per {of}.")


Count = Annotated[int, Limits(at_least=1)]
"""A whole number, at least 1."""
Weight = Annotated[float, Limits(at_least=0)]
"""A number, at least 0."""
Positive = Annotated[float, Limits(above=0)]
"""A number above 0."""
Share = Annotated[float, Limits(at_least=0, below=1)]
"""A number from 0 to below 1."""


class Settings:
    """Base of frozen dataclasses of options, which checks values by their types.

    A string must be one of the words of a ``Literal``, a number within the ``Limits``
    of an ``Annotated``; in a tuple, each entry.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check all fields."""
        kind: Any = type(self)
        for name, parts in _declared(kind).items():
            value = getattr(self, name)
            words = [part for part in parts if isinstance(part, str)]
            limits = next((part for part in parts if isinstance(part, Limits)), None)
            for entry in value if isinstance(value, tuple | list) else (value,):
                if words and (isinstance(entry, str) or len(words) == len(parts)):
                    if entry not in words:
                        raise UnknownNameError(name, str(entry), words)
                elif limits and not (entry is None and type(None) in parts):
                    limits.check(name, entry)


@cache
def _declared(kind: Any) -> dict[str, list[Any]]:
    """Return the types, words and limits that each field's annotation consists of."""

    def parts(hint: Any) -> list[Any]:
        inner = get_args(hint)
        return [part for arg in inner for part in parts(arg)] if inner else [hint]

    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError:  # a type defined inside the function that defines the class
        return {}
    return {field.name: parts(hints[field.name]) for field in fields(kind)}


def count(amount: int, noun: str = "", plural: str | None = None) -> str:
    """Return a number with its noun.

    Example:
        >>> count(1, "label"), count(1797, "image"), count(2, "class", "classes")
        ('1 label', '1,797 images', '2 classes')
    """
    word = noun if amount == 1 else plural or f"{noun}s"
    return f"{amount:,} {word}" if noun else f"{amount:,}"


def faults(error: "ValidationError") -> str:
    """Return a sentence for each setting that Pydantic refused."""
    sentences = []
    for fault in error.errors():
        name = ".".join(map(str, fault["loc"]))
        reason = fault["msg"].removeprefix("Value error, ").rstrip(".")
        if fault["type"] == "missing":
            sentences.append(f"The setting '{name}' is missing; give it.")
        elif fault["type"] == "extra_forbidden":
            sentences.append(f"There is no setting '{name}'; take it out.")
        elif not name:  # of several settings together, or of the file as a whole
            sentences.append(f"{reason[:1].upper()}{reason[1:]}.")
        else:
            reason = reason[:1].lower() + reason[1:]
            sentences.append(f"The setting '{name}' is {fault['input']!r}: {reason}.")
    return " ".join(sentences)
