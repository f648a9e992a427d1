"""A project at one moment: its images, their labels, and what may be asked."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING, Self

from fewlabels.projects.folder import NUM_TO_TELL_APART
from fewlabels.projects.settings import largest_audit
from fewlabels.projects.store import Item, Kind, RoundItem, Store, StoredRound, records
from fewlabels.projects.store.records import LABELS, Verdict, num_answers

if TYPE_CHECKING:
    from fewlabels.pool import Images, Pool, Round

REPEATED_ONE_IN = 20
"""Of so many confirmed images one is labeled once more, to see how many are slips."""
_MOST_CONFIRMED = 2  # times the median number of labels of a class


@dataclass(frozen=True, eq=False, kw_only=True)
class Snapshot:
    """The content of a label store at one moment."""

    items: tuple[Item, ...]
    """The images that are there, by path."""
    classes: tuple[str, ...]
    """Names of the classes, in the order of their numbers."""
    verdicts: tuple[Verdict, ...]
    rounds: tuple[StoredRound, ...]
    overlap: int
    """Annotators who shall label each image."""
    vanished: frozenset[str] = frozenset()
    """Labeled images that are not there any more; their verdicts are left out."""
    retired: frozenset[str] = frozenset()
    """Classes that no new label may name."""

    @classmethod
    def of(cls, store: Store, overlap: int) -> Self:
        """Read a store, all of it in one transaction."""
        with store.reading() as moment:
            items, rounds = tuple(moment.items()), moment.rounds()
            verdicts = moment.verdicts()
            listed = moment.classes()
        present = {item.id for item in items}
        labeled = {verdict.item for verdict in verdicts if verdict.kind in LABELS}
        return cls(
            items=items,
            classes=tuple(entry.name for entry in listed),
            verdicts=tuple(v for v in verdicts if v.item in present),
            rounds=rounds,
            overlap=overlap,
            vanished=frozenset(labeled - present),
            retired=frozenset(e.name for e in listed if not e.is_active),
        )

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Position of each image by its id."""
        return {item.id: index for index, item in enumerate(self.items)}

    @cached_property
    def audit(self) -> frozenset[str]:
        """Ids of the images that measure."""
        return records.measuring_items(self.rounds)

    @cached_property
    def consensus(self) -> Mapping[str, records.Consensus]:
        """The joint verdict of the annotators on each labeled image."""
        labels = [verdict for verdict in self.verdicts if verdict.kind in LABELS]
        agreed = records.consensus(labels, self.overlap)
        return {consensus.item: consensus for consensus in agreed}

    @cached_property
    def known(self) -> Mapping[str, int]:
        """Class of every image on which the annotators agree."""
        numbers = {item: each.class_number for item, each in self.consensus.items()}
        return {item: label for item, label in numbers.items() if label is not None}

    @cached_property
    def audited(self) -> Mapping[str, int]:
        """Class of every image that measures and has one."""
        return {item: label for item, label in self.known.items() if item in self.audit}

    @property
    def num_disputed(self) -> int:
        """Images on which the annotators do not agree."""
        return sum(agreed.is_disputed for agreed in self.consensus.values())

    @property
    def num_spent(self) -> int:
        """Images that somebody was asked about and labeled: what the budget paid."""
        labels = (verdict for verdict in self.verdicts if verdict.kind in LABELS)
        return len({label.item for label in labels if label.is_asked})

    @cached_property
    def skipped(self) -> frozenset[str]:
        """Images that somebody found not worth a label."""
        return frozenset(v.item for v in self.verdicts if v.kind is Kind.SKIP)

    @cached_property
    def waiting(self) -> frozenset[str]:
        """Ids of the images of all rounds that wait for an answer.

        Not those that nobody is left to answer: the annotators there are, known by
        their verdicts, or else as many as there shall be.
        """
        asked = {entry.item for each in self.rounds for entry in each.items}
        people = {v.annotator for v in self.verdicts if not v.is_imported}
        given, terms = records.by_item(self.verdicts), (self.overlap, len(people))
        return frozenset(i for i in asked if not _is_answered(given[i], *terms))

    @property
    def open_rounds(self) -> tuple[StoredRound, ...]:
        """The last round and, where it was chosen ahead, those that it keeps open."""
        return self.rounds[self.rounds[-1].first_open :] if self.rounds else ()

    @cached_property
    def open(self) -> tuple[RoundItem, ...]:
        """Items of the open rounds that wait for an answer, in the order of asking."""
        asked = {entry.item: entry for each in self.open_rounds for entry in each.items}
        present = self.positions.keys() & self.waiting
        return tuple(entry for item, entry in asked.items() if item in present)

    @cached_property
    def labels(self) -> Sequence[int | None]:
        """Label of each image, if it has one and does not measure."""
        known, audit = self.known, self.audit
        return [None if i.id in audit else known.get(i.id) for i in self.items]

    @property
    def can_teach(self) -> bool:
        """Whether the labels are of two classes, which a model can tell apart."""
        return len(set(self.labels) - {None}) >= NUM_TO_TELL_APART

    @cached_property
    def learned_labels(self) -> Sequence[int | None]:
        """Label to train on of each image, if it has one: see limit_confirmed."""
        given = [v for v in self.verdicts if v.strategy == records.CONFIRMED]
        given.sort(key=attrgetter("sequence"))
        return limit_confirmed(self.labels, [self.positions[v.item] for v in given])

    @cached_property
    def labels_digest(self) -> str:
        """Digest of the labels to train on, and of which image has which."""
        pairs = zip((item.id for item in self.items), self.learned_labels, strict=True)
        known = sorted(pair for pair in pairs if pair[1] is not None)
        return sha256(json.dumps(known).encode()).hexdigest()

    @cached_property
    def candidates(self) -> Sequence[int]:
        """Images that may be asked about: one of each group without any verdict."""
        group_of = {item.id: item.group for item in self.items}
        taken = self.audit | {verdict.item for verdict in self.verdicts}
        closed = {group_of[item] for item in taken if item in group_of}
        indices = []
        for index, item in enumerate(self.items):
            if item.group not in closed:
                closed.add(item.group)
                indices.append(index)
        return indices

    def num_undrawn(self, audit: int) -> int:
        """Return how many images to measure can be drawn until there are ``audit``."""
        most = largest_audit(len({item.group for item in self.items}))
        missing = min(audit, most) - len(self.audit)
        return max(0, min(missing, len(self.candidates) - 1))

    def pool(self, images: "Images", *, budget: int | None = None) -> "Pool":
        """Return the pool that strategies and trainers see: no label that measures."""
        import torch

        from fewlabels.pool import UNKNOWN, Pool

        labels = [UNKNOWN if label is None else label for label in self.learned_labels]
        return Pool(
            images=images,
            ids=tuple(item.id for item in self.items),
            labels=torch.tensor(labels, dtype=torch.int64),
            classes=self.classes,
            candidates=torch.tensor(self.candidates, dtype=torch.int64),
            budget=budget,
        )

    def history(self) -> "tuple[Round, ...]":
        """Return the rounds so far as strategies know them."""
        import torch

        from fewlabels.pool import Answers, Query, Round

        def as_round(asked: StoredRound) -> Round:
            queried = [entry.item for entry in asked.items if entry.role == "query"]
            chosen = [self.positions[i] for i in queried if i in self.positions]
            labeled = [index for index in chosen if self.labels[index] is not None]
            lists = (chosen, labeled, [self.labels[index] for index in labeled])
            tensors = [torch.tensor(numbers, dtype=torch.int64) for numbers in lists]
            facts = asked.options
            counts = tuple(facts.get("class_counts", ()))
            return Round(
                step=asked.step,
                num_labeled=sum(counts),
                class_counts=counts,
                accuracy=None,
                query=Query(tensors[0], facts.get("value"), facts.get("record", {})),
                answers=Answers(*tensors[1:]),
            )

        return tuple(map(as_round, self.rounds))


def limit_confirmed(
    labels: Sequence[int | None], confirmed: Sequence[int]
) -> list[int | None]:
    """Return labels without the confirmed ones that would tilt the classes.

    A grid gives a class dozens of labels at a glance. If a class then has more than
    twice the median of the classes, the model takes the others for it less often than
    it should (docs/labeling-page.md). The last confirmed labels above that are left
    out; those that were asked for, imported or corrected always stay.

    Args:
        labels: Class of each image, if it has one.
        confirmed: Images whose label confirms a prediction, first one first.

    Example:
        >>> limit_confirmed([0, 0, 0, 0, 0, 1, 2, None], [0, 1, 2, 3])
        [0, None, None, None, 0, 1, 2, None]
    """
    kept = list(labels)
    counts = Counter(label for label in kept if label is not None)
    most = _MOST_CONFIRMED * median(counts.values()) if counts else 0
    for index in reversed(confirmed):
        label = kept[index]
        if label is not None and counts[label] > most:
            kept[index] = None
            counts[label] -= 1
    return kept


@dataclass(eq=False, kw_only=True)
class Tally:
    """Counts of answered images and of those that wait for an answer.

    A :class:`Snapshot` reads everything, which takes seconds where there are tens of
    thousands of labels. A tally reads once, and then only what was written since:
    events have numbers without gaps, rounds too, and the list of images has a checksum.
    Not safe for several threads at once.
    """

    overlap: int
    """Annotators who shall label each image."""
    sequence: int = 0
    """Number of the last event that was counted."""
    classes: tuple[records.LabelClass, ...] = ()
    rounds: list[StoredRound] = field(default_factory=list)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The latest round that asked about each image, and its place there, from zero."""
    waiting: set[str] = field(default_factory=set)
    """Images of all rounds that are there and wait for an answer."""
    class_counts: Counter[int] = field(default_factory=Counter)
    """Images on whose class the annotators agree, by its number."""
    num_items: Counter[str] = field(default_factory=Counter)
    """Images that are ``"spent"``, ``"confirmed"``, ``"imported"`` or ``"skipped"``."""
    repeats: dict[tuple[str, str], int] = field(default_factory=dict)
    """Confirmed images to label once more, with whoever confirmed them, and the number
    of the event."""
    verdicts: dict[str, list[Verdict]] = field(default_factory=dict)
    """Answers in force about each image that has some."""
    items_checksum: str = ""
    """Changes with the list of images."""
    _answering: Counter[str] = field(default_factory=Counter)

    @property
    def num_open(self) -> int:
        """Images that wait for an answer, of the last round and those it keeps open."""
        return self.num_open_since(self.rounds[-1].first_open) if self.rounds else 0

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
            now = records.by_item(moment.verdicts(items=changed))
            for item in changed:
                self._count(self.verdicts.pop(item, []), -1)
                if item in now:
                    self.verdicts[item] = now[item]
                    self._count(now[item], 1)
            for asked in added:
                ranks = enumerate(member.item for member in asked.items)
                self.places |= {item: (asked.step, rank) for rank, item in ranks}
            if num_people != self._num_people or checksum != self.items_checksum:
                affected = set(self.places)
            else:
                affected = {member.item for asked in added for member in asked.items}
                affected |= changed & self.places.keys()
            terms = self.overlap, self._num_people
            given = {item: self.verdicts.get(item, ()) for item in affected}
            unanswered = [i for i in given if not _is_answered(given[i], *terms)]
            present = {item.id for item in moment.items(ids=unanswered)}
        self.waiting = (self.waiting - affected) | present
        self.rounds += added
        self.sequence, self.items_checksum = sequence, checksum

    def _count(self, verdicts: list[Verdict], step: int) -> None:
        """Add the verdicts on one image to all counts, or subtract them."""
        labels = [verdict for verdict in verdicts if verdict.kind in LABELS]
        for verdict in verdicts:
            if _comes_back(verdict):
                key = (verdict.item, verdict.annotator)
                self.repeats.pop(key, None)
                if step > 0:
                    self.repeats[key] = verdict.sequence
            self._answering[verdict.annotator] += step * (not verdict.is_imported)
        for agreed in records.consensus(labels, self.overlap):
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
        """Annotators who answered."""
        return sum(n > 0 for n in self._answering.values())


def _is_answered(verdicts: Sequence[Verdict], overlap: int, num_people: int) -> bool:
    """Return whether an image has its answers, or nobody is left to answer."""
    num_given = sum(num_answers(verdict.kind, overlap) for verdict in verdicts)
    return num_given >= overlap or len(verdicts) >= max(overlap, num_people)


def _comes_back(verdict: Verdict) -> bool:
    """Return whether a confirmed label is among those that are repeated: one in 20."""
    if verdict.strategy != records.CONFIRMED or verdict.kind is not Kind.LABEL:
        return False
    return sha256(verdict.item.encode()).digest()[0] % REPEATED_ONE_IN == 0
