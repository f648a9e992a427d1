"""Labels of several annotators on the same items: consensus and agreement."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from fewlabels.errors import check_range
from fewlabels.projects.store.records import Annotation


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


def consensus(labels: Iterable[Annotation], overlap: int = 1) -> tuple[Consensus, ...]:
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


def agreement(labels: Sequence[Annotation]) -> Agreement:
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


def _votes(labels: Iterable[Annotation]) -> dict[str, Counter[int]]:
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    for label in labels:
        if label.class_number is not None:
            votes[label.item][label.class_number] += 1
    return votes
