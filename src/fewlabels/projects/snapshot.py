"""A project at one moment: its images, what people said of them, what may be asked."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Self

from fewlabels.projects.store import (
    Annotation,
    Consensus,
    Item,
    Kind,
    RoundItem,
    Store,
    StoredRound,
    consensus,
)
from fewlabels.projects.store.records import LABELS, num_answers

if TYPE_CHECKING:
    from fewlabels.pool import Images, Pool, Round


@dataclass(frozen=True, eq=False, kw_only=True)
class Snapshot:
    """What the store held at one moment."""

    items: tuple[Item, ...]
    """The images that are there, by path."""
    classes: tuple[str, ...]
    """Names of the classes, in the order of their numbers."""
    verdicts: tuple[Annotation, ...]
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
            verdicts = moment.verdicts(with_missing=True)
            listed = moment.classes()
        there = {item.id for item in items}
        labeled = {one.item for one in verdicts if one.kind in LABELS}
        return cls(
            items=items,
            classes=tuple(entry.name for entry in listed),
            verdicts=tuple(one for one in verdicts if one.item in there),
            rounds=rounds,
            overlap=overlap,
            vanished=frozenset(labeled - there),
            retired=frozenset(one.name for one in listed if not one.is_active),
        )

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Position of each image by its id."""
        return {item.id: index for index, item in enumerate(self.items)}

    @cached_property
    def audit(self) -> frozenset[str]:
        """Ids of the images that measure."""
        return frozenset(
            one.item
            for asked in self.rounds
            for one in asked.items
            if one.role == "audit"
        )

    @cached_property
    def consensus(self) -> Mapping[str, Consensus]:
        """What the annotators together say of each labeled image."""
        labels = [one for one in self.verdicts if one.kind in LABELS]
        return {one.item: one for one in consensus(labels, self.overlap)}

    @cached_property
    def known(self) -> Mapping[str, int]:
        """Class of every image on which the annotators agree."""
        agreed = self.consensus.values()
        return {
            one.item: one.class_number for one in agreed if one.class_number is not None
        }

    @cached_property
    def audited(self) -> Mapping[str, int]:
        """Class of every image that measures and has one."""
        return {item: label for item, label in self.known.items() if item in self.audit}

    @property
    def num_spent(self) -> int:
        """Images that somebody was asked about and labeled: what the budget paid."""
        labels = (verdict for verdict in self.verdicts if verdict.kind in LABELS)
        return len({label.item for label in labels if label.is_asked})

    @property
    def num_imported(self) -> int:
        """Images whose label existed before and was imported."""
        return len({verdict.item for verdict in self.verdicts if verdict.is_imported})

    @cached_property
    def _num_verdicts(self) -> Counter[str]:
        return Counter(one.item for one in self.verdicts)

    @cached_property
    def skipped(self) -> frozenset[str]:
        """Images that somebody found not worth a label."""
        return frozenset(o.item for o in self.verdicts if o.kind is Kind.SKIP)

    @cached_property
    def unsure(self) -> frozenset[str]:
        """Images that somebody could not tell the class of."""
        return frozenset(o.item for o in self.verdicts if o.kind is Kind.UNSURE)

    @cached_property
    def _num_answers(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for one in self.verdicts:
            found[one.item] += num_answers(one.kind, self.overlap)
        return found

    @cached_property
    def _num_people(self) -> int:
        """Annotators there are, known by what they said, or else shall be."""
        asked = (verdict for verdict in self.verdicts if not verdict.is_imported)
        return max(self.overlap, len({verdict.annotator for verdict in asked}))

    def is_answered(self, item: str) -> bool:
        """Whether an image has its answers, or nobody is left who could give one."""
        return (
            self._num_answers[item] >= self.overlap
            or self._num_verdicts[item] >= self._num_people
        )

    @cached_property
    def open(self) -> tuple[RoundItem, ...]:
        """Items that wait for an answer, in the order in which they were asked.

        They are those of the last round and, where it was chosen ahead, of the earlier
        rounds that it keeps open.
        """
        asked = {item.item: item for each in self.open_rounds for item in each.items}
        return tuple(
            item
            for name, item in asked.items()
            if name in self.positions and not self.is_answered(name)
        )

    @property
    def open_rounds(self) -> tuple[StoredRound, ...]:
        """The last round, after those that it keeps open: it was chosen ahead."""
        if not self.rounds:
            return ()
        last = self.rounds[-1]
        return self.rounds[last.options.get("since", last.step) :]

    @cached_property
    def waiting(self) -> frozenset[str]:
        """Ids of the images of all rounds that wait for an answer."""
        asked = {one.item for each in self.rounds for one in each.items}
        return frozenset(item for item in asked if not self.is_answered(item))

    @cached_property
    def labels(self) -> Sequence[int | None]:
        """Label to train on of each image, if it has one: none of the audit slice."""
        known, audit = self.known, self.audit
        return [None if o.id in audit else known.get(o.id) for o in self.items]

    @cached_property
    def labels_digest(self) -> str:
        """Tells the labels to train on from others, and which image has which."""
        pairs = zip((item.id for item in self.items), self.labels, strict=True)
        known = sorted(pair for pair in pairs if pair[1] is not None)
        return sha256(json.dumps(known).encode()).hexdigest()

    @cached_property
    def candidates(self) -> Sequence[int]:
        """Images that may be asked about: one of each group nobody has spoken of."""
        group_of = {item.id: item.group for item in self.items}
        taken = self.audit | self._num_verdicts.keys()
        closed = {group_of[item] for item in taken if item in group_of}
        found = []
        for index, item in enumerate(self.items):
            if item.group not in closed:
                closed.add(item.group)
                found.append(index)
        return found

    def pool(self, images: "Images", *, budget: int | None = None) -> "Pool":
        """Return the pool that strategies and trainers see: no label that measures."""
        import torch

        from fewlabels.pool import UNKNOWN, Pool

        labels = [UNKNOWN if label is None else label for label in self.labels]
        free = [one for one in self.candidates if self.labels[one] is None]
        return Pool(
            images=images,
            ids=tuple(item.id for item in self.items),
            labels=torch.tensor(labels, dtype=torch.int64),
            classes=self.classes,
            candidates=torch.tensor(free, dtype=torch.int64),
            budget=budget,
        )

    def history(self) -> "tuple[Round, ...]":
        """Return the rounds so far as strategies know them."""
        return tuple(self._round(asked) for asked in self.rounds)

    def _round(self, asked: StoredRound) -> "Round":
        import torch

        from fewlabels.pool import Answers, Query, Round

        chosen = [
            self.positions[one.item]
            for one in asked.items
            if one.role == "query" and one.item in self.positions
        ]
        labeled = [index for index in chosen if self.labels[index] is not None]
        labels = [self.labels[index] for index in labeled]
        indices, answered, known = (
            torch.tensor(numbers, dtype=torch.int64)
            for numbers in (chosen, labeled, labels)
        )
        facts = asked.options
        counts = tuple(facts.get("class_counts", ()))
        return Round(
            step=asked.step,
            num_labeled=sum(counts),
            class_counts=counts,
            accuracy=None,
            query=Query(indices, facts.get("value"), facts.get("record", {})),
            answers=Answers(answered, known),
        )
