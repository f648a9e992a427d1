"""Where a training runs: in this process, or in one process for each device.

Processes are started here, or by ``torchrun``, which starts the same script on several
machines; each of those processes then calls ``fit``, and gets the outcome. Processes
that are started here have the environment that ``torchrun`` would give them.

Each process has a copy of the network and an equal share of every minibatch. Gradients
are averaged by DistributedDataParallel, set up by Lightning Fabric; what else has to
agree goes through :class:`ProcessGroup`.
"""

import copy
import os
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from inspect import signature
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Event
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load as loaded
from torch import Generator, Tensor
from torch.distributed import is_torchelastic_launched
from torch.multiprocessing.spawn import ProcessException, start_processes
from torch.nn.parallel import DistributedDataParallel

from fewlabels import progress, rng
from fewlabels.errors import FewlabelsError, TrainingError, UsageError
from fewlabels.models import Network, checkpoint

_POLL_SECONDS = 0.1

OnCheckpoint = Callable[[int, Network], None]

# Forked processes can neither use CUDA nor follow autograd's threads.
_METHOD = "spawn"
# The older of the two options is deprecated where there is the newer.
_BUFFER_OPTIONS = ("forward_sync_buffers", "broadcast_buffers")
_KNOWN = signature(DistributedDataParallel).parameters
_OWN_BUFFERS: dict[str, Any] = {next(o for o in _BUFFER_OPTIONS if o in _KNOWN): False}

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from fewlabels.training.loop import Schedule
    from fewlabels.training.training import TrainingTask


@dataclass(frozen=True, eq=False)
class ProcessGroup:
    """This process among those that train the same network."""

    fabric: "Fabric"
    """Device, precision and communication."""

    @property
    def rank(self) -> int:
        """Number of this process, from zero."""
        return self.fabric.global_rank

    @property
    def size(self) -> int:
        """Number of processes."""
        return self.fabric.world_size

    @property
    def device(self) -> torch.device:
        """Where this process computes."""
        return self.fabric.device

    def stream(self, key: int, purpose: str, step: int) -> Generator:
        """Return this process's generator; the first draws as a single one would."""
        return rng.stream(key, purpose, step, *([self.rank] if self.rank else []))

    def share(self, items: Tensor) -> Tensor:
        """Return this process's part of the items of a minibatch."""
        return items.tensor_split(self.size)[self.rank]

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all processes, in the order of their items."""
        if self.size == 1:
            return rows
        every = self.fabric.all_gather(rows)
        assert isinstance(every, Tensor)
        return every.flatten(0, 1)

    def average_(self, tensors: Iterable[Tensor]) -> None:
        """Replace floating-point tensors by their mean over all processes, in place."""
        if self.size == 1:
            return
        for tensor in tensors:
            if tensor.is_floating_point():
                mean = self.fabric.all_reduce(tensor.clone(), reduce_op="mean")
                assert isinstance(mean, Tensor)
                tensor.copy_(mean)


def train_on_devices(
    task: "TrainingTask", network: Network, on_checkpoint: OnCheckpoint
) -> Network:
    """Return the averaged network of a training on the devices of its settings."""
    if task.settings.devices > 1 and not _is_launched():
        return _train_in_processes(task, network, on_checkpoint)
    return task.train(_group(task.settings), network, on_checkpoint)


def is_first() -> bool:
    """Return whether files are this process's to write.

    They are, unless torchrun has started several, and this is not the first of them.
    """
    return not _is_launched() or os.environ["RANK"] == "0"


def _is_launched() -> bool:
    """Return whether this process was started beside others."""
    return is_torchelastic_launched() and os.environ["WORLD_SIZE"] != "1"


def _group(settings: "Schedule") -> ProcessGroup:
    """Join the other processes, if there are any; raise if the device is missing."""
    # Here, since it takes seconds, and only a training needs it.
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy

    strategy: DDPStrategy | str = "auto"
    num_here = num_everywhere = 1
    if _is_launched():
        num_everywhere = int(os.environ["WORLD_SIZE"])
        num_here = int(os.environ["LOCAL_WORLD_SIZE"])
        if settings.devices != num_everywhere:
            raise UsageError(
                f"devices is {settings.devices}; give {num_everywhere}, as for "
                "torchrun."
            )
        # Running statistics are averaged after each step, not taken from the first.
        strategy = DDPStrategy(**_OWN_BUFFERS)
    try:
        fabric = Fabric(
            accelerator=settings.accelerator,
            devices=num_here,
            num_nodes=num_everywhere // num_here,
            strategy=strategy,
            precision=settings.precision,
        )
    except (RuntimeError, ValueError) as error:
        raise UsageError(
            f"'{settings.accelerator}' cannot train on {settings.devices} devices with "
            f"precision '{settings.precision}': {error} Try accelerator='cpu'."
        ) from error
    fabric.launch()
    return ProcessGroup(fabric)


def _train_in_processes(
    task: "TrainingTask", network: Network, on_checkpoint: OnCheckpoint
) -> Network:
    """Start a process for each device, and report what they send."""
    from fewlabels.jobs import Replay

    number = task.settings.devices
    context = torch.multiprocessing.get_context(_METHOD)
    # One for each process: a process that is killed while it writes blocks no other.
    pipes = [context.Pipe() for _ in range(number)]
    other_ends, stop = [other for _, other in pipes], context.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    arguments = task, other_ends, stop, port
    group: Any = start_processes(  # type: ignore[no-untyped-call]
        _train_member, arguments, number, join=False, start_method=_METHOD
    )
    for connection in other_ends:
        connection.close()  # half a message of a killed process ends then
    try:
        with closing(Replay()) as replay:
            for connection, event in _received(group, [own for own, _ in pipes]):
                if progress.is_stopped():
                    stop.set()
                if event["event"] == "failed":
                    raise event["error"]
                if "network" in event:
                    network.load_state_dict(loaded(event["network"]))
                if event["event"] == "checkpoint":
                    on_checkpoint(event["step"], copy.deepcopy(network))
                    connection.send(None)
                replay.receive(event)
    finally:
        for process in group.processes:
            process.kill()
    return network


def _received(
    group: Any, connections: list[Connection]
) -> Iterator[tuple[Connection, dict[str, Any]]]:
    """Yield what processes send until all have ended; raise if one ended early."""
    is_running, failure = True, None
    while is_running:
        try:
            is_running = not group.join(timeout=0)
        except ProcessException as error:
            is_running, failure = False, error
        while ready := wait(connections, _POLL_SECONDS if is_running else 0):
            for connection in ready:
                assert isinstance(connection, Connection)
                try:
                    event = connection.recv()
                except (EOFError, ConnectionResetError):
                    connections.remove(connection)
                else:
                    yield connection, event
    if failure is not None:
        reason = str(failure).strip().splitlines()[-1]
        raise TrainingError(
            f"One of {len(group.processes)} processes ended early ({reason}). Run it "
            'again; a script needs if __name__ == "__main__": around its work.'
        ) from failure


def _train_member(
    rank: int,
    task: "TrainingTask",
    connections: list[Connection],
    stop: Event,
    port: int,
) -> None:
    """Train as one of several processes; the first one reports."""
    from fewlabels.jobs import Sender

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the waiting process decides
    size, own = len(connections), connections.pop(rank)
    for other in connections:
        other.close()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // size))
    os.environ |= {
        "TORCHELASTIC_RUN_ID": "fewlabels",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(size)),
        **dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)),
    }

    def send(event: str, network: Network, step: int = 0) -> None:
        """Send the averaged network."""
        packed = checkpoint.serialized(network.state_dict(), {})
        own.send({"event": event, "step": step, "network": packed})

    def send_checkpoint(step: int, network: Network) -> None:
        """Send the averaged network, and wait until it is evaluated."""
        send("checkpoint", network, step)
        own.recv()

    with ExitStack() as reporting:
        if rank == 0:
            reporting.enter_context(progress.reporting(Sender(own.send)))
            reporting.enter_context(progress.stopping(stop.is_set))
        try:
            group = _group(task.settings)
            average = task.train(group, task.build_network(), send_checkpoint)
        except (FewlabelsError, progress.Canceled) as error:
            own.send({"event": "failed", "error": error})
            raise TrainingError(str(error)) from error  # which ends the others, too
    if rank == 0:
        send("trained", average)
