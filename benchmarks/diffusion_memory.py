"""Memory of the diffusion kernel and of a query over it, each in a fresh process.

    OMP_NUM_THREADS=1 python -m benchmarks.diffusion_memory     10,000 and 100,000 rows

Rows are 64 random numbers in single precision around ten centers. What is told is the
largest resident memory of the process as Linux counts it (VmHWM), less what it had with
its rows and libraries before; a small problem comes first, so that all are loaded.
"""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from benchmarks.mapped_rows import fresh

import fewlabels
from fewlabels.gram import diffusion_kernel

WIDTH, NUM_CENTERS, NUM_LABELED, SIZE = 64, 10, 10, 20
NUM_ITEMS = (10_000, 100_000)
WORKS = ("kernel", "query")
RESULT = Path(__file__).parent / "results" / "diffusion_memory.json"


def made(num_items: int) -> torch.Tensor:
    """Return rows around centers."""
    draws = torch.Generator().manual_seed(0)
    rows = torch.randn(num_items, WIDTH, generator=draws)
    rows += 2 * torch.randn(NUM_CENTERS, WIDTH, generator=draws).repeat(
        num_items // NUM_CENTERS, 1
    )
    return rows


def kernel(rows: torch.Tensor) -> None:
    """Build the kernel."""
    diffusion_kernel(rows)


def query(rows: torch.Tensor) -> None:
    """Choose by ``outward``; the kernel is built on the way."""
    fewlabels.select(
        "outward",
        features=rows,
        labeled=range(NUM_LABELED),
        size=SIZE,
        seed=0,
        options={"max_pool": len(rows)},
    )


def memory(name: str) -> int:
    """Return what Linux says about this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


def worker(work: str, num_items: int) -> None:
    """Do one thing and print the figures as JSON."""
    torch.set_num_threads(1)
    rows = made(num_items)
    globals()[work](made(2000))
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, began = memory("VmRSS"), time.process_time()
    globals()[work](rows)
    figures = {
        "megabytes": round((memory("VmHWM") - before) / 1e6, 1),
        "megabytes_of_rows": rows.nbytes / 1e6,
        "processor_seconds": round(time.process_time() - began, 1),
    }
    print(json.dumps(figures))


def main() -> None:
    """Measure both at both sizes, all at a time, and keep the figures."""
    code = "import benchmarks.diffusion_memory as b; b.worker"
    calls = [f"{code}({work!r}, {n})" for work in WORKS for n in NUM_ITEMS]
    with ThreadPoolExecutor() as threads:
        told = iter([json.loads(line) for line in threads.map(fresh, calls)])
    found: dict[str, dict[str, Any]] = {}
    for work in WORKS:
        found[work] = {str(n): next(told) for n in NUM_ITEMS}
        small, large = (found[work][str(n)]["megabytes"] for n in NUM_ITEMS)
        found[work]["ratio"] = round(large / small, 2)
    RESULT.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
