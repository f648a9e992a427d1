"""Folders of shards for tests."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyarrow import parquet


def clustered(num_items, width=6, seed=0):
    """Return rows around ten means, and logits of five classes."""
    draws = np.random.default_rng(seed)
    rows = draws.normal(size=(10, width))[draws.integers(10, size=num_items)]
    rows = rows + 0.5 * draws.normal(size=rows.shape)
    logits = rows @ draws.normal(size=(width, 5))
    return rows.astype(np.float32), logits.astype(np.float32)


def lists(rows):
    """Return an array of lists as Arrow has them."""
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])


def write_shards(folder, rows, num_shards=16, logits=None, labels=None):
    """Write rows to files that are not equally long; return the ids of all."""
    folder.mkdir(exist_ok=True)
    ids = [f"image-{number:06d}" for number in range(len(rows))]
    ends = (np.linspace(0, 1, num_shards + 1) ** 1.5 * len(rows)).astype(int)
    for number, (start, end) in enumerate(pairwise(ends)):
        part = slice(start, end)
        columns = {"id": pa.array(ids[part]), "embedding": lists(rows[part])}
        if logits is not None:
            columns["logits"] = lists(logits[part])
        if labels is not None:
            columns["label"] = pa.array(labels[part], pa.int64())
        parquet.write_table(pa.table(columns), folder / f"part-{number:03d}.parquet")
    return ids
