"""A Ray cluster: one that somebody runs, or one of this machine for a while.

Needs the extra ``ray``. A cluster that is started here listens to nobody without the
token of whoever started it, and has no dashboard.
"""

import os
import secrets
import signal
import socket
import sys
import sysconfig
import threading
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from fewlabels.errors import FewlabelsError, JobError, Limits, Settings, UsageError
from fewlabels.files import replace_text, wrap_os_errors
from fewlabels.jobs import processes
from fewlabels.jobs.events import Event, call_permitted, outcome

Node = dict[str, Any]
"""A machine of a cluster, as Ray describes it."""

_INHERITED = ("FEWLABELS_DATA", "FEWLABELS_CACHE")  # where data and features are
_USAGE, _LEVEL = "RAY_USAGE_STATS_ENABLED", "RAY_BACKEND_LOG_LEVEL"
_SILENCED = "RAY_DEDUP_LOGS_SKIP_REGEX"
_DEATHS = r"worker died or was killed|Task \w+ failed"  # which are reported by us
_MODE, _TOKEN, _TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_TIMEOUT = 10.0  # seconds
_MAX_LETTERS = 500  # of a message of Ray
_AHEAD = 2  # tasks per core that wait or run, so that results cannot pile up


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Connect to a cluster, or start one; end only what was begun here.

    A Ray that this process is connected to already is used, and left as it is.

    Args:
        address: ``"auto"``, ``"host:port"`` or ``"ray://host:port"``; None: start Ray
            on this machine, for the time of the block.

    Yields:
        The module ``ray``.
    """
    ray = _import_ray()
    if ray.is_initialized():
        yield ray
        return
    quiet = {"log_to_driver": False, "logging_level": "error"}
    with restore_environment(_MODE, _USAGE, _LEVEL):  # Ray sets the mode
        os.environ[_USAGE] = "0"
        os.environ.setdefault(_LEVEL, "fatal")  # what goes wrong is raised, too
        handler = signal.getsignal(signal.SIGTERM)
        try:
            if address is None:
                # Ray asks for a token unless its mode says otherwise, which is for
                # clusters that others protect.
                os.environ.pop(_MODE, None)
                _make_token()
                cores = processes.num_cores()
                ray.init("local", num_cpus=cores, include_dashboard=False, **quiet)
            else:
                # Where nothing listens, Ray tries and logs for minutes.
                host, _, port = address.removeprefix("ray://").rpartition(":")
                if port.isdecimal():
                    place = host, int(port)
                    socket.create_connection(place, timeout=_TIMEOUT).close()
                ray.init(address, **quiet)
        except (OSError, ValueError, RuntimeError) as error:
            if address is None:
                raise
            raise UsageError(
                f"There is no Ray at '{address}': {_message(error)}. Give what 'ray "
                "start' printed; set RAY_AUTH_MODE=token if it has one."
            ) from error
        finally:  # Ray replaces our handler
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)
        try:
            yield ray
        finally:
            ray.shutdown()


@dataclass(frozen=True)
class RayExecutor(Settings):
    """Does calls on the machines of a Ray cluster; see :class:`Executor`.

    A Ray that this process is connected to already is used, and left as it is.
    """

    address: str | None = None
    """``"auto"``, ``"host:port"`` or ``"ray://host:port"``; None: start Ray on this
    machine, for the time of the work."""
    cpus: Annotated[float, Limits(above=0)] = 1
    """Cores of a worker."""
    gpus: Annotated[float, Limits(at_least=0)] = 0.0
    """GPUs of a worker; 0.25 lets four share one."""

    @property
    def num_workers(self) -> int:
        """How many calls are done at a time."""
        is_connected = "ray" in sys.modules and _import_ray().is_initialized()
        if self.address is None and not is_connected:
            import torch

            here = {"CPU": processes.num_cores(), "GPU": torch.cuda.device_count()}
            return self._room({"Resources": here})
        with connected(self.address) as ray:
            return sum(map(self._room, alive(ray)))

    def run(
        self, call: str, orders: Sequence[Mapping[str, Any]], folder: Path
    ) -> Generator[tuple[int, Event]]:
        """Do calls in actors, each of which keeps its process and GPU for the next.

        Ray replaces an actor that dies, on another machine if need be.

        Yields:
            The number of each call with its last event, as it ends.
        """
        if not orders:
            return
        with connected(self.address) as ray:
            nodes = [node for node in alive(ray) if self._room(node)]
            if not nodes:
                sizes = [node["Resources"] for node in alive(ray)]
                seen = [f"{n.get('CPU', 0):g} and {n.get('GPU', 0):g}" for n in sizes]
                raise UsageError(
                    f"A worker needs {self.cpus:g} cores and {self.gpus:g} GPUs, and "
                    f"the machines of the cluster have {', '.join(seen)}; ask for less."
                )
            check_shared(ray, nodes, folder)
            needs = {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_restarts": -1}
            needs |= {"max_task_retries": processes.RETRIES}
            kind = ray.remote(**needs, runtime_env=_runtime_environment())(_Actor)
            size = min(len(orders), sum(map(self._room, nodes)))
            actors = [kind.remote() for _ in range(size)]
            idle, waiting = list(actors), deque(enumerate(orders))
            running: dict[Any, tuple[int, Any]] = {}
            try:
                while waiting or running:
                    while waiting and idle:
                        actor, (number, order) = idle.pop(), waiting.popleft()
                        task = actor.do.remote(call, str(Path.cwd()), dict(order))
                        running[task] = number, actor
                    for actor in idle:  # one that was lost may need its place
                        ray.kill(actor)
                    idle.clear()
                    (done, *_), _ = ray.wait(list(running))
                    number, actor = running.pop(done)
                    idle.append(actor)
                    try:
                        end = ray.get(done)
                    except ray.exceptions.RayError as error:
                        end = processes.lost(f"Ray says: {_message(error)}")
                    yield number, end
            finally:
                for actor in actors:
                    ray.kill(actor)

    def _room(self, node: Node) -> int:
        """Return how many workers fit on a machine."""
        resources = node["Resources"]
        room = resources.get("CPU", 0) / self.cpus
        if self.gpus:
            room = min(room, resources.get("GPU", 0) / self.gpus)
        return int(room)


class _Actor:
    """A process of Ray that does one call after another."""

    def do(self, call: str, place: str, order: dict[str, Any]) -> Event:
        """Do a call in the working folder of who asked for it."""
        with suppress(OSError):
            os.chdir(place)
        return outcome(partial(call_permitted, call, order, allowed=True))


@dataclass(frozen=True)
class RayTasks:
    """Maps as the executors of ``concurrent.futures`` do, by tasks of Ray.

    Each part is a task of one core. Tasks whose worker dies are done again elsewhere.
    """

    ray: Any
    """The module, connected to a cluster."""

    def map(
        self, function: Callable[[Any], Any], parts: Iterable[Any], /
    ) -> Iterator[Any]:
        """Yield what ``function`` makes of each part, in their order."""
        options = {"num_cpus": 1, "max_retries": processes.RETRIES}
        remote = self.ray.remote(**options, runtime_env=_runtime_environment())
        task = remote(lambda function, part: function(part))
        sent = self.ray.put(function)  # once for all parts
        cores = sum(node["Resources"].get("CPU", 0) for node in alive(self.ray))
        running: deque[Any] = deque()
        try:
            for part in parts:
                if len(running) >= _AHEAD * max(1, int(cores)):
                    yield self._result(running.popleft())
                running.append(task.remote(sent, part))
            while running:
                yield self._result(running.popleft())
        finally:
            for unfinished in running:
                self.ray.cancel(unfinished, force=True)

    def _result(self, task: Any) -> Any:
        try:
            return self.ray.get(task)
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, FewlabelsError):
                raise error.cause from error
            raise
        except self.ray.exceptions.RayError as error:
            end = processes.lost(f"Ray says: {_message(error)}")
            raise JobError(end["reason"]) from error


def alive(ray: Any) -> list[Node]:
    """Return the machines of a cluster that are there."""
    return [node for node in ray.nodes() if node["Alive"]]


def _runtime_environment() -> dict[str, Any]:
    """Return how the processes of Ray find our modules and data, with one thread."""
    installed = {*sysconfig.get_paths().values(), sysconfig.get_path("platstdlib")}
    own = [place or str(Path.cwd()) for place in sys.path if place not in installed]
    folders = [place for place in own if Path(place).is_dir()]
    inherited = {key: os.environ[key] for key in _INHERITED if key in os.environ}
    python_path = os.pathsep.join([*folders, "${PYTHONPATH}"])
    variables = processes.ONE_THREAD | inherited | {"PYTHONPATH": python_path}
    return {"env_vars": variables}


def check_shared(ray: Any, nodes: Sequence[Node], folder: Path) -> None:
    """Raise unless all of some machines see what is written to a folder here."""
    scheduling: Any = import_module("ray.util.scheduling_strategies")
    on_node = scheduling.NodeAffinitySchedulingStrategy
    token = uuid.uuid4().hex
    file = folder / f"{token}.token"
    remote = ray.remote(num_cpus=0, runtime_env=_runtime_environment())
    read = remote(lambda path: Path(path).read_text("utf-8"))
    replace_text(file, token)
    blind = []
    try:
        places = [on_node(node["NodeID"], soft=False) for node in nodes]
        pinned = [read.options(scheduling_strategy=place) for place in places]
        answers = [task.remote(str(file)) for task in pinned]
        for node, answer in zip(nodes, answers, strict=True):
            seen = ""
            with suppress(ray.exceptions.RayError):  # no such file, or not our code
                seen = ray.get(answer)
            if seen != token:
                place = node["NodeManagerAddress"]
                blind.append(f"{node['NodeManagerHostname']} ({place})")
    finally:
        file.unlink(missing_ok=True)
    if blind:
        raise UsageError(
            f"'{folder}' is not seen by {'; '.join(blind)}. Give a folder on a disk "
            "shared by all machines of the Ray cluster; each needs fewlabels, too."
        )


def _message(error: BaseException) -> str:
    """Return the message of an error of Ray in one line of limited length."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:_MAX_LETTERS].rstrip(".")


@contextmanager
def restore_environment(*names: str) -> Iterator[None]:
    """Give some environment variables back the values that they have now."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _make_token() -> None:
    """Make a token where there is none; one that Ray makes, all users may read."""
    if os.environ.get(_TOKEN) or os.environ.get(_TOKEN_PATH):
        return
    path = Path.home() / ".ray" / "auth_token"
    with wrap_os_errors(path), suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32))


def _import_ray() -> Any:
    # Ray reads this once, when it is imported; a user's own stays.
    with restore_environment(_SILENCED):
        os.environ.setdefault(_SILENCED, _DEATHS)
        try:
            return import_module("ray")
        except ModuleNotFoundError as error:
            raise UsageError(
                f"Ray cannot be imported ({error}). Run: pip install 'fewlabels[ray]'"
            ) from error
