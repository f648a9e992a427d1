"""Where a training runs: in this process, or in one process for each device."""

import contextvars
import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from safetensors.torch import load as loaded
from torch.multiprocessing.spawn import ProcessException
from torch.nn.parallel import DistributedDataParallel

from fewlabels import progress
from fewlabels.errors import FewlabelsError, TrainingError, UsageError
from fewlabels.models import Network, checkpoint
from fewlabels.training.distributed import ProcessGroup
from fewlabels.training.settings import TrainingSettings

_GLANCE = 0.1
_PATIENCE = 10.0

OnCheckpoint = Callable[[int, Network], None]

# Forked processes can neither use CUDA nor follow autograd's threads.
_METHOD: Literal["spawn"] = "spawn"
# The older of the two words is deprecated where there is the newer.
_NEWER, _OLDER = "forward_sync_buffers", "broadcast_buffers"
_HAS_NEWER = _NEWER in signature(DistributedDataParallel).parameters
_OWN_BUFFERS: dict[str, Any] = {_NEWER if _HAS_NEWER else _OLDER: False}

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Trainable(Protocol):
    """A training that some processes do together; it can be sent to them."""

    @property
    def settings(self) -> TrainingSettings:
        """The settings."""
        ...

    def untrained(self) -> Network:
        """Return the network before the first step."""
        ...

    def train(
        self, group: ProcessGroup, network: Network, on_checkpoint: OnCheckpoint
    ) -> Network:
        """Train as one process of a group and return the averaged network."""
        ...


def trained(task: Trainable, network: Network, on_checkpoint: OnCheckpoint) -> Network:
    """Do a training on the devices of its settings.

    Args:
        task: The training.
        network: The untrained network; it is used up.
        on_checkpoint: Called in this process with the step and the averaged network.

    Returns:
        The averaged network, in this process.
    """
    if task.settings.devices == 1:
        return task.train(ProcessGroup(_fabric(task.settings)), network, on_checkpoint)
    return _trained_by_several(task, network, on_checkpoint)


def _fabric(settings: TrainingSettings) -> "Fabric":
    """Return device, precision and communication, or say what is not there."""
    # Here, since it takes seconds, and only a training needs it.
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy

    strategy: DDPStrategy | str = "auto"
    if settings.devices > 1:
        # Running statistics are averaged after each step, not taken from the first.
        strategy = DDPStrategy(start_method=_METHOD, **_OWN_BUFFERS)
    try:
        return Fabric(
            accelerator=settings.accelerator,
            devices=settings.devices,
            strategy=strategy,
            precision=settings.precision,
        )
    except (RuntimeError, ValueError) as error:
        msg = (
            f"Training cannot use accelerator '{settings.accelerator}' with "
            f"{settings.devices} devices and precision '{settings.precision}': {error} "
            'Choose what this machine has; accelerator="cpu" works everywhere.'
        )
        raise UsageError(msg) from error


def _trained_by_several(
    task: Trainable, network: Network, on_checkpoint: OnCheckpoint
) -> Network:
    context = torch.multiprocessing.get_context(_METHOD)
    # One for each process: a process that is killed while it writes blocks no other.
    lines = [context.Pipe() for _ in range(task.settings.devices)]
    listener = Listener([own for own, _ in lines], network, on_checkpoint)
    failure: Exception | None = None
    with listener.listening():
        try:
            theirs = [other for _, other in lines]
            work = partial(_member, task=task, connections=theirs)
            _fabric(task.settings).launch(work)
        except ProcessException as error:
            failure = error
    if listener.error is not None:
        raise listener.error from failure
    if failure is not None or not listener.is_done:
        reason = str(failure).strip().splitlines()[-1] if failure else "no reason given"
        msg = (
            f"One of the {task.settings.devices} processes of the training ended early "
            f"({reason}). Run the same again: with a workspace, it goes on from the "
            "last saved state. A script that trains on several devices needs "
            'if __name__ == "__main__": around its work.'
        )
        raise TrainingError(msg) from failure
    return network


def _member(
    fabric: "Fabric", *, task: Trainable, connections: Sequence[Connection]
) -> None:
    """Train as one of several processes; the first one tells of it."""
    group = ProcessGroup(fabric)
    relay = Relay(connections[group.rank])
    listening: AbstractContextManager[None] = nullcontext()
    if group.rank == 0:
        listening = progress.reporting(relay)
    try:
        with listening:
            average = task.train(group, task.untrained(), relay.checkpoint)
    except FewlabelsError as error:
        relay.send("error", error)
        raise
    if group.rank == 0:
        relay.send("done", _packed(average))


def _packed(network: Network) -> bytes:
    return checkpoint.serialized(network.state_dict(), {})


@dataclass(frozen=True)
class Relay:
    """Sends what happens in a process of the group to the one that waits."""

    connection: Connection

    def send(self, kind: str, *content: Any) -> None:
        """Send a message."""
        self.connection.send((kind, *content))

    def start(self, task: str, total: int, done: int) -> int:
        """Send that a task begins."""
        self.send("start", task, total, done)
        return 0

    def advance(self, handle: int, amount: int) -> None:
        """Send that some units are done."""
        del handle
        self.send("advance", amount)

    def tell(self, step: int, figures: Mapping[str, float]) -> None:
        """Send figures."""
        self.send("tell", step, dict(figures))

    def finish(self, handle: int) -> None:
        """Send that the task ended."""
        del handle
        self.send("finish")

    def checkpoint(self, step: int, network: Network) -> None:
        """Send the averaged network, and wait until it was looked at.

        Nothing past this step may be saved before that.

        Args:
            step: How many steps are done.
            network: The averaged network.

        Raises:
            TrainingError: If whoever looked at it failed; the reason is known there.
        """
        self.send("checkpoint", step, _packed(network))
        if not self.connection.recv():
            msg = f"The training was stopped after the checkpoint of step {step}."
            raise TrainingError(msg)


@dataclass
class Listener:
    """Hears in the waiting process what the group sends."""

    connections: Sequence[Connection]
    network: Network
    """Filled with the averaged network at each checkpoint and at the end."""
    on_checkpoint: OnCheckpoint
    error: Exception | None = None
    """What went wrong first, in a process of the group or in ``on_checkpoint`` here."""
    is_done: bool = False
    """Whether the training is finished and ``network`` is the outcome."""
    _ended: threading.Event = field(default_factory=threading.Event)
    _tracks: ExitStack = field(default_factory=ExitStack)
    _advance: progress.Advance | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear messages in a thread while the block runs, to the last one."""
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
            thread.join(_PATIENCE)  # half a message of a killed process never ends

    def _listen(self) -> None:
        with self._tracks:
            while ready := wait(self.connections, _GLANCE) or not self._ended.is_set():
                if not isinstance(ready, list):
                    continue
                for connection in ready:
                    assert isinstance(connection, Connection)
                    kind, *content = connection.recv()
                    self._hear(kind, *content)
                    if kind == "checkpoint":
                        connection.send(self.error is None)

    def _hear(self, kind: str, *content: Any) -> None:
        hearings: dict[str, Callable[..., None]] = {
            "start": self._start,
            "advance": self._advance_by,
            "tell": progress.tell,
            "finish": self._tracks.close,
            "checkpoint": self._checkpoint,
            "error": self._fail,
            "done": self._finish,
        }
        try:
            hearings[kind](*content)
        except Exception as error:  # noqa: BLE001 - raised again by whoever waits
            self.error = self.error or error

    def _start(self, task: str, total: int, done: int) -> None:
        track = progress.track(task, total, done=done)
        self._advance = self._tracks.enter_context(track)

    def _advance_by(self, amount: int) -> None:
        assert self._advance is not None
        self._advance(amount)

    def _checkpoint(self, step: int, packed: bytes) -> None:
        self._fill(packed)
        self.on_checkpoint(step, copy.deepcopy(self.network))

    def _fail(self, error: FewlabelsError) -> None:
        self.error = self.error or error

    def _finish(self, packed: bytes) -> None:
        self._fill(packed)
        self.is_done = True

    def _fill(self, packed: bytes) -> None:
        self.network.load_state_dict(loaded(packed))
