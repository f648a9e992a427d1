"""NPC among ten million rows of a file against one million, each in a fresh process.

    python -m benchmarks.ten_million        5 GB of disk, in a folder that is removed

The rows are those of ``mapped_rows``: 128 float32 features, 50 items labeled; 200 are
chosen, on one thread. 250 items are more than 129 gradient features can tell apart, so
the kernel is that of the wide head. There is one draw for every thousand rows, where
the paper has one for every row: a draw of 200 items costs milliseconds, and what grows
otherwise with the file (reading, norms, ranks) should be seen too. Memory is what Linux
counts as resident, pages of the file included (VmHWM).
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from benchmarks.mapped_rows import fresh, memory
from benchmarks.npc_search import NUM_LABELED, say

from fewlabels.strategies.arrays import select

SIZE, ROWS_PER_DRAW = 200, 1000
RESULT = Path(__file__).parent / "results" / "ten_million.json"


def worker(path: str, num_items: int) -> None:
    """Choose once among the first rows of a file and print the figures as JSON."""
    torch.set_num_threads(1)
    rows = np.load(path, mmap_mode="r")[:num_items]
    begin, wall = time.process_time(), time.perf_counter()
    draws = num_items // ROWS_PER_DRAW
    chosen = select(
        "npc",
        features=rows,
        labeled=np.arange(NUM_LABELED),
        size=SIZE,
        seed=0,
        options={"draws": draws},
    )
    figures = {
        "num_items": num_items,
        "draws": draws,
        "processor_seconds": time.process_time() - begin,
        "wall_seconds": time.perf_counter() - wall,
        "gigabytes": memory(),
        "num_distinct": len(set(chosen.tolist())),
    }
    say(json.dumps(figures))


def main() -> None:
    """Write the file, measure both sizes and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs=2, default=[1_000_000, 10_000_000])
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    small, large = options.rows
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "features.npy")
        writing = "from pathlib import Path; import benchmarks.mapped_rows as b"
        fresh(f"{writing}; b.write(Path({path!r}), {large})")
        found = []
        for num_items in (small, large):
            code = (
                f"import benchmarks.ten_million as b; b.worker({path!r}, {num_items})"
            )
            found.append(json.loads(fresh(code)))
            say(json.dumps(found[-1]))
    times = [one["processor_seconds"] for one in found]
    ratio = times[1] / times[0] / (large / small)
    figures = {
        "size": SIZE,
        "num_labeled": NUM_LABELED,
        "small": found[0],
        "large": found[1],
        "of_linear": ratio,
    }
    options.out.write_text(json.dumps(figures, indent=2) + "\n")
    say(f"{ratio:.2f} of linear")


if __name__ == "__main__":
    main()
