"""A person's project on real images, from the shell: 1,200 digits, 40 labels.

Digits are written as PNG files, 1,200 into the folder of a project and 597 elsewhere.
Then ``init``, three rounds of ``ask``, ``tell`` and ``train``, ``export``, and
``predict`` with the exported model on the 597 that the project never saw; each verb is
a process of its own, and the answers are written into the file that ``ask`` wrote. The
40 labels include the audit slice, a fifth of them unless told otherwise: 8 labels only
measure, and the models learn from 11, 22 and 32.

Run ``python benchmarks/digits_project.py``; three minutes a seed on a free
core. Seeds that are in the file of results are not run again.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

RESULTS = Path(__file__).parent / "results" / "digits_project.jsonl"
NUM_POOL = 1_200
BUDGET = 40
QUERY = 11
NUM_ROUNDS = 3
SEEDS = (0, 1, 2)


def write_digits(seed: int, pool: Path, held_out: Path) -> dict[str, str]:
    """Write all digits as PNG, shuffled; return the class of each file by its name."""
    bunch = load_digits()
    order = np.random.default_rng(seed).permutation(len(bunch.target))
    pixels = np.round(bunch.images * (255 / 16)).astype(np.uint8)
    truth = {}
    for place, index in enumerate(order):
        name = f"{place:04d}.png"
        folder = pool if place < NUM_POOL else held_out
        Image.fromarray(pixels[index]).save(folder / name)
        truth[name] = str(bunch.target[index])
    return truth


def fewlabels(*words: object) -> str:
    """Run a verb of the command line; return what it printed."""
    command = [sys.executable, "-m", "fewlabels", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def fill_in(query: Path, truth: dict[str, str]) -> int:
    """Write the label of every image that is asked about; return how many."""
    with query.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["label"] = truth[row["file_name"]]
    with query.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


def rounds(project: Path, truth: dict[str, str]) -> list[int]:
    """Ask, tell and train three times; return the number of labels of each round."""
    asked = []
    for step in range(NUM_ROUNDS):
        query = project / f"query-{step}.csv"
        fewlabels("ask", project, "--out", query)
        asked.append(fill_in(query, truth))
        fewlabels("tell", project, query, "--annotator", "benchmark")
        print(fewlabels("train", project).strip(), flush=True)
    return asked


def measured(seed: int) -> dict[str, Any]:
    """Return how a whole project ended."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        pool, held_out = Path(place) / "images", Path(place) / "new"
        pool.mkdir()
        held_out.mkdir()
        truth = write_digits(seed, pool, held_out)
        project = Path(place) / "project"
        options = ["--classes", ",".join("0123456789"), "--budget", BUDGET]
        options += ["--query", QUERY, "--seed", seed, "--trainer", "fixmatch-darp"]
        print(fewlabels("init", project, "--images", pool, *options), flush=True)
        asked = rounds(project, truth)
        standing = json.loads(fewlabels("status", project, "--json"))
        fewlabels("export", project, "--out", Path(place) / "export")
        table = Path(place) / "predictions.csv"
        fewlabels("predict", Path(place) / "export/model", held_out, "--out", table)
        with table.open(encoding="utf-8", newline="") as file:
            right = [r["label"] == truth[r["file_name"]] for r in csv.DictReader(file)]
    audited = standing["curve"][-1]["audited"]
    return {
        "seed": seed,
        "labels": sum(asked),
        "trained_on": sum(standing["class_counts"]),
        "rounds": asked,
        "held_out": len(right),
        "accuracy": round(100 * mean(right), 2),
        "audit": [round(100 * audited[name], 1) for name in ("low", "high")],
        "seconds": round(time.perf_counter() - begun, 1),
    }


def main() -> None:
    """Run the seeds that are missing and print all of them with their mean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    lines = (
        arguments.out.read_text("utf-8").splitlines() if arguments.out.exists() else []
    )
    done = {line["seed"]: line for line in map(json.loads, lines)}
    for seed in arguments.seeds:
        if seed not in done:
            done[seed] = measured(seed)
            with arguments.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(done[seed]) + "\n")
        print(json.dumps(done[seed]), flush=True)
    accuracies = [done[seed]["accuracy"] for seed in arguments.seeds]
    print(f"mean of {len(accuracies)} seeds: {mean(accuracies):.2f} %")


if __name__ == "__main__":
    main()
