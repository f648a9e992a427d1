"""What the sets that strategies chose in the study have in common with accuracy.

``FEWLABELS_DATA=DIR python -m benchmarks.study_measures`` looks at every set that was
asked for at once on the screen and writes benchmarks/results/study_measures.jsonl, one
line per set: how novel its items are to each other, how well they cover the pool, how
many classes they meet, and how accurate the learner became. Sets that are in the record
are not measured again.

Shapes: N items, n chosen ones, F features, R spectral rows.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.study import AT_ONCE, ORACLE, RECORD, RESULTS, SOURCES
from scipy.stats import spearmanr
from torch import Tensor

from fewlabels import data, files, rng, training
from fewlabels.experiments.acquisition import hidden
from fewlabels.gram.diffusion import Diffusion, DiffusionRows, diffusion_rows

OUT = RESULTS / "study_measures.jsonl"
_NOISE, _LEAST = 0.01, 1e-12
MEASURED = (
    "smallest eigenvalue",
    "log-determinant",
    "mean distance",
    "trace left",
    "largest eigenvalue left",
    "classes",
)
"""What is compared with accuracy."""
_PLACE = ("data", "pool", "head", "selector")


@lru_cache(maxsize=1)
def seen(name: str, seed: int) -> tuple[Tensor, DiffusionRows]:
    """Return features of a pool as the untrained learner sees it, and its graph."""
    source = next(one for one in SOURCES if one.name == name)
    choice = source.pool(seed)
    pool = hidden(data.load(choice.name, **choice.options), source.num_classes)
    trainer = source.trainer("spreading")
    learner = training.make(trainer.name, **trainer.options)
    classifier = learner.fit(pool, rng.stream(0, "nothing to draw"))
    features = classifier.outputs(pool.images, torch.arange(len(pool))).features
    assert isinstance(features, Tensor)
    return features.double(), diffusion_rows(features, Diffusion())


def measures(features: Tensor, graph: DiffusionRows, items: Tensor) -> dict[str, float]:
    """Return what can be said of a set without its labels.

    Args:
        features: Features of the pool, shape (N, F).
        graph: The pool's graph kernel.
        items: The set, shape (n,).

    Returns:
        Numbers by name.
    """
    chosen, ones = features[items], torch.ones(len(items), 1).double()
    rows = torch.cat([chosen, ones], dim=1)  # the last layer's gradients, bias included
    values = torch.linalg.eigvalsh(rows @ rows.T).clamp(min=_LEAST)
    near = torch.cdist(features, chosen).amin(dim=1)
    left = _left(graph, items)
    return {
        "smallest eigenvalue": float(values[0]),
        "log-determinant": float(values.log().sum()),
        "mean distance": float(near.mean()),
        "trace left": float(left.sum()),
        "largest eigenvalue left": float(left[-1]),
    }


def _left(graph: DiffusionRows, items: Tensor) -> Tensor:
    """Return eigenvalues of the graph kernel that labels of a set leave, shape (R,)."""
    rows, noise = graph.rows, _NOISE + graph.remainder
    precision = torch.eye(rows.shape[1]).double() + rows[items].T @ rows[items] / noise
    root = torch.linalg.cholesky(torch.linalg.inv(precision))
    left: Tensor = torch.linalg.eigvalsh(root.T @ (rows.T @ rows) @ root)
    return left


def lines(record: Path, done: set[tuple[Any, ...]]) -> Iterator[Mapping[str, Any]]:
    """Yield the sets of the screen that were asked for at once and are not measured."""
    classes = {one.name: one.num_classes for one in SOURCES}
    found = [json.loads(text) for text in record.read_text().splitlines()]
    for line in sorted(found, key=lambda one: [str(one[name]) for name in _PLACE]):
        place = tuple(line[name] for name in _PLACE)
        is_wanted = line["query"] == AT_ONCE * classes[line["data"]]
        if line["stage"] != "screen" or line["selector"] == ORACLE or not is_wanted:
            continue
        if place in done:
            continue
        items = torch.tensor(line["items"][0])
        told = measures(*seen(line["data"], line["pool"]), items)
        rounded = {
            name: float(np.format_float_scientific(value, precision=6))
            for name, value in told.items()
        }
        met = {"classes": line["classes"][-1], "accuracy": line["accuracy"][-1]}
        yield {**dict(zip(_PLACE, place, strict=True)), **rounded, **met}


def predictors(path: Path = OUT) -> str:
    """Return what goes along with accuracy among sets asked for at once, in Markdown.

    Over strategies: Spearman's correlation on each pool, and the mean. Within one: on
    each data set over pools, and the mean over strategies and data sets.
    """
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    told = [name for name in MEASURED if all(name in line for line in lines)]
    over, within = (
        [
            [_correlation(group, name) for name in told]
            for group in _groups(lines, by).values()
            if len(group) > 4
        ]
        for by in (("head", "data", "pool"), ("head", "data", "selector"))
    )
    if not over or not within:
        return "There is no record yet.\n"
    rows = [
        f"| {name} | {np.nanmean([one[k] for one in over]):+.2f} "
        f"| {np.nanmean([one[k] for one in within]):+.2f} |"
        for k, name in enumerate(told)
    ]
    head = ["| | over strategies | within a strategy |", "|---|---|---|"]
    count = f"({len(lines)} sets; {len(over)} pools with a learner.)"
    return "\n".join([*head, *rows, "", count, ""])


def _groups(
    lines: Sequence[Mapping[str, Any]], by: Sequence[str]
) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        found[tuple(line[name] for name in by)].append(line)
    return found


def _correlation(lines: Sequence[Mapping[str, Any]], name: str) -> float:
    """Return Spearman's correlation with accuracy; NaN where either is constant."""
    pairs = np.array([(line[name], line["accuracy"]) for line in lines])
    if (np.ptp(pairs, axis=0) == 0).any():
        return float("nan")
    return float(spearmanr(pairs[:, 0], pairs[:, 1]).statistic)


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    before = files.read_entries(arguments.out) if arguments.out.exists() else []
    done = {tuple(line[name] for name in _PLACE) for line in before}
    for line in lines(arguments.record, done):
        files.append_entry(arguments.out, dict(line))


if __name__ == "__main__":
    main()
