"""Time and memory of heads that need no steps, on rows as wide as EfficientNet-Lite0's.

Usage: ``OMP_NUM_THREADS=1 python benchmarks/graph_heads.py [--items 20000] [--faiss]``.
Rows are a mixture of Gaussians in a file of half precision, made in a temporary folder.
The graph is built, then each head is trained, and trained again after one more label,
the graph being in memory. Each call adds to ``results/graph_heads.json``.
Processor time is told beside time by the clock, since others may use the machine.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from fewlabels import progress, rng, training
from fewlabels.matrices import MappedRows
from fewlabels.neighbors import NeighborGraph
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.training import graph as graphs
from fewlabels.training.views import ImageRows, PoolInputs

RECORD = Path(__file__).parent / "results" / "graph_heads.json"
WIDTH, NUM_CLASSES, NUM_LABELS, NUM_AGAIN = 1280, 10, 40, 7
BLOCK = 5000
MOST_FOR_ALL = 20_000


def main() -> None:
    """Measure one number of items and add what was found to the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--faiss", action="store_true", help="search by faiss")
    told = parser.parse_args()
    with TemporaryDirectory() as folder:
        found = measured(Path(folder), told.items, "faiss" if told.faiss else "exact")
    known = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    known[f"{found['items']} {found['search']}"] = found
    RECORD.write_text(json.dumps(known, indent=2) + "\n", "utf-8")
    print(json.dumps(found, indent=2))


def measured(folder: Path, num_items: int, search: str) -> dict[str, Any]:
    """Return times in seconds and memory in megabytes."""
    pool, classes = made_pool(folder / "rows", num_items)
    heard = Recall()
    before = peak_megabytes()
    with progress.reporting(heard):
        view = PoolInputs().of(pool, None)
        around = graphs.surroundings(view, pool.images)
        graph, building = timed(lambda: around.graph(10, search))
    found: dict[str, Any] = {
        "items": num_items,
        "width": WIDTH,
        "search": search,
        "recall": heard.recall,
        "graph": building,
        "graph_megabytes": size_of(graph),
        "peak_megabytes_more": round(peak_megabytes() - before, 1),
    }
    is_small = search == "exact" and num_items <= MOST_FOR_ALL
    heads = ("spreading", "poisson", "ot") if is_small else ("spreading",)
    for name in heads:
        found[name] = head(name, pool, classes, search)
    return found


def head(name: str, pool: Pool, classes: torch.Tensor, search: str) -> dict[str, Any]:
    """Return how long trainings take: the first, and after one more label each."""
    trainer = training.make(name, search=search)
    draws = rng.stream(0, "train")
    _, first = timed(lambda: trainer.fit(pool, draws))
    again = []
    for number in range(NUM_AGAIN):
        item = torch.tensor([NUM_LABELS + number])
        pool = labeled(pool, item, classes)
        classifier, seconds = timed(lambda pool=pool: trainer.fit(pool, draws))
        again.append(seconds)
    every = torch.arange(min(len(pool), 2000))
    outputs, asking = timed(lambda: classifier.outputs(pool.images, every))
    right = outputs.logits.argmax(dim=1) == classes[every]
    return {
        "first": first,
        "again": {kind: [one[kind] for one in again] for kind in again[0]},
        "asking_2000": asking,
        "accuracy": float(right.float().mean()),
    }


def made_pool(path: Path, num_items: int) -> tuple[Pool, torch.Tensor]:
    """Return a pool of rows of a file, some labeled, and the classes of all."""
    draws = np.random.default_rng(0)
    classes = np.arange(num_items) % NUM_CLASSES
    centers = np.abs(draws.normal(size=(NUM_CLASSES, WIDTH)))
    rows = np.lib.format.open_memmap(path, "w+", np.float16, (num_items, WIDTH))
    for start in range(0, num_items, BLOCK):
        part = slice(start, start + BLOCK)
        noise = draws.normal(scale=1.5, size=(len(classes[part]), WIDTH))
        rows[part] = centers[classes[part]] + noise
    rows.flush()
    file = np.load(path, mmap_mode="r")
    truth = torch.from_numpy(classes)
    labels = torch.full((num_items,), UNKNOWN)
    labels[:NUM_LABELS] = truth[:NUM_LABELS]
    names = [str(number) for number in range(NUM_CLASSES)]
    images = ArrayImages(MappedRows(file))
    assert len(ImageRows(images)) == num_items
    return Pool.build(images, labels, names), truth


def labeled(pool: Pool, items: torch.Tensor, classes: torch.Tensor) -> Pool:
    """Return the pool with more labels."""
    labels = pool.labels.clone()
    labels[items] = classes[items]
    kept = pool.candidates[~torch.isin(pool.candidates, items)]
    return replace(pool, labels=labels, candidates=kept, are_distinct=True)


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Return what a function returns, and the seconds that it took."""
    clock, processor = time.perf_counter(), time.process_time()
    found = work()
    seconds = time.perf_counter() - clock, time.process_time() - processor
    return found, {"clock": round(seconds[0], 4), "processor": round(seconds[1], 4)}


def size_of(graph: NeighborGraph) -> float:
    """Return how large a graph that is kept is, in megabytes."""
    weights = graph.weights
    parts = (weights.data, weights.indices, weights.indptr)
    return round(sum(part.nbytes for part in parts) / 1e6, 1)


def peak_megabytes() -> float:
    """Return the largest memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


class Recall:
    """Hears of the recall, and passes over the rest."""

    recall: float | None = None

    def start(self, task: str, total: int, done: int) -> int:
        """Take no notice."""
        del task, total, done
        return 0

    def advance(self, handle: int, amount: int) -> None:
        """Take no notice."""

    def finish(self, handle: int) -> None:
        """Take no notice."""

    def tell(self, step: int, figures: Any) -> None:
        """Remember the recall."""
        del step
        self.recall = figures.get("recall", self.recall)


if __name__ == "__main__":
    main()
