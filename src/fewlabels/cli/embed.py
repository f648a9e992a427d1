"""``fewlabels embed``: images of any number into shards of embeddings."""

from dataclasses import asdict
from pathlib import Path

import torch

from fewlabels.cli import options
from fewlabels.cli.terminal import Terminal, print_json
from fewlabels.errors import count
from fewlabels.jobs import LocalExecutor, RayExecutor
from fewlabels.models.bulk import SHARD_SIZE, UNREADABLE, planned
from fewlabels.projects.training_plan import duration


def embed(
    source: Path,
    out: Path,
    *,
    encoder: options.Encoder = None,
    download: options.Download = False,
    quality: str | None = None,
    shard_size: int = SHARD_SIZE,
    engine: options.Engine = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    cpus: float = 1.0,
    gpus: float = 0.0,
    dry_run: bool = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
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
    name = options.found_encoder(encoder, download=download)
    on_cluster = {"--address": address, "--gpus": gpus or None}
    on_cluster |= {"--cpus": None if cpus == 1 else cpus}
    options.check_engine(engine, local={"--workers": workers}, ray=on_cluster)
    terminal = Terminal(quiet or as_json)
    with terminal.busy():
        work = planned(
            source, out, encoder=name, quality=quality, shard_size=shard_size
        )
        here = _local(workers)
        if not dry_run:
            cluster = RayExecutor(address, cpus=cpus, gpus=gpus)
            done = work.run(here if engine == "local" else cluster)
            result, left = asdict(done), len(done.unreadable)
            rows, shards = count(done.num_rows, "row"), count(done.num_shards, "shard")
            before = f", {done.num_found:,} of them made before" * bool(done.num_found)
            words = f"{rows} in {shards}{before}: {done.folder}."
            if left:
                words += f" {count(left, 'image')} in {UNREADABLE} could not be read."
        else:
            number = here.num_workers
            cost = work.estimate(number)
            seconds = cost.seconds(number)
            result = asdict(cost) | {"seconds": seconds}
            words = (
                f"An image takes a worker {1000 * cost.decoding:.2f} ms to read and "
                f"decode and {1000 * cost.embedding:.2f} ms to embed, a shard "
                f"{1000 * cost.writing:.0f} ms to write. "
                f"{count(cost.num_images, 'image')} on {count(number, 'worker')}: "
                f"{duration(seconds)}, {cost.worker_hours:.2g} worker-hours, "
                f"{cost.num_bytes / 1e6:,.0f} MB of shards."
            )
    if as_json:
        print_json(result)
    terminal.result(words)


def _local(workers: int | None) -> LocalExecutor:
    """Return processes of this machine: one by default if it has a GPU."""
    has_gpu = workers is None and torch.cuda.is_available()
    return LocalExecutor(1 if has_gpu else workers)
