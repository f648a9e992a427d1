"""The images that were labeled together, each with what was answered."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fewlabels.integers import count
from fewlabels.pool import UNKNOWN
from fewlabels.report.recorded import RecordedRun
from fewlabels.report.thumbnails import Thumbnails
from fewlabels.runs import RoundLine

LARGEST_GALLERY = 60
"""Images of one round that are shown; the others are counted."""


@dataclass(frozen=True)
class Item:
    """One image with its label."""

    name: str
    caption: str
    """Its class, or that it has none."""
    state: Literal["labeled", "skipped", "open"]
    picture: str | None
    """A data URI; None where the item is gone."""
    detail: str = ""
    """What else is said of it, in smaller letters."""


@dataclass(frozen=True)
class Gallery:
    """The images of the starting set or of one round."""

    heading: str
    detail: str
    items: tuple[Item, ...]
    num_more: int
    """How many there are besides those shown."""


def readable_name(name: str) -> str:
    """Return the id of an item without the hash of its content."""
    return name.rpartition("@")[0] or name


def shown_ids(runs: Sequence[RecordedRun]) -> Iterator[str]:
    """Yield the ids of all items that the galleries of the runs will show."""
    for run in runs:
        yield from list(run.start)[:LARGEST_GALLERY]
        for line in run.lines:
            yield from line.ids[:LARGEST_GALLERY]


def starting_gallery(run: RecordedRun, thumbnails: Thumbnails) -> Gallery | None:
    """Return what the run began with; None where it began with nothing."""
    if not run.start:
        return None
    detail = f"{count(len(run.start), 'label')} to start with"
    return _gallery(run, "Starting set", detail, run.start, thumbnails)


def asked_gallery(run: RecordedRun, line: RoundLine, thumbnails: Thumbnails) -> Gallery:
    """Return what a round asked for."""
    answers = dict(zip(line.ids, line.labels, strict=True))
    num_open = sum(label is None for label in line.labels)
    num_skipped = sum(label == UNKNOWN for label in line.labels)
    num_answered = len(line.ids) - num_open - num_skipped
    after = count(line.num_labeled + num_answered, "label")
    parts = [f"{len(line.ids):,} asked for"]
    if num_open or num_skipped:
        parts.append(f"{num_answered:,} answered")
    if num_skipped:
        parts.append(f"{num_skipped:,} skipped")
    if num_open:
        parts.append(f"{num_open:,} left open")
    heading = f"{line.num_labeled:,} → {after}"
    return _gallery(run, heading, ", ".join(parts), answers, thumbnails)


def _gallery(
    run: RecordedRun,
    heading: str,
    detail: str,
    labels: Mapping[str, int | None],
    thumbnails: Thumbnails,
) -> Gallery:
    shown = list(labels.items())[:LARGEST_GALLERY]
    return Gallery(
        heading=heading,
        detail=detail,
        items=tuple(_item(run, name, label, thumbnails) for name, label in shown),
        num_more=len(labels) - len(shown),
    )


def _item(
    run: RecordedRun, name: str, label: int | None, thumbnails: Thumbnails
) -> Item:
    readable = readable_name(name)
    picture = thumbnails.of(name)
    if label is None:
        return Item(readable, "open", "open", picture)
    if label == UNKNOWN:
        return Item(readable, "skipped", "skipped", picture)
    return Item(readable, run.class_name(label), "labeled", picture)
