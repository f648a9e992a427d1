"""``fewlabels select``: bring your own embeddings."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from fewlabels.cli.options import (
    Address,
    Json,
    Quiet,
    StrategyName,
    StrategyOptions,
    check_engine,
    read_options,
)
from fewlabels.cli.terminal import Terminal, print_line
from fewlabels.data.npz import read_npz
from fewlabels.data.shards import Shards
from fewlabels.errors import DataError, UnknownNameError, UsageError
from fewlabels.naming import DEFAULT_STRATEGY
from fewlabels.search.workers import check_processes, local_processes
from fewlabels.sharing import Mapper
from fewlabels.strategies.arrays import select as select_from_arrays
from fewlabels.strategies.shards import select_shards

_ARRAYS = ("features", "logits", "labeled", "labels", "candidates")


def select(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FEATURES.npz|SHARDS/",
            help="Arrays: features (N, F); optional logits (N, C), labeled, labels, "
            "candidates (indices). Or a folder of Parquet shards: id, embedding; "
            "optional logits, label.",
        ),
    ],
    *,
    strategy: StrategyName = DEFAULT_STRATEGY,
    option: StrategyOptions = None,
    size: Annotated[int, typer.Option(help="How many items to choose.")] = 20,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="For shards: labeled items, columns id and, if classes count, label.",
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="For shards: local, or ray for a cluster.")
    ] = "local",
    processes: Annotated[
        int, typer.Option(help="For shards: processes of this machine.")
    ] = 1,
    address: Address = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Choose which items to label next, from embeddings of any framework.

    Prints the chosen indices, one per line; of shards, the chosen ids.
    """
    options = read_options(option)
    own = {"--processes": None if processes == 1 else processes}
    check_engine(engine, local=own, ray={"--address": address})
    check_processes(processes)
    terminal = Terminal.open(quiet=quiet or as_json)
    if not source.is_dir():
        if labels is not None or engine != "local" or processes != 1:
            raise UsageError(
                f"--labels, --engine and --processes are for folders of shards, and "
                f"'{source}' is none. Leave them out; arrays may hold 'labeled'."
            )
        with terminal.busy():
            given = _read(source)
            chosen = select_from_arrays(
                strategy, **given, size=size, seed=seed, options=options
            ).tolist()
        _print(strategy, "indices", chosen, as_json=as_json)
        return
    shards = Shards.open(source)
    with terminal.busy(), _executor(engine, processes, address, shards) as executor:
        found = select_shards(
            strategy,
            shards,
            labels=labels,
            size=size,
            seed=seed,
            options=options,
            executor=executor,
        )
    _print(strategy, "ids", found.ids, as_json=as_json, record=found.record)


def _print(
    strategy: str, name: str, chosen: list[Any], *, as_json: bool, **more: Any
) -> None:
    if as_json:
        print_line(json.dumps({"strategy": strategy, name: chosen, **more}))
    else:
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
    from fewlabels.jobs.cluster import alive, check_seen, connected
    from fewlabels.jobs.tasks import RayTasks

    with connected(address) as ray:
        if address is not None:
            shards.embeddings()  # so that its folder is there
            check_seen(ray, alive(ray), shards.map_file.parent)
        yield RayTasks(ray)


def _read(path: Path) -> dict[str, Any]:
    """Read the arrays of an .npz file and check their names."""
    given: dict[str, Any] = read_npz(path)
    for name in given:
        if name not in _ARRAYS:
            raise UnknownNameError(f"array of '{path.name}'", name, _ARRAYS)
    if "features" not in given:
        raise DataError(
            f"'{path}' contains {sorted(given)}; an array called 'features' is needed. "
            "Save it with numpy.savez(path, features=..., labeled=...)."
        )
    return given
