"""Memory of a choice among rows that are in a file, each in a fresh process.

    python -m benchmarks.mapped_rows        4,000,000 rows against 400,000; 2 GB of disk

The problem is that of ``npc_search``, its rows as a float32 memory map: 128 features,
50 items labeled, 20 to choose, as many draws as candidates, one thread. What is told is
the largest resident memory of the process as Linux counts it (VmHWM), pages of the file
and libraries included, with its two parts at the end: RssAnon, what the process
allocated, and RssFile, pages of files. The file is written by a process before.
"""

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from benchmarks.npc_search import NUM_LABELED, SIZE, features, say

import fewlabels
from fewlabels.gram import last_layer_kernel

CHUNK = 50_000
RESULT = Path(__file__).parent / "results" / "mapped_rows.json"


def write(path: Path, num_items: int) -> None:
    """Write the features to a file, a chunk at a time."""
    rows = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.float32, shape=(num_items, 128)
    )
    for start in range(0, num_items, CHUNK):
        part = rows[start : start + CHUNK]
        part[:] = features(len(part), start).numpy()
    rows.flush()


def memory() -> dict[str, float]:
    """Return what Linux says about this process's memory, in gigabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    known = {"VmHWM", "RssAnon", "RssFile"}
    entries = (line.split(":") for line in lines if line.split(":")[0] in known)
    return {name: int(value.split()[0]) * 1024 / 1e9 for name, value in entries}


def worker(path: str) -> None:
    """Choose once and print the figures as JSON."""
    torch.set_num_threads(1)
    rows = np.load(path, mmap_mode="r")
    kernel_bytes = len(pickle.dumps(last_layer_kernel(rows, num_classes=10)))
    before = memory()
    begin, wall = time.process_time(), time.perf_counter()
    chosen = fewlabels.select(
        "npc", features=rows, labeled=np.arange(NUM_LABELED), size=SIZE, seed=0
    )
    figures = {
        "num_items": len(rows),
        "processor_seconds": time.process_time() - begin,
        "wall_seconds": time.perf_counter() - wall,
        "gigabytes_before": before,
        "gigabytes": memory(),
        "pickled_kernel_bytes": kernel_bytes,
        "num_distinct": len(set(chosen.tolist())),
    }
    say(json.dumps(figures))


def fresh(code: str) -> str:
    """Run Python code in a process of its own and return what it printed last."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    return (done.stdout.splitlines() or [""])[-1]


def measured(num_items: int) -> dict[str, float]:
    """Write a file, choose among its rows and remove it."""
    module = "from pathlib import Path; import benchmarks.mapped_rows as b"
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "features.npy")
        fresh(f"{module}; b.write(Path({path!r}), {num_items})")
        figures: dict[str, float] = json.loads(fresh(f"{module}; b.worker({path!r})"))
    say(json.dumps(figures))
    return figures


def main() -> None:
    """Measure both sizes and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs=2, default=[400_000, 4_000_000])
    options = parser.parse_args()
    small, large = map(measured, options.rows)
    rise = large["gigabytes"]["VmHWM"] - small["gigabytes"]["VmHWM"]
    figures = {"small": small, "large": large, "gigabytes_above_small": rise}
    RESULT.write_text(json.dumps(figures, indent=2) + "\n")
    say(f"{rise:.2f} GB above the smaller one")


if __name__ == "__main__":
    main()
