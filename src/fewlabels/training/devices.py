"""Where a training runs: in this process, or in one process for each device.

Processes are started here, or by ``torchrun``, which starts the same script on several
machines; each of those processes then calls ``fit``, and gets the outcome.

Each process has a copy of the network and an equal share of every minibatch. Gradients
are averaged by DistributedDataParallel, set up by Lightning Fabric; what else has to
agree goes through :class:`ProcessGroup`.
"""

import contextvars
import copy
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Event
from typing import TYPE_CHECKING, Any, Literal

import torch
from safetensors.torch import load as loaded
from torch import Generator, Tensor, nn
from torch.distributed import is_torchelastic_launched
from torch.multiprocessing.spawn import ProcessException
from torch.nn.parallel import DistributedDataParallel

from fewlabels import progress, rng
from fewlabels.errors import FewlabelsError, TrainingError, UsageError
from fewlabels.models import Network, checkpoint

_POLL_SECONDS = 0.1
_JOIN_TIMEOUT = 10.0

OnCheckpoint = Callable[[int, Network], None]

# Forked processes can neither use CUDA nor follow autograd's threads.
_METHOD: Literal["spawn"] = "spawn"
# The older of the two options is deprecated where there is the newer.
_BUFFER_OPTIONS = ("forward_sync_buffers", "broadcast_buffers")
_KNOWN = signature(DistributedDataParallel).parameters
_OWN_BUFFERS: dict[str, Any] = {next(o for o in _BUFFER_OPTIONS if o in _KNOWN): False}

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from fewlabels import jobs
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

    def wrap(self, module: nn.Module) -> nn.Module:
        """Return a module whose gradients are averaged over all processes."""
        return self.fabric.setup_module(module, move_to_device=False)

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
    fabric = _fabric(task.settings)
    if _is_launched():
        fabric.launch()
    return task.train(ProcessGroup(fabric), network, on_checkpoint)


def is_first() -> bool:
    """Return whether files are this process's to write.

    They are, unless torchrun has started several, and this is not the first of them.
    """
    return not _is_launched() or os.environ["RANK"] == "0"


def _is_launched() -> bool:
    """Return whether torchrun has started this process beside others."""
    return is_torchelastic_launched() and os.environ["WORLD_SIZE"] != "1"


def _fabric(settings: "Schedule") -> "Fabric":
    """Return device, precision and communication; raise if one is missing."""
    # Here, since it takes seconds, and only a training needs it.
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy

    strategy: DDPStrategy | str = "auto"
    num_here, num_nodes = settings.devices, 1
    # Running statistics are averaged after each step, not taken from the first process.
    if _is_launched():
        everywhere = int(os.environ["WORLD_SIZE"])
        num_here = int(os.environ["LOCAL_WORLD_SIZE"])
        if settings.devices != everywhere:
            raise UsageError(
                f"devices is {settings.devices}; give {everywhere}, as for torchrun."
            )
        num_nodes = everywhere // num_here
        strategy = DDPStrategy(**_OWN_BUFFERS)
    elif settings.devices > 1:
        strategy = DDPStrategy(start_method=_METHOD, **_OWN_BUFFERS)
    try:
        return Fabric(
            accelerator=settings.accelerator,
            devices=num_here,
            num_nodes=num_nodes,
            strategy=strategy,
            precision=settings.precision,
        )
    except (RuntimeError, ValueError) as error:
        raise UsageError(
            f"'{settings.accelerator}' cannot train on {settings.devices} devices with "
            f"precision '{settings.precision}': {error} Try accelerator='cpu'."
        ) from error


def _train_in_processes(
    task: "TrainingTask", network: Network, on_checkpoint: OnCheckpoint
) -> Network:
    context = torch.multiprocessing.get_context(_METHOD)
    # One for each process: a process that is killed while it writes blocks no other.
    lines = [context.Pipe() for _ in range(task.settings.devices)]
    stop = context.Event()
    listener = Listener([own for own, _ in lines], network, on_checkpoint, stop)
    failure: Exception | None = None
    with listener.listening():
        try:
            theirs = [other for _, other in lines]
            work = partial(_train_member, task=task, connections=theirs, stop=stop)
            _fabric(task.settings).launch(work)
        except ProcessException as error:
            failure = error
    if listener.error is not None:
        raise listener.error from failure
    if failure is not None or not listener.is_done:
        reason = str(failure).strip().splitlines()[-1] if failure else "no reason given"
        raise TrainingError(
            f"One of {task.settings.devices} processes ended early ({reason}). Run it "
            'again; a script needs if __name__ == "__main__": around its work.'
        ) from failure
    return network


def _train_member(
    fabric: "Fabric",
    *,
    task: "TrainingTask",
    connections: Sequence[Connection],
    stop: Event,
) -> None:
    """Train as one of several processes; the first one reports."""
    from fewlabels.jobs import Sender

    group = ProcessGroup(fabric)
    connection = connections[group.rank]

    def on_interrupt(*_: object) -> None:
        """Leave Ctrl-C to the waiting process, unless that process is gone."""
        parent = parent_process()
        if parent is None or not parent.is_alive():
            raise KeyboardInterrupt

    def send_checkpoint(step: int, network: Network) -> None:
        """Send the averaged network, and wait until it is evaluated."""
        packed = checkpoint.serialized(network.state_dict(), {})
        connection.send({"event": "checkpoint", "step": step, "network": packed})
        if not connection.recv():  # evaluating failed, and the reason is known there
            msg = f"The training was stopped after the checkpoint of step {step}."
            raise TrainingError(msg)

    signal.signal(signal.SIGINT, on_interrupt)
    with ExitStack() as listening:
        if group.rank == 0:
            listening.enter_context(progress.reporting(Sender(connection.send)))
            listening.enter_context(progress.stopping(stop.is_set))
        try:
            average = task.train(group, task.build_network(), send_checkpoint)
        except (FewlabelsError, progress.Canceled) as error:
            connection.send({"event": "failed", "error": error})
            raise TrainingError(str(error)) from error  # which ends the others, too
    if group.rank == 0:
        packed = checkpoint.serialized(average.state_dict(), {})
        connection.send({"event": "trained", "network": packed})


@dataclass
class Listener:
    """Receives in the waiting process what the group sends."""

    connections: Sequence[Connection]
    network: Network
    """Filled with the averaged network at each checkpoint and at the end."""
    on_checkpoint: OnCheckpoint
    stop: Event
    """Tells the group that the training shall stop."""
    error: BaseException | None = None
    """What went wrong first, in a process of the group or in ``on_checkpoint`` here."""
    is_done: bool = False
    """Whether the training is finished and ``network`` is the outcome."""
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Receive messages in a thread while the block runs, to the last one."""
        context, threads = contextvars.copy_context(), torch.get_num_threads()

        def listen() -> None:
            torch.set_num_threads(threads)  # a thread begins with all cores
            self._listen()

        thread = threading.Thread(target=context.run, args=(listen,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(_JOIN_TIMEOUT)  # half a message of a killed process never ends

    def _listen(self) -> None:
        from fewlabels.jobs import Replay

        with closing(Replay()) as replay:
            while (
                ready := wait(self.connections, _POLL_SECONDS)
                or not self._ended.is_set()
            ):
                if progress.is_stopped():
                    self.stop.set()
                if not isinstance(ready, list):
                    continue
                for connection in ready:
                    assert isinstance(connection, Connection)
                    event = connection.recv()
                    self._receive(event, replay)
                    if event["event"] == "checkpoint":
                        connection.send(self.error is None)

    def _receive(self, event: "jobs.Event", replay: "jobs.Replay") -> None:
        try:
            if "network" in event:
                self.network.load_state_dict(loaded(event["network"]))
            if event["event"] == "checkpoint":
                self.on_checkpoint(event["step"], copy.deepcopy(self.network))
            elif event["event"] == "trained":
                self.is_done = True
            elif event["event"] == "failed":
                self.error = self.error or event["error"]
            else:
                replay.hear(event)
        except Exception as error:  # noqa: BLE001 - raised again in the waiting process
            self.error = self.error or error
