"""``fewlabels embed, select``: images to embeddings, embeddings to a choice."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch

from fewlabels.cli import options
from fewlabels.cli.terminal import print_line
from fewlabels.data.shards import Shards
from fewlabels.data.untrusted import read_npz
from fewlabels.errors import DataError, UsageError, check_range, count
from fewlabels.jobs import LocalExecutor, RayExecutor
from fewlabels.models.bulk import SHARD_SIZE, UNREADABLE, planned
from fewlabels.names import DEFAULT_STRATEGY, check_known
from fewlabels.progress import Mapper, duration
from fewlabels.search.blocks import local_processes
from fewlabels.strategies.arrays import select as select_from_arrays
from fewlabels.strategies.shards import select_shards

_Array = Literal["features", "logits", "labeled", "labels", "candidates"]


def embed(
    source: Path,
    out: Path,
    *,
    encoder: options.Encoder = None,
    quality: str | None = None,
    shard_size: int = SHARD_SIZE,
    engine: options.Engine = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    cpus: float = 1.0,
    gpus: float = 0.0,
    dry_run: bool = False,
    terminal: options.QuietOrJson,
) -> None:
    """Turn images into Parquet shards with the columns id and embedding.

    Safe to stop or kill at any time: the same command makes the shards that are
    missing. Unreadable images are listed in unreadable.csv.

    Options:
        source: Folder of images, of tar files (WebDataset) or of Parquet tables with
            images; a manifest; one such tar file or table.
        out: Folder of shards; the same resumes.
        quality: Pixels a side: fast (96), normal (160), best (224). [default: what the
            encoder takes, or normal]
        shard_size: Images in a shard: what is lost if a worker is.
        cpus: Cores per actor with 'ray'.
        gpus: GPUs per actor with 'ray'; may be a fraction.
        dry_run: Try some images, print the cost, stop.
    """
    reserved = {"--gpus": gpus or None, "--cpus": None if cpus == 1 else cpus}
    on_cluster = {"--address": address, **reserved}
    options.check_engine(engine, local={"--workers": workers}, ray=on_cluster)
    if workers is None and torch.cuda.is_available():
        workers = 1  # processes would share the GPU
    here = LocalExecutor(workers)
    work = planned(source, out, encoder=encoder, quality=quality, shard_size=shard_size)
    if dry_run:
        cost, processes = work.estimate(here.num_workers), here.num_workers
        seconds = cost.seconds(processes)
        result = asdict(cost) | {"seconds": seconds}
        words = (
            f"{count(cost.num_images, 'image')} on {count(processes, 'worker')}: "
            f"{duration(seconds)}, {cost.worker_hours:.2g} worker-hours, "
            f"{cost.num_bytes / 1e6:,.0f} MB of shards."
        )
    else:
        cluster = RayExecutor(address, cpus=cpus, gpus=gpus)
        done = work.run(here if engine == "local" else cluster)
        result, left = asdict(done), len(done.unreadable)
        rows, shards = count(done.num_rows, "row"), count(done.num_shards, "shard")
        before = f", {done.num_found:,} of them made before" if done.num_found else ""
        words = f"{rows} in {shards}{before}: {done.folder}."
        if left:
            words += f" {count(left, 'image')} in {UNREADABLE} could not be read."
    terminal.json(result)
    terminal.result(words)


def select(
    source: Path,
    *,
    strategy: options.StrategyName = DEFAULT_STRATEGY,
    option: options.StrategyOptions = None,
    size: int = 20,
    seed: int = 0,
    labels: Path | None = None,
    engine: str = "local",
    processes: int = 1,
    address: options.Address = None,
    terminal: options.QuietOrJson,
) -> None:
    """Choose which items to label next, from embeddings of any framework.

    Prints the chosen indices, one per line; of shards, the chosen ids.

    Options:
        source (FEATURES.npz|SHARDS/): Arrays: features (N, F); optional logits (N, C),
            labeled, labels, candidates (indices). Or a folder of Parquet shards: id,
            embedding; optional logits, label.
        size: How many items to choose.
        seed: Random seed.
        labels (FILE.csv): For shards: labeled items, columns id and, if classes count,
            label.
        engine: For shards: local, or ray for a cluster.
        processes: For shards: processes of this machine.
    """
    given: Any = {"size": size, "seed": seed, "options": options.read_options(option)}
    own = {"--processes": None if processes == 1 else processes}
    options.check_engine(engine, local=own, ray={"--address": address})
    check_range("processes", processes, at_least=1)
    result: dict[str, Any] = {"strategy": strategy}
    if source.is_dir():
        shards = Shards.open(source)
        with _executor(engine, processes, address, shards) as executor:
            given |= {"labels": labels, "executor": executor}
            selection = select_shards(strategy, shards, **given)
        chosen: Sequence[str | int] = selection.ids
        result |= {"ids": chosen, "record": selection.record}
    else:
        if labels is not None or engine != "local" or processes != 1:
            raise UsageError(
                f"'{source}' is a file: leave --labels, --engine, --processes out."
            )
        if not source.exists():
            raise DataError(
                f"'{source}' does not exist; give an .npz file that has 'features', or "
                "a folder of shards."
            )
        arrays = read_npz(source)
        for name in arrays:
            check_known(f"array of '{source.name}'", name, _Array)
        if "features" not in arrays:
            raise DataError(f"'{source}' has no 'features', only {sorted(arrays)}.")
        chosen = select_from_arrays(strategy, **{**arrays, **given}).tolist()
        result["indices"] = chosen
    terminal.json(result)
    if not terminal.as_json:
        print_line("\n".join(map(str, chosen)))


@contextmanager
def _executor(
    engine: str, processes: int, address: str | None, shards: Shards
) -> Iterator[Mapper | None]:
    """Yield who does the parts of a choice; None: this process."""
    if engine == "local":
        with local_processes(processes) as executor:
            yield executor
        return
    from fewlabels.jobs.cluster import RayTasks, alive, check_shared, connected

    with connected(address) as ray:
        if address is not None:
            shards.embeddings()  # so that its folder is there
            check_shared(ray, alive(ray), shards.map_file.parent)
        yield RayTasks(ray)
