"""Embedding many files: what it costs against the estimate, and what Ray makes of it.

    python -m benchmarks.embedding FOLDER       20,000 files, two cores, 15 minutes
    python -m benchmarks.embedding FOLDER --only cost    one of the two parts

Images of CIFAR-10 are written as PNG files and embedded by efficientnet-lite0 at 96
pixels: by two processes of this machine, after an estimate from 128 images for each;
and by two Ray nodes of one core each on this machine, of which one loses its worker
(SIGKILL) on the way. Ids and rows have to be those of the local run. The estimate is
extrapolated to more images.
"""

import argparse
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from PIL import Image

import fewlabels
from fewlabels.jobs import Executor, LocalExecutor, RayExecutor
from fewlabels.models.bulk import Work, planned

RESULT = Path(__file__).parent / "results" / "embedding.json"
WORKERS, SHARD = 2, 512
KILLED_AFTER = 5  # shards


def write_images(folder: Path, number: int) -> None:
    """Write the first images of CIFAR-10, a thousand to a folder."""
    images = fewlabels.load("cifar10").images
    for start in range(0, number, 1000):
        part = folder / f"{start // 1000:03d}"
        part.mkdir(parents=True, exist_ok=True)
        some = torch.arange(start, min(start + 1000, number))
        for place, pixels in zip(some.tolist(), images.read(some).numpy(), strict=True):
            picture = Image.fromarray(pixels.transpose(1, 2, 0))
            picture.save(part / f"{place:06d}.png")


def rows_of(folder: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Return ids and rows of all shards, in order."""
    tables = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    ids = [name for table in tables for name in table["id"].to_pylist()]
    rows = [np.stack(table["embedding"].to_numpy()) for table in tables if len(table)]
    return ids, np.concatenate(rows)


class Recorded(LocalExecutor):
    """Processes of this machine, and what each call returned."""

    def run(self, *order: Any) -> Generator[tuple[int, dict[str, Any]]]:
        """Do calls and remember their results."""
        self.results: list[dict[str, float]] = []
        for number, end in super().run(*order):
            self.results.append(end["result"])
            yield number, end


def timed(work: Work, executor: Executor) -> float:
    """Return the seconds that a work takes."""
    begun = time.perf_counter()
    work.run(executor)
    return time.perf_counter() - begun


@contextmanager
def nodes() -> Iterator[Any]:
    """Run two Ray nodes on this machine; hand them out."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, include_dashboard=False)
        yield cluster
    finally:
        cluster.shutdown()


def actors(cluster: Any) -> list[int]:
    """Return the processes of a cluster that embed."""
    found = []
    raylets = {
        one.process.pid
        for node in cluster.list_all_nodes()
        for one in node.all_processes["raylet"]
    }
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            name = (folder / "cmdline").read_text()
        except (OSError, ValueError):
            continue
        if parent in raylets and "_Actor" in name:
            found.append(int(folder.name))
    return found


def kill_one(cluster: Any, out: Path, killed: list[int]) -> None:
    """Wait for some shards, then kill a process that embeds."""
    while len(list(out.glob("*.parquet"))) < KILLED_AFTER:
        time.sleep(0.1)
    victim = actors(cluster)[0]
    os.kill(victim, signal.SIGKILL)
    killed.append(len(list(out.glob("*.parquet"))))


def compared(local: Path, other: Path) -> dict[str, Any]:
    """Return how the rows of two folders of shards differ."""
    (ids, rows), (their_ids, their_rows) = rows_of(local), rows_of(other)
    number = len(their_ids)
    return {
        "rows": number,
        "ids_more_than_once": sum(n > 1 for n in Counter(their_ids).values()),
        "same_ids": ids[:number] == their_ids,
        "rows_that_differ": int((rows[:number] != their_rows).any(axis=1).sum()),
        "largest_difference": float(np.abs(rows[:number] - their_rows).max()),
    }


def images_in(place: Path, name: str, number: int) -> Path:
    """Return a folder of images, written unless it is there."""
    folder = place / name
    if not folder.exists():
        write_images(place / "partial", number)
        (place / "partial").rename(folder)
    return folder


def work(source: Path, out: Path) -> Work:
    """Return what is to be done, always the same but for the place."""
    return planned(source, out, quality="fast", shard_size=SHARD)


def cost_of(place: Path, number: int) -> dict[str, Any]:
    """Estimate, embed on this machine, and compare."""
    made = work(images_in(place, "images", number), place / "local")
    load = os.getloadavg()[0]
    cost = made.estimate(WORKERS)
    executor = Recorded(WORKERS)
    seconds = timed(made, executor)
    processor = sum(one["processor"] for one in executor.results)
    return {
        "images": number,
        "encoder": made.plan["encoder"],
        "workers": WORKERS,
        "shard_size": SHARD,
        "others_on_the_machine": load,
        "cost": vars(cost) | {"per_image": cost.per_image},
        "predicted_seconds": cost.seconds(WORKERS),
        "measured_seconds": seconds,
        "off_by": cost.seconds(WORKERS) / seconds - 1,
        "predicted_processor_seconds": number * cost.processor,
        "measured_processor_seconds": processor,
        "processor_off_by": number * cost.processor / processor - 1,
        "shard_bytes": sum(f.stat().st_size for f in (place / "local").iterdir()),
        "images_per_processor_second": 1 / cost.processor,
        "extrapolated": {
            f"{many:.0e}": {
                "processor_hours": many * cost.processor / 3600,
                "gigabytes": many * cost.row_bytes / 1e9,
            }
            for many in (10**7, 10**9)
        },
    }


def on_two_nodes(place: Path, number: int) -> dict[str, Any]:
    """Embed on two nodes, kill a worker on the way, and compare."""
    out, killed = place / "ray", list[int]()
    with nodes() as cluster:
        arguments = (cluster, out, killed)
        threading.Thread(target=kill_one, args=arguments, daemon=True).start()
        made = work(images_in(place, "images", number), out)
        seconds = timed(made, RayExecutor(cluster.address))
    told = {"nodes": 2, "seconds": seconds, "killed_after_shards": killed}
    return told | compared(place / "local", out)


def main() -> None:
    """Do all or a part of it, and add that to the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("place", type=Path, help="folder for images and shards")
    parser.add_argument("--only", choices=("cost", "ray"))
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    place, out = arguments.place, arguments.out
    place.mkdir(parents=True, exist_ok=True)
    for name, measure, number in (
        ("cost", cost_of, arguments.images),
        ("ray", on_two_nodes, arguments.images),
    ):
        if arguments.only in {None, name}:
            before = json.loads(out.read_text()) if out.exists() else {}
            told = measure(place, number)
            print(name, json.dumps(told, indent=2))
            out.write_text(json.dumps(before | {name: told}, indent=2) + "\n")


if __name__ == "__main__":
    main()
