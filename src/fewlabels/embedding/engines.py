"""Where portions are done: processes of this machine, or a Ray cluster.

Both do the same, one thread at a time on each core, so a row is the same to its last
bit whoever made it.
"""

import json
import logging
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from fewlabels.embedding.shards import counted
from fewlabels.embedding.work import Decoded, Order, decoded, embed_portion, finished
from fewlabels.errors import FewlabelsError, JobError, UnreadableFile, UsageError
from fewlabels.jobs import cluster, error_of, words_for_death
from fewlabels.jobs.several import side_by_side
from fewlabels.jobs.surroundings import num_cores

Done = dict[str, Any]
"""What came of an order: its ``number``, and what took how long."""

_CALL = "fewlabels.embedding.work:embed_portion"


class Engine(Protocol):
    """Does orders side by side; one whose worker is lost is done again."""

    def run(self, orders: Sequence[Order], out: Path) -> Generator[Done]:
        """Do orders, which write to a folder; yield each as it is done."""
        ...


@dataclass(frozen=True)
class Local:
    """Processes of this machine."""

    num_workers: int | None = None
    """How many; None: one for each core or, where there are GPUs, one."""
    retries: int = 3
    """How often an order is begun again whose process died."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be meant."""
        if self.num_workers is not None and self.num_workers < 1:
            raise UsageError(
                f"The number of workers is {self.num_workers}; give at least one."
            )

    @property
    def num_processes(self) -> int:
        """How many there are."""
        return self.num_workers or (1 if torch.cuda.is_available() else num_cores())

    def run(self, orders: Sequence[Order], out: Path) -> Generator[Done]:
        """Do orders in processes with one thread each; yield each as it is done."""
        del out
        calls = [{"order": order} for order in orders]
        ended = side_by_side(_CALL, calls, self.num_processes, retries=self.retries)
        with closing(ended):
            for number, event, times in ended:
                if event["event"] == "died":
                    raise JobError(
                        lost(times, ", ".join(words_for_death(event["code"])))
                    )
                if event["event"] != "done":
                    raise error_of(event)
                yield {**event["result"], "number": number}


@dataclass(frozen=True)
class OnRay:
    """A Ray cluster: paths go in, and shards are written where the work is done.

    Without GPUs, an actor decodes and embeds a portion. With GPUs, cores anywhere in
    the cluster decode, and actors with a GPU embed what comes through the object store;
    Ray Data holds decoding back while that is full.
    """

    address: str | None = None
    """``"auto"`` or ``"host:port"``; None: start Ray on this machine for the work."""
    cpus: float = 1
    """Cores of an actor."""
    gpus: float = 0.0
    """GPUs of an actor; 0.25 lets four share one."""
    retries: int = 3
    """How often a portion is done again whose actor died."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be meant."""
        if self.cpus <= 0 or self.gpus < 0:
            raise UsageError(
                f"An actor was given {self.cpus:g} cores and {self.gpus:g} GPUs; give "
                "more than 0 cores, and no less than 0 GPUs."
            )

    def run(self, orders: Sequence[Order], out: Path) -> Generator[Done]:
        """Do orders on the cluster; yield each as it is done."""
        with cluster.connected(self.address) as ray:
            size = cluster.checked_room(ray, "An actor", self.cpus, self.gpus, out)
            # Here, since it takes seconds.
            from ray.data import ActorPoolStrategy, DataContext, from_items

            logging.getLogger("ray.data").setLevel(logging.ERROR)
            DataContext.get_current().enable_progress_bars = False  # we have our own
            bounded = [order | {"retries": self.retries} for order in orders]
            rows = [{"order": json.dumps(order)} for order in bounded]
            data: Any = from_items(rows, override_num_blocks=len(rows))
            surroundings = cluster.environment()
            if self.gpus:
                data = data.map(
                    _decoded_row,
                    num_cpus=1,
                    runtime_env=surroundings,
                )
            data = data.map(
                _Actor,
                compute=ActorPoolStrategy(min_size=1, max_size=size),
                num_cpus=self.cpus,
                num_gpus=self.gpus,
                runtime_env=surroundings,
            )
            numbers = {order["file"]: number for number, order in enumerate(orders)}
            try:
                for row in data.iter_rows():
                    yield {**row, "number": numbers[row["file"]]}
            except ray.exceptions.RayTaskError as error:
                raise _cause(error) from error
            except ray.exceptions.RayError as error:
                raise JobError(
                    f"Ray has given up: {cluster.short(error)}. Finished shards are "
                    "kept; run the same command again."
                ) from error


class _Actor:
    """A process of Ray that does portions; it keeps its encoder."""

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Do a portion, or what is left to do with a decoded one."""
        order = json.loads(row["order"])
        file = order["file"]
        with counted(Path(file)) as times:  # Ray itself would never give up
            if times > order["retries"]:
                raise JobError(lost(times, "Ray has lost them"))
            if "ids" not in row:
                return embed_portion(order) | {"file": file}
            left = json.loads(row["unreadable"])
            images = Decoded(
                tuple(json.loads(row["ids"])),
                np.array(row["pixels"]),  # those of the object store are not ours
                tuple(UnreadableFile(**one) for one in left),
                row["decoding"],
            )
            return finished(order, images) | {"file": file}


def _decoded_row(row: dict[str, Any]) -> dict[str, Any]:
    """Decode a portion, for an actor that may be elsewhere."""
    order = json.loads(row["order"])
    images = decoded(order["portion"], order["side"])
    return {
        "order": row["order"],
        "ids": json.dumps(images.ids),
        "pixels": images.pixels,
        "unreadable": json.dumps([asdict(one) for one in images.unreadable]),
        "decoding": images.seconds,
    }


def _cause(error: Any) -> FewlabelsError:
    """Return what went wrong in a process of Ray, as it would have been told here."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, FewlabelsError):
            return cause
        cause = getattr(cause, "cause", None) or cause.__cause__
    return JobError(f"A worker failed: {cluster.short(error)}")


def lost(times: int, reason: str) -> str:
    """Say that the worker of a shard died again and again, and what to do."""
    return (
        f"The worker of a shard died {times} times ({reason}), most often because "
        "memory ran out. Run the same command again with fewer workers at a time, or "
        "make smaller shards in a new folder; finished shards are kept."
    )
