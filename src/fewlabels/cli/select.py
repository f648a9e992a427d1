"""``fewlabels select``: bring your own embeddings."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from fewlabels.cli import options
from fewlabels.cli.terminal import Terminal, print_json, print_line
from fewlabels.data.shards import Shards
from fewlabels.data.untrusted import read_npz
from fewlabels.errors import DataError, UsageError, check_range
from fewlabels.names import DEFAULT_STRATEGY, check_known
from fewlabels.progress import Mapper
from fewlabels.search.blocks import local_processes
from fewlabels.strategies.arrays import select as select_from_arrays
from fewlabels.strategies.shards import select_shards

_Array = Literal["features", "logits", "labeled", "labels", "candidates"]


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
    quiet: options.Quiet = False,
    as_json: options.Json = False,
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
    given: dict[str, Any] = {"size": size, "seed": seed}
    given["options"] = options.read_options(option)
    own = {"--processes": None if processes == 1 else processes}
    options.check_engine(engine, local=own, ray={"--address": address})
    check_range("processes", processes, at_least=1)
    terminal = Terminal(quiet or as_json)
    result: dict[str, Any] = {"strategy": strategy}
    if source.is_dir():
        shards = Shards.open(source)
        with terminal.busy(), _executor(engine, processes, address, shards) as executor:
            selection = select_shards(
                strategy, shards, labels=labels, executor=executor, **given
            )
        chosen: Sequence[str | int] = selection.ids
        result |= {"ids": chosen, "record": selection.record}
    else:
        if labels is not None or engine != "local" or processes != 1:
            raise UsageError(
                f"'{source}' is a file: leave --labels, --engine, --processes out."
            )
        with terminal.busy():
            arrays = read_npz(source)
            for name in arrays:
                check_known(f"array of '{source.name}'", name, _Array)
            if "features" not in arrays:
                raise DataError(f"'{source}' has no 'features', only {sorted(arrays)}.")
            chosen = select_from_arrays(strategy, **{**arrays, **given}).tolist()
        result["indices"] = chosen
    if as_json:
        print_json(result)
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
    from fewlabels.jobs.cluster import RayTasks, alive, check_shared, connected

    with connected(address) as ray:
        if address is not None:
            shards.embeddings()  # so that its folder is there
            check_shared(ray, alive(ray), shards.map_file.parent)
        yield RayTasks(ray)
