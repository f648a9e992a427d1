"""Keep what the runs of a benchmark came to, for figures in the documents.

A folder of ``fewlabels bench run`` holds networks and curves of every training; a
record holds what was asked and how accurate each network was, one line per run::

    fewlabels bench run repeated_mnist --out bench
    python benchmarks/recorded.py bench repeated_mnist

writes ``benchmarks/results/repeated_mnist.jsonl``.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fewlabels.experiments.bench import BenchFolder, Results, read_results

RESULTS = Path(__file__).parent / "results"


def lines(results: Results) -> Iterator[dict[str, Any]]:
    """Yield a line for every finished run."""
    for one in results.conditions:
        for cell in one.cells:
            if cell.is_finished:
                yield {
                    "condition": one.condition.name,
                    "strategy": cell.cell.settings.strategy.label,
                    "seed": cell.cell.settings.seed,
                    "start": cell.start,
                    "rounds": [
                        {
                            "num_labeled": line.num_labeled,
                            "accuracy": line.accuracy,
                            "ids": line.ids,
                        }
                        for line in cell.lines
                    ],
                }


def main() -> None:
    """Read the folder and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", type=Path, help="folder of the benchmark")
    parser.add_argument("experiment", help="name of the recipe")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    folder = BenchFolder(arguments.bench)
    results = read_results(folder, folder.experiments()[arguments.experiment])
    path = arguments.out / f"{arguments.experiment}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines(results)))
    print(f"{path}: {results.num_finished} of {len(results.cells)} runs")


if __name__ == "__main__":
    main()
