"""Choices over sixteen shards: one process, several, and tasks of Ray.

    python -m benchmarks.sharded            prints and keeps whether all agree

The problem is that of ``large_pool`` with fewer items and the first 32 features, in
sixteen Parquet files of unequal length; 50 items are labeled, 20 are chosen. Each
strategy chooses in one process, in two processes of this machine and by tasks of a Ray
cluster that is started for it.
"""

import argparse
import json
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from benchmarks.large_pool import problem, say
from pyarrow import parquet

from fewlabels.data.shards import Shards
from fewlabels.gram import diffusion
from fewlabels.jobs.cluster import connected
from fewlabels.jobs.tasks import RayTasks
from fewlabels.search.workers import local_processes
from fewlabels.sharing import Mapper
from fewlabels.strategies.shards import select_shards

NUM_SHARDS, WIDTH, SIZE, NUM_LABELED = 16, 32, 20, 50
CHOICES: list[tuple[str, dict[str, Any]]] = [
    ("random", {}),
    ("margin", {}),
    ("npc", {"draws": 100_000}),
    ("npc", {"method": "greedy"}),
    ("badge", {}),
    ("coreset", {}),
    ("typiclust", {}),
    ("uherding", {"max_pool": 10_000}),
    ("outward", {"max_pool": 10_000, "rank": 50}),
]
RESULT = Path(__file__).parent / "results" / "sharded.json"


def write(folder: Path, num_items: int) -> None:
    """Write the problem as shards."""
    features, logits, classes = problem(num_items)
    step = num_items // NUM_LABELED
    labels = [
        int(one) if place % step == 0 else None
        for place, one in enumerate(classes.tolist())
    ]
    ends = (torch.linspace(0, 1, NUM_SHARDS + 1) ** 1.5 * num_items).long().tolist()
    for number, (start, end) in enumerate(pairwise(ends)):
        part = slice(start, end)
        columns = {
            "id": pa.array([f"image-{place:07d}" for place in range(start, end)]),
            "embedding": _lists(features[part, :WIDTH]),
            "logits": _lists(logits[part]),
            "label": pa.array(labels[part], pa.int64()),
        }
        parquet.write_table(pa.table(columns), folder / f"part-{number:03d}.parquet")


def _lists(rows: torch.Tensor) -> pa.FixedSizeListArray:
    numbers = pa.array(rows.contiguous().numpy().ravel())
    return pa.FixedSizeListArray.from_arrays(numbers, rows.shape[1])


class Counted:
    """An executor, and how many parts it was given."""

    def __init__(self, executor: Mapper) -> None:
        self.executor, self.num_parts = executor, 0

    def map(self, function: Any, parts: Any, /) -> Any:
        """Hand on what is to be done."""
        parts = list(parts)
        self.num_parts += len(parts)
        return self.executor.map(function, parts)


def main() -> None:
    """Compare all of them and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), options.items)
        shards = Shards.open(Path(name))
        shards.embeddings()
        with local_processes(2) as processes, connected(None) as ray:
            assert processes is not None
            helpers = {"processes": processes, "ray": RayTasks(ray)}
            for strategy, settings in CHOICES:
                line: dict[str, Any] = {"strategy": strategy, "options": settings}
                asked = {"size": SIZE, "seed": 0, "options": settings}
                begin = time.perf_counter()
                alone = select_shards(strategy, shards, **asked)
                line["seconds"] = {"alone": time.perf_counter() - begin}
                line["ids"] = alone.ids
                for kind, helper in helpers.items():
                    diffusion._last.clear()  # which would spare it the graph
                    counted = Counted(helper)
                    begin = time.perf_counter()
                    other = select_shards(strategy, shards, executor=counted, **asked)
                    line["seconds"][kind] = time.perf_counter() - begin
                    line[kind] = {
                        "parts": counted.num_parts,
                        "the_same": other.ids == alone.ids,
                    }
                found.append(line)
                told = {key: value for key, value in line.items() if key != "ids"}
                say(json.dumps(told))
    figures = {"num_items": options.items, "num_shards": NUM_SHARDS, "choices": found}
    options.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
