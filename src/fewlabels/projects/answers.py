"""Questions written to files, and answers read from files."""

import errno
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from pydantic import TypeAdapter

from fewlabels.errors import Fault, UsageError
from fewlabels.files import digest_of, read_regular, replace_text
from fewlabels.projects import exchange
from fewlabels.projects.exchange import AskedItem
from fewlabels.projects.labels import annotator_name
from fewlabels.projects.store import Event, Item, Kind, RoundItem
from fewlabels.projects.store.records import LABELS

if TYPE_CHECKING:
    from fewlabels.projects.project import Project

_CHANGED = "changed:"  # precedes the id of an image whose file has changed
_WRITTEN_FILES = ".stored-answers"
_WRITTEN = TypeAdapter(dict[str, list[str]])
_COUNTED = {
    Kind.LABEL: "num_new",
    Kind.RELABEL: "num_changed",
    Kind.SKIP: "num_skipped",
    Kind.UNSURE: "num_skipped",
}


@dataclass(frozen=True, eq=False)
class Asked:
    """Images that wait for a label."""

    step: int
    """Number of the round, from zero."""
    strategy: str
    model: str | None
    """What the strategy looked at; None: no trained model."""
    items: tuple[RoundItem, ...]
    """What is still open of the round, in the order in which to ask."""
    is_new: bool
    """Whether the round was made now; else it was open already."""

    @property
    def num_audit(self) -> int:
        """How many of them measure."""
        return sum(item.role == "audit" for item in self.items)


@dataclass(frozen=True, kw_only=True)
class Told:
    """The result of reading a file of answers."""

    num_new: int
    """Labels that were not there before."""
    num_changed: int
    """Labels that differ from the same annotator's earlier ones."""
    num_same: int
    """Answers that were stored already; telling a file twice changes nothing."""
    num_skipped: int
    """Images that were skipped, or that the annotator was not sure of."""
    num_blank: int
    """Rows without an answer."""
    num_contradicting: int = 0
    """Images with a label that is new or changed, of which another annotator says
    something else."""
    num_disputed: int = 0
    """Those of them on which nobody has a majority; they leave training."""
    faults: tuple[Fault, ...] = ()
    """Rows that were left out, and why."""


def questions(project: "Project", asked: Asked) -> tuple[AskedItem, ...]:
    """Return an entry per image that is there, in the order in which to ask.

    It holds the latest model's prediction, unless the round has images that measure: a
    prediction would sway the label that is to judge it, and predictions for the others
    alone would reveal which measure. A model that does not know all classes gives none.
    """
    snapshot = project.snapshot()
    path_of = {item.id: item.path for item in snapshot.items}
    stored = snapshot.rounds[asked.step]
    guesses: Mapping[str, list[float]] = {}
    known_of = {record.name: record.classes for record in project.records()}
    if asked.model is not None and known_of[asked.model] == snapshot.classes:
        guesses = stored.options.get("guesses", {})
    number_of = {entry.item: number for number, entry in enumerate(stored.items, 1)}
    return tuple(
        AskedItem(i, path_of[i], number_of[i], asked.step, guesses.get(i), asked.model)
        for i in (entry.item for entry in asked.items)
        if i in path_of
    )


def write_query(
    project: "Project", asked: Asked | Sequence[AskedItem], path: str | PathLike[str]
) -> Path:
    """Write a query for people: CSV, JSONL or Label Studio JSON, by its ending.

    A file that was not written here, or that somebody has changed since and not told,
    is left as it is, by a :class:`fewlabels.errors.UsageError`.

    Args:
        project: The project.
        asked: What :meth:`Project.ask` or :func:`questions` returned.
        path: ``.csv``, ``.jsonl`` or ``.json`` (Label Studio's tasks).

    Returns:
        The path.
    """
    items = questions(project, asked) if isinstance(asked, Asked) else asked
    path, known = Path(path), _written_files(project)
    # Label Studio serves folders below its root, so the root is the folder above.
    folder = quote(project.images_folder.resolve().name)
    address = f"{exchange.IMAGE_ADDRESS}{folder}/"
    texts = exchange.query_files(path, items, project.snapshot().classes, address)
    for file in texts:
        content = file.read_bytes() if file.is_file() else b""
        if content and digest_of(content) not in known.get(str(file.resolve()), ()):
            raise UsageError(
                f"'{file}' was not written by ask, or was changed since. Tell it first "
                "if it holds answers, or choose another name."
            )
    for file, text in texts.items():
        new, before = digest_of(text.encode()), known.get(str(file.resolve()), [])
        _note_digests(project, file, [*before, new])  # a kill leaves one of the two
        replace_text(file, text)
        _note_digests(project, file, [new])
    return path


def tell(
    project: "Project",
    path: str | PathLike[str],
    *,
    annotator: str | None = None,
    partial: bool = False,
) -> Told:
    """Store the answers of a file: all of them or, if one is wrong, none.

    Args:
        project: The project.
        path: CSV, JSONL, or an export of Label Studio (.json).
        annotator: Who labeled, if the file does not say.
        partial: Take the good rows, and list the others.

    Returns:
        Counts of what was stored.
    """
    path, snapshot = Path(path), project.snapshot()
    asking_of = project.store.asked()
    if not asking_of:
        raise UsageError("Nothing was asked yet, so there is nothing to tell.")
    items = {item.path: item.id for item in snapshot.items}
    if project.settings.images is not None:
        for item in snapshot.items:  # one that shows another image by now is unknown
            if item.id in asking_of and _is_changed(item, project.images_folder):
                items[item.path] = _CHANGED + item.id
    parsed = exchange.read_answers(
        path, items=items, asked=asking_of, classes=snapshot.classes, partial=partial
    )
    number_of = {name: number for number, name in enumerate(snapshot.classes)}
    counts = dict.fromkeys((*_COUNTED.values(), "num_same"), 0)
    events: list[Event] = []
    with project.store.writing() as store:  # verdicts are read where nobody writes
        held = {(v.item, v.annotator): v for v in store.verdicts()}
        for answer in parsed.answers:
            who = answer.annotator or annotator_name(annotator or None)
            before, kind = held.get((answer.id, who)), answer.kind
            number = None if answer.label is None else number_of[answer.label]
            if before is not None and before.says(kind, number):
                counts["num_same"] += 1
                continue
            if before is not None and kind is Kind.LABEL:
                kind = Kind.RELABEL
            counts[_COUNTED[kind]] += 1
            more = {**vars(asking_of[answer.id]), "payload": answer.payload}
            more["client_time"] = answer.time
            events.append(Event(kind, who, answer.id, number, **more))
        store.append(events)
    if not parsed.faults and str(path.resolve()) in _written_files(project):
        _note_digests(project, path, [digest_of(path.read_bytes())])
    labeled = {event.item for event in events if event.kind in LABELS}
    agreed = project.snapshot().consensus.values()
    contradicting = [c for c in agreed if c.item in labeled and len(c.votes) > 1]
    return Told(
        **counts,
        num_blank=parsed.num_unanswered,
        num_contradicting=len(contradicting),
        num_disputed=sum(consensus.is_disputed for consensus in contradicting),
        faults=parsed.faults,
    )


def _is_changed(item: Item, folder: Path) -> bool:
    """Return whether a file shows something else than when it was indexed."""
    path = folder / item.path
    try:
        state = path.stat()
        if (state.st_size, state.st_mtime_ns) == (item.size, item.mtime_ns):
            return False
        from fewlabels.data.decode import MAX_BYTES

        return digest_of(read_regular(path, MAX_BYTES)) != item.digest
    except OSError as error:
        # Moved, or on a drive that is not connected: labels are taken.
        return error.errno in {errno.EFBIG, errno.EINVAL}  # no image any more


def _note_digests(project: "Project", path: Path, digests: list[str]) -> None:
    """Note what a query holds that may be replaced: nothing that is not stored."""
    known = _written_files(project) | {str(path.resolve()): digests}
    replace_text(project.folder / _WRITTEN_FILES, json.dumps(known, indent=2) + "\n")


def _written_files(project: "Project") -> dict[str, list[str]]:
    """Return digests of what each query held that may be replaced, by its path."""
    with suppress(FileNotFoundError, ValueError):
        return _WRITTEN.validate_json((project.folder / _WRITTEN_FILES).read_bytes())
    return {}  # at worst, another name has to be chosen
