"""What happened to the images between two indexes."""

from collections.abc import Iterable
from dataclasses import dataclass

from fewlabels.projects.indexing import Indexed


@dataclass(frozen=True)
class Move:
    """The same content under another name."""

    old: str
    new: str


@dataclass(frozen=True)
class Changes:
    """What differs between two indexes; all by name, in the order of the names."""

    added: tuple[str, ...]
    """New files: new content, or one more copy of known content."""
    moved: tuple[Move, ...]
    """Files whose content has another name now; labels go with them."""
    changed: tuple[str, ...]
    """Files with other content than before; they are asked about anew."""
    gone: tuple[str, ...]
    """Files whose content is not there any more, or one copy fewer of it."""

    def __bool__(self) -> bool:
        """Return whether anything differs."""
        return bool(self.added or self.moved or self.changed or self.gone)


def compare(before: Iterable[Indexed], after: Iterable[Indexed]) -> Changes:
    """Say what happened between two indexes.

    Content decides. Where one name holds new content and its old content is found
    under another name, the old content moved there and the name's content is added.

    Args:
        before: The files of the first index.
        after: The files of the second.

    Returns:
        What differs.
    """
    old = {file.name: file.digest for file in before}
    new = {file.name: file.digest for file in after}
    left = _by_digest(name for name in old.items() if new.get(name[0]) != name[1])
    come = _by_digest(name for name in new.items() if old.get(name[0]) != name[1])
    moved: list[Move] = []
    for digest in left.keys() & come.keys():
        pairs = zip(left[digest], come[digest], strict=False)
        moved += [Move(*pair) for pair in pairs]
    sources, targets = {one.old for one in moved}, {one.new for one in moved}
    lost = {name for names in left.values() for name in names} - sources
    fresh = {name for names in come.values() for name in names} - targets
    changed = lost & fresh
    return Changes(
        added=tuple(sorted(fresh - changed)),
        moved=tuple(sorted(moved, key=lambda one: (one.old, one.new))),
        changed=tuple(sorted(changed)),
        gone=tuple(sorted(lost - changed)),
    )


def _by_digest(files: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the names of each content, sorted."""
    names: dict[str, list[str]] = {}
    for name, digest in sorted(files):
        names.setdefault(digest, []).append(name)
    return names
