"""The classes of a project: named at the beginning, added and renamed later."""

from collections.abc import Sequence

from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.projects.folder import ProjectFolder
from fewlabels.store import Event, Kind

OWNER = "owner"
"""In whose name classes are added and renamed."""


def class_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the classes that a project begins with.

    Args:
        names: Their names; blanks around them do not count.

    Returns:
        At least two names.
    """
    found: list[str] = []
    for name in names:
        found.append(_free(name, found))
    if len(found) < 2:
        msg = (
            f"The classes are {found}; give at least two different names, such as "
            "--classes cat,dog."
        )
        raise UsageError(msg)
    return tuple(found)


def add(project: ProjectFolder, names: Sequence[str]) -> tuple[str, ...]:
    """Add classes that were forgotten; labels stay as they are.

    Args:
        project: The project.
        names: Names of the classes.

    Returns:
        All classes there are now.
    """
    known = [one.name for one in project.store.classes()]
    fresh: list[str] = []
    for name in names:
        fresh.append(_free(name, [*known, *fresh]))
    project.store.add_classes(fresh, annotator=OWNER)
    return project.snapshot().classes


def rename(project: ProjectFolder, old: str, new: str) -> tuple[str, ...]:
    """Give a class another name; its labels stay with it.

    Args:
        project: The project.
        old: Its name so far.
        new: Its name from now on.

    Returns:
        All classes there are now.
    """
    number_of = {one.name: one.number for one in project.store.classes()}
    if old not in number_of:
        raise UnknownNameError("class", old, number_of)
    name = _free(new, [known for known in number_of if known != old])
    renamed = Event(
        kind=Kind.CLASS_RENAMED,
        annotator=OWNER,
        class_number=number_of[old],
        payload={"name": name},
    )
    project.store.append([renamed])
    return project.snapshot().classes


def _free(name: str, taken: Sequence[str]) -> str:
    """Return a name without blanks around it, or raise if it is no good."""
    plain = name.strip()
    alike = [known for known in taken if known.casefold() == plain.casefold()]
    if not plain:
        why = "a class needs a name"
    elif alike:
        why = f"'{alike[0]}' is a class already"
    elif not plain.isprintable():
        why = "it holds characters that cannot be printed"
    else:
        return plain
    raise UsageError(f"The class {name!r} was not taken: {why}. Give another name.")
