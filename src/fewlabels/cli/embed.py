"""``fewlabels embed``: images of any number into shards of embeddings."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fewlabels.cli import options
from fewlabels.cli.options import Download, Encoder, Json, Quiet
from fewlabels.cli.terminal import Terminal, print_line
from fewlabels.embedding import Cost, Embedded, Engine, Local, OnRay, estimated, planned
from fewlabels.embedding.embedding import SHARD_SIZE
from fewlabels.embedding.shards import UNREADABLE
from fewlabels.integers import count
from fewlabels.projects.planning import duration


def embed(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="Folder of images, of tar files (WebDataset) or of Parquet tables "
            "with images; a manifest; one such tar file or table.",
        ),
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder of shards; the same resumes.")
    ],
    *,
    encoder: Encoder = None,
    download: Download = False,
    quality: Annotated[
        str | None,
        typer.Option(
            help="Pixels a side: fast (96), normal (160), best (224). [default: what "
            "the encoder takes, or normal]"
        ),
    ] = None,
    shard_size: Annotated[
        int, typer.Option(help="Images in a shard: what is lost if a worker is.")
    ] = SHARD_SIZE,
    engine: options.Engine = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    cpus: Annotated[float, typer.Option(help="Cores per actor with 'ray'.")] = 1.0,
    gpus: Annotated[
        float, typer.Option(help="GPUs per actor with 'ray'; may be a fraction.")
    ] = 0.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Try some images, print the cost, stop.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Turn images into Parquet shards with the columns id and embedding.

    Safe to stop or kill at any time: the same command makes the shards that are
    missing. Unreadable images are listed in unreadable.csv.
    """
    found = options.found_encoder(encoder, download=download)
    chosen = _engine(engine, workers, address, cpus, gpus)
    terminal = Terminal.open(quiet=quiet or as_json)
    with terminal.busy():
        work = planned(
            source, out, encoder=found, quality=quality, shard_size=shard_size
        )
        if dry_run:
            number = Local(workers).num_processes
            _tell_cost(terminal, estimated(work, number), number, as_json=as_json)
            return
        done = work.run(chosen)
    if as_json:
        told = asdict(done) | {"folder": str(done.folder)}
        print_line(json.dumps(told))
    else:
        terminal.result(_described(done))


def _engine(
    engine: str, workers: int | None, address: str | None, cpus: float, gpus: float
) -> Engine:
    on_cluster = {"--address": address, "--gpus": gpus or None}
    on_cluster |= {"--cpus": None if cpus == 1 else cpus}
    options.check_engine(engine, local={"--workers": workers}, ray=on_cluster)
    if engine == "local":
        return Local(workers)
    return OnRay(address, cpus=cpus, gpus=gpus)


def _tell_cost(
    terminal: Terminal, cost: Cost, num_workers: int, *, as_json: bool
) -> None:
    seconds = cost.seconds(num_workers)
    if as_json:
        print_line(json.dumps(asdict(cost) | {"seconds": seconds}))
        return
    terminal.result(
        f"An image takes a worker {1000 * cost.decoding:.2f} ms to read and decode and "
        f"{1000 * cost.embedding:.2f} ms to embed, a shard {1000 * cost.writing:.0f} "
        f"ms to write. {count(cost.num_images, 'image')} on "
        f"{count(num_workers, 'worker')}: {duration(seconds)}, "
        f"{cost.worker_hours:.2g} worker-hours, {cost.num_bytes / 1e6:,.0f} MB of "
        "shards."
    )


def _described(done: Embedded) -> str:
    """Say in a line what came out."""
    found = f", {done.num_found:,} of them made before" if done.num_found else ""
    left = len(done.unreadable)
    rest = f" {count(left, 'image')} in {UNREADABLE} could not be read." if left else ""
    return (
        f"{count(done.num_rows, 'row')} in {count(done.num_shards, 'shard')}{found}: "
        f"{done.folder}.{rest}"
    )
