"""The records that a label store takes and returns, and what annotators agree on."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import combinations
from typing import Any, Literal
from uuid import uuid4

from fewlabels.errors import UsageError, check_range

Role = Literal["query", "audit"]
"""Why a round holds an item: a strategy chose it, or it was drawn to measure on."""


class Kind(StrEnum):
    """The kind of an event."""

    LABEL = "label"
    """An annotator gave an item a class."""
    RELABEL = "relabel"
    """An annotator changed her verdict on an item."""
    SKIP = "skip"
    """The item is not worth a label; nobody else is asked about it."""
    UNSURE = "unsure"
    """The annotator does not know; somebody else may."""
    UNDO = "undo"
    """Another event is not in force any more; if it is an undo, its target is again."""
    CLASS_ADDED = "class_added"
    CLASS_RENAMED = "class_renamed"
    CLASS_RETIRED = "class_retired"
    """No new label may name the class; those that do stay."""
    CLASS_RESTORED = "class_restored"


LABELS = frozenset({Kind.LABEL, Kind.RELABEL})
VERDICTS = LABELS | {Kind.SKIP, Kind.UNSURE}
"""Events about an item; the last one in force is the annotator's verdict on it."""
CONFIRMED, CORRECTED = "confirmed", "corrected"
"""The strategies of labels that confirm or correct predictions seen at a glance: nobody
asked about these items one by one, so they cost no budget, and never measure."""
REPEATED = "repeated"
"""In the payload of a label that repeats a confirmed one: the class that it had."""
IMPORTED = "imported"
"""The strategy of labels that existed before and were read from a file or a folder."""
UNASKED = frozenset({CONFIRMED, CORRECTED, IMPORTED})
NAMING = frozenset({Kind.CLASS_ADDED, Kind.CLASS_RENAMED})
CLASS_EVENTS = NAMING | {Kind.CLASS_RETIRED, Kind.CLASS_RESTORED}


_CANONICAL = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # zero bytes and halves of characters


def num_answers(kind: Kind, overlap: int) -> int:
    """Return how many of the ``overlap`` answers that an item needs a verdict gives.

    A label gives one and a skip all of them. *Unsure* gives none: somebody else may
    know.
    """
    return overlap if kind is Kind.SKIP else int(kind in LABELS)


def new_uuid() -> str:
    """Return a new UUID for an event."""
    return str(uuid4())


def canonical(value: Any) -> str:
    """Return a JSON value as its one text: sorted keys, no blanks, no NaN."""
    return _CANONICAL.encode(value)


@dataclass(frozen=True)
class Event:
    """One action of an annotator, named by a UUID that its sender chose."""

    kind: Kind
    annotator: str
    item: str | None = None
    """Id of the item that a verdict is about."""
    class_number: int | None = None
    _: KW_ONLY
    uuid: str = field(default_factory=new_uuid)
    """The same event sent twice has the same UUID, and counts once."""
    target: str | None = None
    """UUID of the event that an undo cancels."""
    client_time: datetime | None = None
    """When it was done, by the annotator's clock; with its time zone."""
    round: int | None = None
    """Step of the round that asked."""
    strategy: str | None = None
    model: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    """Anything else, as JSON; ``"name"`` of a class that is added or renamed."""

    def __post_init__(self) -> None:
        """Check that the event has all that its kind needs, and nothing else."""
        kind = self.kind
        needs = {
            "class_number": kind in LABELS | CLASS_EVENTS,
            "target": kind is Kind.UNDO,
            "item": kind in VERDICTS,
        }
        for name, is_needed in needs.items():
            if (getattr(self, name) is not None) != is_needed:
                verb = "needs" if is_needed else "has no"
                raise UsageError(f"An event '{kind}' {verb} {name}; got {self!r}.")
        problem = ""
        if kind in NAMING and not str(self.payload.get("name") or "").strip():
            problem = "needs a payload with a 'name'"
        elif not self.annotator.strip():
            problem = "needs an annotator: a name that is not empty"
        elif str(self.uuid) != self.uuid or not _UUID.fullmatch(self.uuid):
            problem = f"has '{self.uuid}', which is not a UUID; use store.new_uuid"
        if problem:
            raise UsageError(f"An event '{kind}' {problem}.")
        _check_text(self.annotator, self.item, self.strategy, self.model)
        _check_json("payload of an event", self.payload)


@dataclass(frozen=True, kw_only=True)
class StoredEvent(Event):
    """An event that is in the store for good."""

    sequence: int
    """Its number: 1, 2, 3, ... in the order in which events became visible."""
    server_time: datetime

    def __post_init__(self) -> None:
        """Check nothing: that was done before it was stored."""

    @property
    def is_asked(self) -> bool:
        """Whether somebody was asked about this item alone."""
        return self.round is not None or self.strategy not in UNASKED


@dataclass(frozen=True, kw_only=True)
class Verdict(StoredEvent):
    """A label, skip or *unsure* that is in force."""

    item: str

    @property
    def is_confirmed(self) -> bool:
        """Whether it confirms or corrects a prediction that nobody asked about."""
        return self.strategy in {CONFIRMED, CORRECTED} and self.round is None

    @property
    def is_imported(self) -> bool:
        """Whether it existed before and was read from a file or a folder."""
        return self.strategy == IMPORTED and self.round is None

    @property
    def asking(self) -> "Asking":
        """What it was an answer to."""
        return Asking(self.round, self.strategy, self.model)

    def says(self, kind: Kind, class_number: int | None) -> bool:
        """Return whether another verdict would say the same."""
        if class_number is None:
            return self.kind is kind
        return self.class_number == class_number


def by_item(verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
    """Return verdicts by their item."""
    groups: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        groups[verdict.item].append(verdict)
    return groups


@dataclass(frozen=True)
class LabelClass:
    """A class that labels can name."""

    number: int
    name: str
    is_active: bool = True
    """Whether new labels may name it."""


@dataclass(frozen=True, kw_only=True)
class ListedFile:
    """An image file, as it was when the folder was listed."""

    path: str
    """Path below the folder of the images, with forward slashes."""
    digest: str
    """Hash of its content."""
    size: int
    """In bytes."""
    mtime_ns: int
    """Time of the last change in nanoseconds, by the file system's clock."""
    group: str | None = None
    """Name of its group of near duplicates; None: as before, or equal files only."""
    details: Mapping[str, Any] | None = None
    """Anything else worth keeping, as JSON, such as height and width; None: as before,
    which spares writing it down for each of many files that nobody touched."""


@dataclass(frozen=True, kw_only=True)
class Item(ListedFile):
    """An image file as the store knows it."""

    id: str
    """Path and hash where it was first seen; stays when the file moves."""
    group: str


@dataclass(frozen=True)
class RoundItem:
    """An item that a round asks about."""

    item: str
    role: Role = "query"


@dataclass(frozen=True, kw_only=True)
class StoredRound:
    """Which strategy asked about which items. Never changed once it is stored."""

    step: int
    strategy: str
    items: tuple[RoundItem, ...]
    """In the order in which to ask about them."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the strategy and whatever else explains the choice, as JSON."""
    seed: int | None = None
    model: str | None = None
    """What the strategy looked at; None: no trained model."""
    candidates_digest: str | None = None
    """Digest of all it could choose from; see ``candidates_digest``."""
    created: datetime | None = None
    """When it was stored; filled in by the store."""

    @property
    def first_open(self) -> int:
        """The first of the rounds that it keeps open: itself, or one chosen before."""
        return int(self.options.get("since", self.step))

    def __post_init__(self) -> None:
        """Check that everything can be written down."""
        _check_text(self.strategy, self.model)
        _check_json(f"options of round {self.step}", self.options)


def measuring_items(rounds: Iterable[StoredRound]) -> frozenset[str]:
    """Return the ids of all items that rounds drew to measure on."""
    asked = (entry for each in rounds for entry in each.items)
    return frozenset(entry.item for entry in asked if entry.role == "audit")


@dataclass(frozen=True)
class Asking:
    """Which round asked about an item, or None; then by what its label came."""

    round: int | None
    strategy: str | None
    model: str | None


@dataclass(frozen=True)
class Leased:
    """The items that an annotator may label now, and why not more."""

    items: tuple[str, ...]
    """Their ids."""
    token: str
    """Names this browser tab or process; give it to get the same items again."""
    num_held: int
    """Items that are not given now because others hold them."""
    frees_at: datetime | None
    """When the first of these leases expires; None if there is none."""


def _check_text(*words: str | None) -> None:
    """Refuse what only some databases take: half characters and zero bytes."""
    for word in filter(None, words):
        if _UNSTORABLE.search(word):
            raise UsageError(f"{word!r} holds a character that cannot be stored.")


def _check_json(what: str, value: Mapping[str, Any]) -> None:
    try:
        _check_text(canonical(value))
    except (TypeError, ValueError) as error:
        raise UsageError(f"The {what} cannot be written as JSON: {error}") from error


# ---------------------------------------------------------------- several annotators


@dataclass(frozen=True)
class Consensus:
    """The label that the annotators together give to an item."""

    item: str
    class_number: int | None
    """The class that more than half chose; None while it is open or disputed."""
    votes: Mapping[int, int]
    """Labels per class."""
    is_complete: bool
    """Whether as many annotators labeled it as were wanted."""

    @property
    def is_disputed(self) -> bool:
        """Whether all labels are there and no class has more than half of them."""
        return self.is_complete and self.class_number is None


@dataclass(frozen=True)
class Agreement:
    """How far annotators agree beyond chance: 1 always, 0 as by chance."""

    num_items: int
    """Items that at least two annotators labeled."""
    cohen: Mapping[tuple[str, str], float | None]
    """Cohen's kappa of each two annotators who share items."""
    fleiss: float | None
    """Fleiss' kappa over all; None if it is not defined (see ``fleiss_kappa``)."""


def consensus(labels: Iterable[Verdict], overlap: int = 1) -> tuple[Consensus, ...]:
    """Return the consensus on each labeled item, by id.

    Args:
        labels: Current labels.
        overlap: How many labels an item needs before it has a class. A label that was
            imported or confirmed, without a question, is enough by itself.
    """
    check_range("overlap", overlap, at_least=1)
    given = tuple(labels)
    asked = {label.item for label in given if label.is_asked}
    result = []
    for item, votes in sorted(_votes(given).items()):
        winner, most = votes.most_common(1)[0]
        is_complete = votes.total() >= overlap or item not in asked
        has_won = is_complete and 2 * most > votes.total()
        chosen = winner if has_won else None
        result.append(Consensus(item, chosen, dict(votes), is_complete))
    return tuple(result)


def agreement(labels: Sequence[Verdict]) -> Agreement:
    """Return how far annotators agree on the items that they share."""
    by_annotator: dict[str, dict[str, int | None]] = defaultdict(dict)
    for label in labels:
        by_annotator[label.annotator][label.item] = label.class_number
    cohen = {}
    for pair in combinations(sorted(by_annotator), 2):
        first, second = (by_annotator[name] for name in pair)
        shared = [item for item in first if item in second]
        if shared:
            numbers = ([own[item] for item in shared] for own in (first, second))
            cohen[pair] = cohen_kappa(*numbers)
    several = [votes for votes in _votes(labels).values() if votes.total() > 1]
    return Agreement(len(several), cohen, fleiss_kappa(several))


def cohen_kappa(
    first: Sequence[int | None], second: Sequence[int | None]
) -> float | None:
    """Return Cohen's kappa of two annotators (Cohen 1960).

    Args:
        first: Classes that one annotator gave, item by item.
        second: Classes that the other gave to the same items.

    Returns:
        (p - e) / (1 - e), p being the share of items on which they agree and e the
        share expected by chance; None if e is 1 because both used one class only.

    Example:
        >>> cohen_kappa([0, 0, 1, 1], [0, 1, 1, 1])
        0.5
    """
    total = len(first)
    same = sum(a == b for a, b in zip(first, second, strict=True)) / total
    counts, others = Counter(first), Counter(second)
    chance = sum(counts[number] * others[number] for number in counts) / total**2
    return None if chance == 1 else (same - chance) / (1 - chance)


def fleiss_kappa(votes: Sequence[Mapping[int, int]]) -> float | None:
    """Return Fleiss' kappa over items with two labels or more (Fleiss 1971).

    Items may have different numbers of labels. The observed agreement is the mean over
    items, the expected one comes from the shares of the classes in all labels; with
    equally many labels per item this is the published formula.

    Args:
        votes: For each item the number of labels per class, at least two in all.

    Returns:
        The kappa; None without items, or if all labels are of one class.

    Example:
        >>> fleiss_kappa([{0: 2}, {1: 2}, {0: 1, 1: 1}, {0: 1, 1: 1}])
        0.0
    """
    if not votes:
        return None
    observed = 0.0
    shares: Counter[int] = Counter()
    for counts in votes:
        number = sum(counts.values())
        pairs = sum(count * (count - 1) for count in counts.values())
        observed += pairs / (number * (number - 1)) / len(votes)
        shares.update(counts)
    chance = sum((count / shares.total()) ** 2 for count in shares.values())
    return None if chance == 1 else (observed - chance) / (1 - chance)


def _votes(labels: Iterable[Verdict]) -> dict[str, Counter[int]]:
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    for label in labels:
        if label.class_number is not None:
            votes[label.item][label.class_number] += 1
    return votes
