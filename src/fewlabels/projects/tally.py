"""Counts of a project, kept up to date label by label.

A :class:`fewlabels.projects.snapshot.Snapshot` reads everything, which takes seconds
where there are tens of thousands of labels. A tally reads once, and then only what was
written since: events have numbers without gaps, rounds too, and the list of images has
a checksum. It counts what a snapshot counts; the tests compare the two.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from fewlabels.projects.store import LabelClass, Store, StoredRound, consensus
from fewlabels.projects.store.records import LABELS, Annotation, num_answers

_MOST_LISTED = 1_000  # items whose verdicts are read by id; for more, all are read


@dataclass(eq=False, kw_only=True)
class Tally:
    """Counts of answered images and of those that wait for an answer.

    Not safe for several threads at once.
    """

    overlap: int
    """Annotators who shall label each image."""
    sequence: int = 0
    """Number of the last event that was counted."""
    classes: tuple[LabelClass, ...] = ()
    rounds: list[StoredRound] = field(default_factory=list)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The latest round that asked about each image, and its place there, from zero."""
    waiting: set[str] = field(default_factory=set)
    """Images of all rounds that are there and wait for an answer."""
    class_counts: Counter[int] = field(default_factory=Counter)
    """Images on whose class the annotators agree, by its number."""
    num_items: Counter[str] = field(default_factory=Counter)
    """Images that are ``"spent"``, ``"confirmed"``, ``"imported"`` or ``"skipped"``."""
    _people: Counter[str] = field(default_factory=Counter)
    _answering: Counter[str] = field(default_factory=Counter)
    _verdicts: dict[str, list[Annotation]] = field(default_factory=dict)
    _items_checksum: str = ""

    @property
    def people(self) -> list[str]:
        """Everybody with a verdict in force."""
        return sorted(name for name, count in self._people.items() if count)

    @property
    def num_open(self) -> int:
        """Images that wait for an answer, of the last round and those it keeps open."""
        if not self.rounds:
            return 0
        last = self.rounds[-1]
        return self.num_open_since(last.options.get("since", last.step))

    def num_open_since(self, step: int) -> int:
        """Return how many images of a round and of later ones wait for an answer."""
        return sum(self.places[item][0] >= step for item in self.waiting)

    def update(self, store: Store) -> None:
        """Count what was written to a store since the last time."""
        with store.reading() as moment:
            sequence, changed = moment.changes(after=self.sequence)
            added = moment.rounds(after=len(self.rounds) - 1)
            checksum = moment.items_checksum
            self.classes = moment.classes()
            num_people = self._num_people
            if changed:
                few = sorted(changed) if len(changed) <= _MOST_LISTED else None
                by_item: dict[str, list[Annotation]] = defaultdict(list)
                for verdict in moment.verdicts(with_missing=True, items=few):
                    by_item[verdict.item].append(verdict)
                for item in changed:
                    self._count(self._verdicts.pop(item, []), -1)
                    if item in by_item:
                        self._verdicts[item] = by_item[item]
                        self._count(by_item[item], 1)
            for asked in added:
                ranks = enumerate(member.item for member in asked.items)
                self.places |= {item: (asked.step, rank) for rank, item in ranks}
            if num_people != self._num_people or checksum != self._items_checksum:
                affected = set(self.places)
            else:
                affected = {member.item for asked in added for member in asked.items}
                affected |= changed & self.places.keys()
            unanswered = [item for item in affected if not self._is_answered(item)]
            present = {item.id for item in moment.items(ids=unanswered)}
        self.waiting = (self.waiting - affected) | present
        self.rounds += added
        self.sequence, self._items_checksum = sequence, checksum

    def _count(self, verdicts: list[Annotation], step: int) -> None:
        """Add the verdicts on one image to all counts, or subtract them."""
        labels = [verdict for verdict in verdicts if verdict.kind in LABELS]
        for verdict in verdicts:
            self._people[verdict.annotator] += step
            self._answering[verdict.annotator] += step * (not verdict.is_imported)
        for agreed in consensus(labels, self.overlap):
            if agreed.class_number is not None:
                self.class_counts[agreed.class_number] += step
        for name, is_so in (
            ("spent", any(label.is_asked for label in labels)),
            ("confirmed", any(label.is_confirmed for label in labels)),
            ("imported", any(label.is_imported for label in labels)),
            ("skipped", bool(verdicts) and not labels),
        ):
            self.num_items[name] += step * is_so

    @property
    def _num_people(self) -> int:
        """Annotators who answered, or who are wanted if those are more."""
        return max(self.overlap, sum(n > 0 for n in self._answering.values()))

    def _is_answered(self, item: str) -> bool:
        """Return whether an image has its answers, or nobody is left to answer."""
        verdicts = self._verdicts.get(item, ())
        answers = sum(num_answers(verdict.kind, self.overlap) for verdict in verdicts)
        return answers >= self.overlap or len(verdicts) >= self._num_people
