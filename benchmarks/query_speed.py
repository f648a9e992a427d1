"""Processor seconds of one query of 20 images, and of training the learner `blend`.

    python -m benchmarks.query_speed                       all, minutes
    python -m benchmarks.query_speed "20,000 x 1,280"      one pool, the others kept

Rows are made up and lie in a file of half precision: ten classes of twenty clusters,
64 hidden numbers whose spread falls from the first to the last, mixed and cut at zero,
as a network's last features are. 100 random images are labeled. The graph of neighbors
and the rows made of it do not depend on labels: they are made once, timed apart, and in
memory from then on. Each pool has a process of its own, with one thread. Seconds are
those of the processor: of the first call, and the median of those after it.

Two strategies estimate. `uherding` is compared with trying every candidate by the
share of the doubt that is covered, and `bait` with whole rows by what its set leaves of
the whole pool's information.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from fewlabels import gram, rng, search, strategies, training
from fewlabels.gram.diffusion import joint_rows
from fewlabels.gram.graph import remembered_graph
from fewlabels.pool import UNKNOWN, ArrayImages, MappedRows, Pool, Query
from fewlabels.protocols import Classifier, Outputs
from fewlabels.training import graph as graphs
from fewlabels.training.views import PoolInputs

RESULT = Path(__file__).parent / "results" / "query_speed.json"
NUM_CLASSES, NUM_CLUSTERS, NUM_HIDDEN = 10, 200, 64
NUM_LABELED, SIZE, NUM_AGAIN = 100, 20, 3
BLOCK = 5000
POOLS = {
    "4,000 x 256": (4_000, 256, "exact"),
    "20,000 x 1,280": (20_000, 1_280, "exact"),
    "200,000 x 384": (200_000, 384, "faiss"),
}
JOINT = {"kernel": "joint", "power": 2, "noise": 0.3}
QUERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "uherding": ("uherding", {}),
    "v-opt joint": ("v-opt", JOINT),
    "outward joint": ("outward", JOINT),
    "bait": ("bait", {}),
}
THREADS = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}


def made_rows(path: Path, num_items: int, width: int) -> tuple[MappedRows, Tensor]:
    """Return rows of a file, and the classes of all."""
    draws = np.random.default_rng(0)
    scales = np.linspace(1, 0.1, NUM_HIDDEN)
    means = draws.normal(size=(NUM_CLASSES, NUM_HIDDEN))
    away = draws.normal(size=(NUM_CLUSTERS, NUM_HIDDEN))
    clusters = draws.integers(NUM_CLUSTERS, size=num_items)
    classes = clusters % NUM_CLASSES
    mixing = draws.normal(size=(NUM_HIDDEN, width)) / NUM_HIDDEN**0.5
    rows = np.lib.format.open_memmap(path, "w+", np.float16, (num_items, width))
    for start in range(0, num_items, BLOCK):
        part = slice(start, start + BLOCK)
        hidden = 0.6 * means[classes[part]] + 0.6 * away[clusters[part]]
        hidden = (hidden + draws.normal(size=hidden.shape)) * scales
        noise = 0.2 * draws.normal(size=(len(hidden), width))
        rows[part] = np.maximum(hidden @ mixing + noise, 0)
    rows.flush()
    return MappedRows(np.load(path, mmap_mode="r")), torch.from_numpy(classes)


def with_labels(images: ArrayImages, classes: Tensor, number: int) -> Pool:
    """Return a pool with this many labels."""
    order = torch.randperm(len(classes), generator=rng.stream(0, "labeled"))[:number]
    labels = torch.full((len(classes),), UNKNOWN)
    labels[order] = classes[order]
    names = [str(number) for number in range(NUM_CLASSES)]
    return Pool.build(images, labels, names)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function returns, and the processor seconds that it took."""
    begin = time.process_time()
    found = work()
    return found, round(time.process_time() - begin, 3)


def queried(
    name: str, options: dict[str, Any], classifier: Classifier, pool: Pool
) -> tuple[Query, dict[str, float]]:
    """Return what a strategy chooses, and the seconds that it took."""
    strategy, seconds = strategies.resolve(name, options), []
    for seed in range(NUM_AGAIN + 1):
        draws = rng.stream(seed, "query")
        query, taken = timed(
            lambda draws=draws: strategy.select(classifier, pool, SIZE, draws)
        )
        seconds.append(taken)
    return query, {
        "first_seconds": seconds[0],
        "again_seconds": statistics.median(seconds[1:]),
    }


def measure(name: str) -> dict[str, Any]:
    """Return the seconds of one pool."""
    torch.set_num_threads(1)
    num_items, width, method = POOLS[name]
    with TemporaryDirectory() as folder:
        rows, classes = made_rows(Path(folder) / "rows", num_items, width)
        images = ArrayImages(rows)
        pool = with_labels(images, classes, NUM_LABELED)
        trainer = training.make("blend", search=method)
        nodes = graphs.nodes_of(PoolInputs().of(pool, None), images)
        graph, building = timed(lambda: remembered_graph(nodes, 10, method))
        _, joint = timed(lambda: joint_rows(graph))
        classifier, fit = timed(lambda: trainer.fit(pool, rng.stream(0, "train")))
        again = []
        for number in range(NUM_AGAIN):
            more = with_labels(images, classes, NUM_LABELED + 1 + number)
            again.append(
                timed(lambda more=more: trainer.fit(more, rng.stream(0, "train")))[1]
            )
        found: dict[str, Any] = {
            "search": method,
            "graph_seconds": building,
            "joint_rows_seconds": joint,
            "blend": {
                "fit_seconds": fit,
                "again_seconds": statistics.median(again),
            },
        }
        for title, (kind, options) in QUERIES.items():
            query, found[title] = queried(kind, options, classifier, pool)
            print(name, title, found[title], file=sys.stderr, flush=True)
            if title == "uherding" and num_items == 20_000:
                found[title] |= herding_loss(query, classifier, pool)
            if title == "bait" and num_items == 4_000:
                found[title] |= bait_loss(query, classifier, pool)
    return found


def herding_loss(query: Query, classifier: Classifier, pool: Pool) -> dict[str, float]:
    """Return the covered share, and that of trying every candidate."""

    def exact(*given: Any, rows: Tensor, **others: Any) -> tuple[Tensor, float]:
        del rows
        return search.maximize_coverage(*given, **others)

    with patch("fewlabels.strategies.uherding.maximize_coverage", exact):
        strategy, draws = strategies.resolve("uherding"), rng.stream(0, "query")
        other, taken = timed(lambda: strategy.select(classifier, pool, SIZE, draws))
    common = set(query.indices.tolist()) & set(other.indices.tolist())
    return {
        "covered": float(query.record["covered"]),
        "covered_exact": float(other.record["covered"]),
        "in_common": len(common),
        "exact_seconds": taken,
    }


def bait_loss(query: Query, classifier: Classifier, pool: Pool) -> dict[str, float]:
    """Return what is left of the pool's information, by whole rows."""
    outputs = classifier.outputs(pool.images, torch.arange(len(pool)))
    width = outputs.features.shape[1]
    strategy, draws = strategies.resolve("bait", {"components": width}), rng.stream(0)
    other, taken = timed(lambda: strategy.select(classifier, pool, SIZE, draws))
    order = torch.randperm(len(pool.candidates), generator=rng.stream(0, "random"))
    random = pool.candidates[order[:SIZE]]
    return {
        "left": left(outputs, pool, query.indices),
        "left_exact": left(outputs, pool, other.indices),
        "left_random": left(outputs, pool, random),
        "exact_seconds": taken,
    }


def left(outputs: Outputs, pool: Pool, chosen: Tensor) -> float:
    """Return tr[(I + information of labeled and chosen items)^-1 that of all]."""
    factors = gram.class_factors(outputs.logits)

    def information(items: Tensor, number: int) -> Tensor:
        weighed = factors[items] / number**0.5
        return search.Information(outputs.features[items], weighed).total()

    members = torch.cat([pool.labeled, chosen])
    known = information(pool.labeled, len(members))
    known += information(chosen, len(members)) * len(chosen)
    known.diagonal().add_(1.0)
    target = information(torch.arange(len(pool)), len(pool))
    return float(torch.linalg.solve(known, target).diagonal().sum())


def say(found: dict[str, Any]) -> None:
    """Print the figures as one line of JSON."""
    print(json.dumps(found), flush=True)


def main() -> None:
    """Measure what was asked for, one after the other, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pools", nargs="*", default=list(POOLS))
    kept = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {}
    for name in parser.parse_args().pools:
        code = f"from benchmarks.query_speed import *; say(measure({name!r}))"
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env=os.environ | THREADS,
        )
        kept[name] = json.loads(done.stdout.splitlines()[-1])
        RESULT.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
        print(name, json.dumps(kept[name], indent=2), flush=True)


if __name__ == "__main__":
    main()
