"""A folder of shards in, ids out: strategies for more items than fit into memory."""

import csv
import re
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewlabels.data.shards import Shards
from fewlabels.data.untrusted import open_untrusted
from fewlabels.errors import DataError, check_distinct
from fewlabels.pool import Record
from fewlabels.progress import Mapper, shared
from fewlabels.protocols import Strategy
from fewlabels.rng import stream
from fewlabels.strategies import resolve
from fewlabels.strategies.arrays import checked_query, precomputed

_MOST_BYTES = 2**30
_CLASS = re.compile(r"\s*\d{1,18}\s*")


class Chosen(NamedTuple):
    """Items of a folder of shards."""

    ids: list[str]
    indices: NDArray[np.int64]
    """Their positions in the folder, from 0."""
    record: Record
    """What the strategy says of its choice."""


def select_shards(
    strategy: str | Strategy,
    shards: Shards,
    *,
    labels: Path | None = None,
    size: int,
    seed: int,
    options: Mapping[str, Any] | None = None,
    executor: Mapper | None = None,
) -> Chosen:
    """Choose which items of a folder of shards to label next.

    Args:
        strategy: A built-in name, ``"package.module:Name"``, or an object.
        shards: The folder.
        labels: A CSV table with the column ``id``, and ``label`` for class numbers:
            items that are labeled already, beside those with a label in the shards.
        size: How many items to choose.
        seed: A number.
        options: Options of the strategy, where it is given by name.
        executor: Who does what can be done a part at a time, such as a
            ``concurrent.futures.ProcessPoolExecutor``; the choice is the same.

    Returns:
        ``size`` distinct items that have no label.
    """
    chooser = resolve(strategy, options)
    labeled, classes = labeled_items(shards, labels)
    rows = shards.embeddings()
    pool, classifier = precomputed(rows, shards.logits(), labeled, classes)
    with shared(executor):
        query = checked_query(chooser, classifier, pool, size, stream(seed, "query"))
    indices = query.indices.numpy()
    return Chosen(shards.ids(indices), indices, query.record)


def labeled_items(
    shards: Shards, table: Path | None
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Return labeled items of shards and of a table, and their classes if all known."""
    labeled, classes = shards.labels()
    if table is None:
        return labeled, classes
    with (
        open_untrusted(table, _MOST_BYTES, "Save it as CSV.") as file,
        TextIOWrapper(file, encoding="utf-8-sig", newline="") as text,
    ):
        rows = list(csv.DictReader(text))
    names = list(rows[0]) if rows else []
    if rows and "id" not in names:
        raise DataError(
            f"'{table}' has the columns {', '.join(map(str, names))}; add 'id'."
        )
    ids = [row["id"] or "" for row in rows]
    check_distinct("id", ids, DataError)
    places = shards.positions(ids)
    twice = np.flatnonzero(np.isin(places, labeled))
    if len(twice):
        raise DataError(
            f"{len(twice)} items of '{table}' have labels in shards: '{ids[twice[0]]}'."
        )
    labeled = np.concatenate([labeled, places])
    if "label" not in names:
        return labeled, None
    wrong = [row for row in rows if not _CLASS.fullmatch(row["label"] or "")]
    if wrong:
        raise DataError(
            f"{len(wrong)} of {len(rows)} labels in '{table}' are not class numbers: "
            f"'{wrong[0]['label']}' of '{wrong[0]['id']}'; number classes from 0 on."
        )
    given = np.array([int(row["label"]) for row in rows], dtype=np.int64)
    return labeled, np.concatenate([classes, given])
