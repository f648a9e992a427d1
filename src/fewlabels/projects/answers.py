"""Questions written to files, and answers read from files."""

import errno
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from os import PathLike
from pathlib import Path
from urllib.parse import quote

from fewlabels.errors import Fault, UsageError, count
from fewlabels.files import digest_of, read_regular, replace_text
from fewlabels.projects import exchange
from fewlabels.projects.exchange import AskedItem
from fewlabels.projects.labels import ProjectLabels, annotator_name, answer_event
from fewlabels.projects.snapshot import Snapshot
from fewlabels.projects.store import Annotation, Event, Item, Kind, RoundItem
from fewlabels.projects.store.records import LABELS

_CHANGED = "changed:"  # precedes the id of an image whose file has changed
_STORED_FILES = ".stored-answers"
_COUNTED = {
    Kind.LABEL: "num_new",
    Kind.RELABEL: "num_changed",
    Kind.SKIP: "num_skipped",
    Kind.UNSURE: "num_skipped",
}


@dataclass(frozen=True, eq=False, kw_only=True)
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


class ProjectAnswers(ProjectLabels):
    """The methods of a project that write questions to files and read answers."""

    def questions(self, asked: Asked) -> tuple[AskedItem, ...]:
        """Return an entry per image that is there, in the order in which to ask.

        It holds the latest model's prediction, unless the round has images that
        measure: a prediction would sway the label that is to judge it, and predictions
        for the others alone would reveal which measure. A model that does not know all
        classes gives none.
        """
        snapshot = self.snapshot()
        path_of = {item.id: item.path for item in snapshot.items}
        stored = snapshot.rounds[asked.step]
        guesses: Mapping[str, list[float]] = {}
        known_of = {record.name: record.classes for record in self.records()}
        if asked.model is not None and known_of[asked.model] == snapshot.classes:
            guesses = stored.options.get("guesses", {})
        number_of = {entry.item: number for number, entry in enumerate(stored.items, 1)}
        return tuple(
            AskedItem(
                id=item,
                path=path_of[item],
                number=number_of[item],
                probabilities=guesses.get(item),
                round=asked.step,
                model=asked.model,
            )
            for item in (entry.item for entry in asked.items)
            if item in path_of
        )

    def write_query(
        self, asked: Asked | Sequence[AskedItem], path: str | PathLike[str]
    ) -> Path:
        """Write a query for people: CSV, JSONL or Label Studio JSON, by its ending.

        A file with answers that were not stored is left as it is, by a
        :class:`fewlabels.errors.UsageError`.

        Args:
            asked: What :meth:`ask` or :meth:`questions` returned.
            path: ``.csv``, ``.jsonl`` or ``.json`` (Label Studio's tasks).

        Returns:
            The path.
        """
        items = self.questions(asked) if isinstance(asked, Asked) else asked
        path, snapshot = Path(path), self.snapshot()
        _check_stored(self, path, snapshot)
        # Label Studio serves folders below its root, so the root is the folder above.
        folder = quote(self.images_folder.resolve().name)
        _note_stored(self, path, None)  # what is typed from now on is new
        address = f"{exchange.IMAGE_ADDRESS}{folder}/"
        exchange.write_query(path, items, snapshot.classes, image_address=address)
        return path

    def tell(
        self,
        path: str | PathLike[str],
        *,
        annotator: str | None = None,
        partial: bool = False,
    ) -> Told:
        """Store the answers of a file: all of them or, if one is wrong, none.

        Args:
            path: CSV, JSONL, or an export of Label Studio (.json).
            annotator: Who labeled, if the file does not say.
            partial: Take the good rows, and list the others.

        Returns:
            Counts of what was stored.
        """
        path, snapshot = Path(path), self.snapshot()
        if not snapshot.rounds:
            raise UsageError("Nothing was asked yet, so there is nothing to tell.")
        parsed = _read(self, path, snapshot, partial=partial)
        number_of = {name: number for number, name in enumerate(snapshot.classes)}
        counts = dict.fromkeys((*_COUNTED.values(), "num_same"), 0)
        events: list[Event] = []
        with self.store.writing() as store:  # verdicts are read where nobody writes
            verdicts, asked = store.verdicts(with_missing=True), store.asked()
            held = {(verdict.item, verdict.annotator): verdict for verdict in verdicts}
            for row in parsed.answers:
                who = row.annotator or annotator_name(annotator or None)
                answer = replace(row, annotator=who)
                before, kind = held.get((answer.id, who)), Kind.LABEL
                if answer.label is None:
                    kind = Kind.SKIP if answer.skipped else Kind.UNSURE
                elif before is not None:
                    kind = Kind.RELABEL
                if before is not None and _is_same(answer, before, number_of):
                    counts["num_same"] += 1
                else:
                    counts[_COUNTED[kind]] += 1
                    events.append(answer_event(answer, kind, number_of, asked))
            store.append(events)
        if not parsed.faults:
            _note_stored(self, path, _digest(path))
        labeled = {event.item for event in events if event.kind in LABELS}
        agreed = self.snapshot().consensus.values()
        contradicting = [c for c in agreed if c.item in labeled and len(c.votes) > 1]
        return Told(
            **counts,
            num_blank=parsed.num_unanswered,
            num_contradicting=len(contradicting),
            num_disputed=sum(consensus.is_disputed for consensus in contradicting),
            faults=parsed.faults,
        )


def _read(
    project: ProjectLabels, path: Path, snapshot: Snapshot, *, partial: bool
) -> exchange.Parsed:
    """Read answers; the name of a file that shows another image by now is unknown."""
    asked = {entry.item for each in snapshot.rounds for entry in each.items}
    folder = project.images_folder
    is_file = project.settings.images is not None
    return exchange.read_answers(
        path,
        items={
            item.path: _CHANGED + item.id
            if is_file and item.id in asked and _is_changed(item, folder / item.path)
            else item.id
            for item in snapshot.items
        },
        asked=asked,
        classes=snapshot.classes,
        partial=partial,
    )


def _is_changed(item: Item, path: Path) -> bool:
    """Return whether a file shows something else than when it was indexed."""
    try:
        state = path.stat()
        if (state.st_size, state.st_mtime_ns) == (item.size, item.mtime_ns):
            return False
        from fewlabels.data.decode import MAX_BYTES

        return digest_of(read_regular(path, MAX_BYTES)) != item.digest
    except OSError as error:
        # Moved, or on a drive that is not connected: labels are taken.
        return error.errno in {errno.EFBIG, errno.EINVAL}  # no image any more


def _check_stored(project: ProjectLabels, path: Path, snapshot: Snapshot) -> None:
    """Raise if writing a query to a file would wipe out what somebody wrote there."""
    if not path.is_file() or not path.stat().st_size:
        return
    parsed = _read(project, path, snapshot, partial=True)
    number_of = {name: number for number, name in enumerate(snapshot.classes)}
    verdicts_on: dict[str, list[Annotation]] = defaultdict(list)
    for verdict in snapshot.verdicts:
        verdicts_on[verdict.item].append(verdict)
    num_missing = len(parsed.faults)
    for answer in parsed.answers:
        verdicts = (v for v in verdicts_on[answer.id] if _is_same(answer, v, number_of))
        same = {verdict.annotator for verdict in verdicts}
        # Nobody knows who typed an answer without a name. It may be anybody's, until as
        # many people as were wanted have given the same one.
        is_stored = len(same) >= snapshot.overlap
        num_missing += not (answer.annotator in same if answer.annotator else is_stored)
    if num_missing and _stored_files(project).get(str(path.resolve())) != _digest(path):
        raise UsageError(
            f"'{path}' holds {count(num_missing, 'new answer')}. Tell it first."
        )
    if not exchange.is_query(path):
        raise UsageError(f"'{path}' exists and is not a query; choose another name.")


def _is_same(
    answer: exchange.Answer, verdict: Annotation, number_of: Mapping[str, int]
) -> bool:
    """Return whether a verdict says what an answer says."""
    if answer.label is None:
        return verdict.kind is (Kind.SKIP if answer.skipped else Kind.UNSURE)
    return verdict.class_number == number_of[answer.label]


def _note_stored(project: ProjectLabels, path: Path, digest: str | None) -> None:
    """Note that all answers in a file are stored as it is now; None: they are not."""
    known = {**_stored_files(project), str(path.resolve()): digest}
    kept = {name: value for name, value in known.items() if value is not None}
    replace_text(project.folder / _STORED_FILES, json.dumps(kept, indent=2) + "\n")


def _stored_files(project: ProjectLabels) -> Mapping[str, str]:
    """Return digests of files whose answers are all stored, by path."""
    try:
        known = json.loads((project.folder / _STORED_FILES).read_text("utf-8"))
    except (FileNotFoundError, ValueError):  # at worst, a file is told once more
        return {}
    return known if isinstance(known, dict) else {}


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
