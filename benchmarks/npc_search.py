"""Every search for the best conditioned set, side by side in one run.

    python benchmarks/npc_search.py            the ratios, JSON and a picture
    python benchmarks/npc_search.py --scale    memory and time at a million rows
    python benchmarks/npc_search.py --busy     the random search at 1, 2 and 4 threads,
                                               with and without other work on all cores

The problem: ten class means N(0, I) in 128 dimensions, features
max(mean + 0.7 N(0, I), 0), 50,000 items, 50 of them labeled, 20 to choose. Rivals are
timed on part of the draws, where the whole would take hours, and scaled up; the part is
printed. Times are those of the processor, so that other work on the machine counts
little; the quick searches are timed three times, and only ratios of one run mean
something.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from multiprocessing import Process
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.sparse.linalg import lobpcg
from torch import Tensor

from fewlabels.gram import LinearKernel, last_layer_kernel
from fewlabels.rng import fork, stream
from fewlabels.search import SearchResult, maximize_smallest_eigenvalue, uniform_subsets

NUM_ITEMS, NUM_LABELED, SIZE = 50_000, 50, 20
NUM_DRAWS = 50_000
NUM_LOBPCG = 200
NUM_TRIES = 5
OUT = Path(__file__).parent / "results"


def features(num_items: int, seed: int) -> Tensor:
    """Return clustered, rectified features."""
    generator = stream(seed, "features")
    means = torch.randn(10, 128, generator=generator)
    classes = torch.randint(10, (num_items,), generator=generator)
    noise = torch.randn(num_items, 128, generator=generator)
    return (means[classes] + 0.7 * noise).clamp_min(0)


def problem(seed: int) -> tuple[LinearKernel, Tensor, Tensor]:
    """Return kernel, labeled items and candidates."""
    kernel = last_layer_kernel(features(NUM_ITEMS, seed), num_classes=10)
    order = torch.randperm(NUM_ITEMS, generator=stream(seed, "labeled"))
    return kernel, order[:NUM_LABELED], order[NUM_LABELED:].sort().values


def joined_grams(kernel: LinearKernel, labeled: Tensor, subsets: Tensor) -> Tensor:
    """Gram matrices of labeled and drawn items, the labeled part computed once."""
    gram_LL = kernel.block(labeled, labeled)
    gram_MQQ = kernel.block(subsets, subsets)
    gram_MLQ = kernel.block(labeled.expand(len(subsets), -1), subsets)
    upper = torch.cat([gram_LL.expand(len(subsets), -1, -1), gram_MLQ], dim=-1)
    return torch.cat([upper, torch.cat([gram_MLQ.mT, gram_MQQ], dim=-1)], dim=-2)


def batched_eigvalsh(kernel: LinearKernel, labeled: Tensor, draws: Tensor) -> Tensor:
    """Smallest eigenvalue of every draw by torch.linalg.eigvalsh, by the thousand."""
    values = [
        torch.linalg.eigvalsh(joined_grams(kernel, labeled, part))[:, 0]
        for part in torch.split(draws, 1000)
    ]
    return torch.cat(values)


def scipy_lobpcg(kernel: LinearKernel, labeled: Tensor, draws: Tensor) -> Tensor:
    """Smallest eigenvalue of every draw by SciPy: one vector, tol 1e-6, 200 turns."""
    start = torch.randn(NUM_LABELED + SIZE, 1, generator=stream(0, "lobpcg")).numpy()
    values = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it seldom converges
        for gram in joined_grams(kernel, labeled, draws):
            found, _ = lobpcg(gram.numpy(), start, largest=False, tol=1e-6, maxiter=200)
            values.append(float(found[0]))
    return torch.tensor(values, dtype=torch.float64)


def measured(work: Callable[[], object]) -> tuple[object, float]:
    """Return what ``work`` gives and how long processors worked on it."""
    begin = time.process_time()
    outcome = work()
    return outcome, time.process_time() - begin


def compare(seed: int) -> dict[str, object]:
    """Time every search on one problem and return the figures."""
    kernel, labeled, candidates = problem(seed)
    key = fork(stream(seed, "draws"))
    draws = uniform_subsets(candidates, SIZE, key, range(NUM_DRAWS))

    def search(method: str) -> SearchResult:
        return maximize_smallest_eigenvalue(
            kernel,
            labeled=labeled,
            candidates=candidates,
            size=SIZE,
            method=method,  # type: ignore[arg-type]
            draws=NUM_DRAWS if method == "random" else None,
            generator=stream(seed, "draws"),
        )

    search("random")  # compiled code is loaded once per process
    found = {}
    for method in ("random", "greedy", "exchange"):
        tries = [measured(lambda method=method: search(method)) for _ in range(3)]
        outcome, seconds = tries[0][0], median(took for _, took in tries)
        found[method] = (outcome, seconds)
        say(f"{method:<10} {seconds:9.2f} s   value {outcome.value:.4f}")
    values, dense_seconds = measured(lambda: batched_eigvalsh(kernel, labeled, draws))
    say(f"eigvalsh   {dense_seconds:9.2f} s   value {float(values.max()):.4f}")
    few = draws[:NUM_LOBPCG]
    rough, part_seconds = measured(lambda: scipy_lobpcg(kernel, labeled, few))
    lobpcg_seconds = part_seconds * NUM_DRAWS / NUM_LOBPCG
    errors = (rough - values[:NUM_LOBPCG]).abs() / values[:NUM_LOBPCG]
    say(f"LOBPCG     {lobpcg_seconds:9.0f} s   from {NUM_LOBPCG} of {NUM_DRAWS} draws")
    random, random_seconds = found["random"]
    best = draws[values.argmax()]
    return {
        "seed": seed,
        "seconds": {
            "lobpcg (scaled up)": lobpcg_seconds,
            "eigvalsh": dense_seconds,
            **{method: seconds for method, (_, seconds) in found.items()},
        },
        "value": {
            "eigvalsh": float(values.max()),
            **{method: outcome.value for method, (outcome, _) in found.items()},
        },
        "ceiling": random.ceiling,
        "share_of_ceiling": {m: o.value / o.ceiling for m, (o, _) in found.items()},
        "refuted": random.num_refuted,
        "lobpcg_largest_relative_error": float(errors.max()),
        "same_subset": bool(
            torch.equal(random.indices.sort().values, best.sort().values)
        ),
        "random_faster_than_eigvalsh": dense_seconds / random_seconds,
        "random_faster_than_lobpcg": lobpcg_seconds / random_seconds,
        "greedy_faster_than_eigvalsh": dense_seconds / found["greedy"][1],
    }


def scale_run(num_items: int) -> dict[str, float]:
    """Measure one search over a memory map in a process of its own."""
    return fresh(f"import benchmarks.npc_search as b; b.scale_worker({num_items})")


def fresh(code: str) -> dict[str, Any]:
    """Run Python code in a process of its own and return what it printed as JSON."""
    limits = {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
        env={name: value for name, value in os.environ.items() if name not in limits},
    )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def scale_worker(num_items: int) -> None:
    """Write features to disk, search with as many draws as rows, print figures."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "features.npy"
        rows = np.lib.format.open_memmap(
            file, mode="w+", dtype=np.float32, shape=(num_items, 128)
        )
        for start in range(0, num_items, 50_000):
            rows[start : start + 50_000] = features(50_000, start).numpy()
        rows.flush()
        del rows
        kernel = last_layer_kernel(np.load(file, mmap_mode="r"), num_classes=10)
        before = peak_gigabytes()
        outcome, seconds = measured(
            lambda: maximize_smallest_eigenvalue(
                kernel,
                labeled=torch.arange(NUM_LABELED),
                candidates=torch.arange(NUM_LABELED, num_items),
                size=SIZE,
                generator=stream(0, "draws"),
            )
        )
    say(
        json.dumps(
            {
                "num_items": num_items,
                "seconds": seconds,
                "peak_gigabytes": peak_gigabytes(),
                "peak_gigabytes_before": before,
                "value": outcome.value,
            }
        )
    )


def thread_worker(threads: int, num_draws: int = NUM_DRAWS) -> None:
    """Search at random with so many threads of torch, and print how long it took."""
    torch.set_num_threads(threads)
    kernel, labeled, candidates = problem(0)

    def search() -> SearchResult:
        return maximize_smallest_eigenvalue(
            kernel,
            labeled=labeled,
            candidates=candidates,
            size=SIZE,
            draws=num_draws,
            generator=stream(0, "draws"),
        )

    search()  # compiled code is loaded once per process
    walls, processors, found = [], [], []
    for _ in range(NUM_TRIES):
        begin = time.perf_counter()
        outcome, seconds = measured(search)
        walls.append(time.perf_counter() - begin)
        processors.append(seconds)
        found.append(outcome.indices.tolist())
    figures = {"wall": walls, "processor": processors, "found": found[0]}
    assert all(one == found[0] for one in found)
    say(json.dumps(figures))


def keep_busy() -> None:
    """Compute until somebody ends this process."""
    while True:
        sum(range(10**6))


def thread_runs(*, is_busy: bool) -> dict[str, dict[str, object]]:
    """Measure the random search at several numbers of threads, one after the other."""
    others = [
        Process(target=keep_busy, daemon=True) for _ in range(os.cpu_count() * is_busy)
    ]
    for other in others:
        other.start()
    found = {}
    try:
        for threads in (1, 2, 4):
            code = f"import benchmarks.npc_search as b; b.thread_worker({threads})"
            found[str(threads)] = fresh(code)
            say(f"busy {is_busy}, threads {threads}: {found[str(threads)]}")
    finally:
        for other in others:
            other.terminate()
    return found


def compare_threads() -> dict[str, object]:
    """Compare numbers of threads, and one thread with the batched eigenvalues."""
    load = os.getloadavg()[0]
    module = "import benchmarks.npc_search as b"
    many = {
        n: fresh(f"{module}; b.thread_worker({n}, {10 * NUM_DRAWS})")["wall"]
        for n in (1, 2)
    }
    say(f"ten times the draws, wall seconds by threads: {many}")
    runs = {"quiet": thread_runs(is_busy=False), "busy": thread_runs(is_busy=True)}
    ratios = {}
    for clock in ("wall", "processor"):
        times = {k: [median(r[clock]) for r in v.values()] for k, v in runs.items()}
        ratios[clock] = {name: max(some) / min(some) for name, some in times.items()}
        everything = [one for some in times.values() for one in some]
        ratios[clock]["all six"] = max(everything) / min(everything)
    sets = {str(r["found"]) for some in runs.values() for r in some.values()}
    torch.set_num_threads(1)
    kernel, labeled, candidates = problem(0)
    key = fork(stream(0, "draws"))
    draws = uniform_subsets(candidates, SIZE, key, range(NUM_DRAWS))
    _, dense = measured(lambda: batched_eigvalsh(kernel, labeled, draws))
    quiet = runs["quiet"].items()
    return {
        "load_before": load,
        "slowest_over_fastest": ratios,
        "same_set": len(sets) == 1,
        "eigvalsh_processor_seconds": dense,
        "faster_than_eigvalsh": {n: dense / median(r["processor"]) for n, r in quiet},
        "wall_seconds_of_ten_times_the_draws": many,
        "runs": runs,
    }


def peak_gigabytes() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def draw(figures: dict[str, object], path: Path) -> None:
    """Draw value against time for every search."""
    picture = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = picture.subplots()
    seconds, values = figures["seconds"], figures["value"]
    names = {
        "lobpcg (scaled up)": "LOBPCG, scaled up",
        "eigvalsh": "dense, batched",
        "random": "refutation, same draws",
        "greedy": "greedy",
        "exchange": "exchange",
    }
    for name, label in names.items():
        value = values.get(name, values["eigvalsh"])
        is_measured = name in values  # LOBPCG tried part of the draws only
        axes.plot(
            seconds[name],
            value,
            "o",
            color="#0b5394",
            markerfacecolor="#0b5394" if is_measured else "none",
            markersize=8,
        )
        axes.annotate(
            label, (seconds[name], value), xytext=(0, 11), textcoords="offset points",
            ha="center",
        )  # fmt: skip
    axes.axhline(figures["ceiling"], color="#888888", linestyle="--", linewidth=1)
    axes.text(0.99, figures["ceiling"], "ceiling", color="#666666", ha="right",
              va="bottom", transform=axes.get_yaxis_transform())  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlabel("processor seconds (log scale, fewer is better)")
    axes.set_ylabel("smallest eigenvalue of the set found")
    axes.margins(x=0.2, y=0.22)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("50,000 items, 50 labeled, 20 to choose, 50,000 draws", loc="left")
    picture.savefig(path, dpi=130)


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


def main() -> None:
    """Run what was asked for and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", action="store_true", help="a million rows instead")
    parser.add_argument("--busy", action="store_true", help="several threads instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    OUT.mkdir(exist_ok=True)
    if options.scale:
        small, large = scale_run(250_000), scale_run(1_000_000)
        ratio = large["seconds"] / (4 * small["seconds"])
        figures = {"small": small, "large": large, "time_over_linear": ratio}
        target = OUT / "npc_scale.json"
    elif options.busy:
        figures = compare_threads()
        target = OUT / "npc_threads.json"
    else:
        figures = compare(options.seed) | {"threads": options.threads}
        target = OUT / "npc_search.json"
        draw(figures, target.with_suffix(".png"))
    text = json.dumps(figures, indent=2)
    target.write_text(text + "\n")
    say(text)


if __name__ == "__main__":
    main()
