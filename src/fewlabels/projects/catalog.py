"""The images of a project that are there now, in its label store."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fewlabels import files
from fewlabels.data.text import warn_of
from fewlabels.errors import ProjectError, UnreadableFile
from fewlabels.projects import image_index
from fewlabels.projects.image_index import Index, IndexedFile, inside
from fewlabels.projects.store import Store

if TYPE_CHECKING:
    from fewlabels.projects.project import Project

_LOCK = ".index.lock"
_UNUSABLE = "unusable.txt"


def update(project: "Project") -> Index:
    """Return all images of a project there are now; see :meth:`Project.index`."""
    known = _known(project.store)
    index = _look(project, known, len(known))
    if index.num_read or len(index.files) != len(known):
        # Once more, one process at a time: who looked earlier must not be the last to
        # write. What was read just now is not read again.
        read = {one.name: one for one in index.files}
        with project.alone(_LOCK, "listing the images", timeout=-1):
            known = _known(project.store)
            index = _look(project, known | read, len(known))
            index.write(project.store, known)
    if project.settings.images is not None:
        warn_once(project, index.unreadable)
    return index


def _known(store: Store) -> dict[str, IndexedFile]:
    return {one.name: one for one in map(IndexedFile.of, store.items())}


def _look(project: "Project", read: Mapping[str, IndexedFile], num_known: int) -> Index:
    """Look which images there are; some must be, where some were known."""
    if project.settings.images is None:
        from fewlabels.projects.rows import rows_in, scan_rows

        return scan_rows(rows_in(project.vectors_file), read)
    folder, found = project.images_folder, None
    if folder.is_dir():
        found = image_index.scan(folder, read, without=inside(project.folder, folder))
    if found is None or (num_known and not found.files):  # such as a lost drive
        raise ProjectError(
            f"None of the {num_known} images is in '{folder.resolve()}'. Connect the "
            "drive or put them back; if they are elsewhere now, write that folder as "
            f"'images' into '{project.settings_file}'. The labels are safe."
        )
    return found


def warn_once(project: "Project", unreadable: Sequence[UnreadableFile]) -> None:
    """Give one warning of files that cannot be used, but for those known already.

    All of them are listed in ``unusable.txt``, which is how they are known.
    """
    listed = project.folder / _UNUSABLE
    lines = [f"{one}\n" for one in unreadable]
    with files.wrap_os_errors(listed):
        known = listed.read_text("utf-8") if listed.exists() else ""
    fresh = set(lines).difference(known.splitlines(keepends=True))
    if "".join(lines) != known:
        files.replace_text(listed, "".join(lines))
    warn_of(project.images_folder, [o for o in unreadable if f"{o}\n" in fresh])
