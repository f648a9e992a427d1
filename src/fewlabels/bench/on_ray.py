"""Runs on many machines, through Ray; needs the extra ``ray``.

All machines share the folder of the benchmark. Ray knows where there is room, replaces
workers that die, and moves runs away from machines that are gone; the runs go on there
where their files say.
"""

import os
import signal
import socket
import sys
import sysconfig
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from fewlabels.bench.cells import Cell
from fewlabels.bench.engines import Ended
from fewlabels.bench.folder import BenchFolder, Failure
from fewlabels.bench.local import ONE_THREAD, WORK, arguments, num_cores
from fewlabels.bench.ray_tasks import content, do_run
from fewlabels.errors import UsageError
from fewlabels.files import replace_text
from fewlabels.runs.surroundings import restored

_HANDED_ON = ("FEWLABELS_DATA", "FEWLABELS_CACHE")  # where data and features are
_USAGE = "RAY_USAGE_STATS_ENABLED"
_SILENCED = "RAY_DEDUP_LOGS_SKIP_REGEX"
_DEATHS = "worker died or was killed|Task do_run failed"  # what is told by us, in time
_PATIENCE = 10.0  # seconds
_LONGEST = 500  # letters of what Ray has to say


@dataclass(frozen=True)
class RayEngine:
    """Does runs on the machines of a Ray cluster.

    A Ray that this process is connected to already is used, and left as it is.
    """

    address: str | None = None
    """``"auto"``, ``"host:port"`` or ``"ray://host:port"``; None: start Ray on this
    machine, for the time of the runs."""
    cpus: float = 1
    """Cores of one run."""
    gpus: float = 0.0
    """GPUs of one run; 0.25 lets four runs share one."""
    retries: int = 3
    """How often a run is tried again whose worker died."""
    work: str = WORK
    """Import path of what does a run; only tests have reason to change it."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be meant."""
        if self.cpus <= 0 or self.gpus < 0 or self.retries < 0:
            raise UsageError(
                f"A run was given {self.cpus} cores, {self.gpus} GPUs and "
                f"{self.retries} retries; give more than 0 cores, and no less than 0 "
                "of the others."
            )

    @property
    def num_workers(self) -> int:
        """How many runs are done at a time."""
        if self.address is None and not _is_connected():
            here = {"CPU": num_cores(), "GPU": torch.cuda.device_count()}
            return self._room(here)
        with self._connected() as ray:
            return sum(self._room(node["Resources"]) for node in _alive(ray))

    def run(
        self, cells: Sequence[Cell], root: Path, *, tensorboard: bool = False
    ) -> Iterator[Ended]:
        """Do runs in the folder of a benchmark; yield each as it ends.

        Args:
            cells: The runs.
            root: The folder of the benchmark, under this path on all machines.
            tensorboard: Write the curves of trainings for TensorBoard too.

        Yields:
            Each run, finished or failed.
        """
        if not cells:
            return
        folder = BenchFolder(root.absolute())
        with self._connected() as ray:
            self._check_nodes(ray, folder.path)
            task = self._task(ray)
            running = {}
            try:
                for cell in cells:
                    order = arguments(cell, folder.path, tensorboard=tensorboard)
                    running[task.remote(self.work, str(Path.cwd()), order)] = cell
                while running:
                    (done, *_), _ = ray.wait(list(running))
                    yield self._ended(ray, done, running.pop(done), folder)
            finally:
                for unfinished in running:
                    ray.cancel(unfinished, force=True)

    def _task(self, ray: Any) -> Any:
        """Return what Ray calls on some machine."""
        with_options = ray.remote(
            num_cpus=self.cpus,
            num_gpus=self.gpus,
            max_retries=self.retries,
            # A process keeps its data for the next run, but must let go of a GPU.
            max_calls=1 if self.gpus else 0,
            runtime_env=_environment(),
        )
        return with_options(do_run)

    def _ended(self, ray: Any, done: Any, cell: Cell, folder: BenchFolder) -> Ended:
        """Return how a run has ended; write down what its worker could not."""
        try:
            return Ended(cell, error=ray.get(done))
        except ray.exceptions.RayError as lost:
            error = _told_loss(ray, lost, self.retries + 1)
        folder.write_failure(cell, Failure(label=cell.label, error=error))
        return Ended(cell, error=error)

    def _room(self, resources: Mapping[str, float]) -> int:
        """Return how many runs fit on a machine."""
        room = resources.get("CPU", 0) / self.cpus
        if self.gpus:
            room = min(room, resources.get("GPU", 0) / self.gpus)
        return int(room)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Connect to the cluster, or start one; end only what was begun here."""
        ray = _ray()
        if ray.is_initialized():
            yield ray
            return
        with restored("RAY_AUTH_MODE"):  # which Ray sets
            with _own_sigterm(), restored(_USAGE):
                os.environ[_USAGE] = "0"
                self._connect(ray)
            try:
                yield ray
            finally:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        quiet = {"log_to_driver": False, "logging_level": "error"}
        if self.address is None:
            here = {"num_cpus": num_cores(), "include_dashboard": False}
            ray.init("local", **here, **quiet)
            return
        try:
            _reach(self.address)
            ray.init(self.address, **quiet)
        except (OSError, ValueError, RuntimeError) as error:
            reason = _short(error)
            raise UsageError(
                f"There is no Ray at '{self.address}': {reason}. Start it with 'ray "
                "start --head' and give what that prints, set RAY_AUTH_MODE=token here "
                "too if the cluster wants a token, or leave the address out to use "
                "this machine alone."
            ) from error

    def _check_nodes(self, ray: Any, root: Path) -> None:
        """Raise unless a run fits somewhere, and all such nodes see the folder."""
        nodes = [node for node in _alive(ray) if self._room(node["Resources"])]
        if not nodes:
            most = [node["Resources"] for node in _alive(ray)]
            found = [f"{n.get('CPU', 0):g} and {n.get('GPU', 0):g}" for n in most]
            raise UsageError(
                f"A run needs {self.cpus:g} cores and {self.gpus:g} GPUs, and no "
                f"machine of the Ray cluster has that many: {', '.join(found)}. Ask "
                "for less."
            )
        blind = _blind(ray, nodes, root)
        if blind:
            raise UsageError(
                f"The folder '{root}' must be shared by all machines of the Ray "
                f"cluster, under this path. It is not seen by: {'; '.join(blind)}. "
                "Give a folder on a shared disk, with fewlabels installed everywhere."
            )


def _blind(ray: Any, nodes: Sequence[dict[str, Any]], root: Path) -> list[str]:
    """Return the names of nodes that do not see what is written to a folder here."""
    affinity = import_module("ray.util.scheduling_strategies")
    token = uuid.uuid4().hex
    file = root / f"{token}.token"
    task, environment = ray.remote(content), _environment()
    replace_text(file, token)
    try:
        asked = []
        for node in nodes:
            there = affinity.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            pinned = task.options(
                num_cpus=0, runtime_env=environment, scheduling_strategy=there
            )
            name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
            asked.append((name, pinned.remote(str(file))))
        return [name for name, answer in asked if not _is(ray, answer, token)]
    finally:
        file.unlink(missing_ok=True)


def _is(ray: Any, answer: Any, token: str) -> bool:
    with suppress(ray.exceptions.RayError):  # a node that cannot even run our code
        return bool(ray.get(answer) == token)
    return False


def _reach(address: str) -> None:
    """Raise at once if nobody listens; Ray tries for minutes, and talks meanwhile."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()


def _alive(ray: Any) -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _environment() -> dict[str, Any]:
    """Return how the processes of Ray find our modules and data, with one thread."""
    installed = {*sysconfig.get_paths().values(), sysconfig.get_path("platstdlib")}
    own = [place or str(Path.cwd()) for place in sys.path if place not in installed]
    folders = [place for place in own if Path(place).is_dir()]
    handed_on = {key: os.environ[key] for key in _HANDED_ON if key in os.environ}
    python_path = os.pathsep.join([*folders, "${PYTHONPATH}"])
    return {"env_vars": {**ONE_THREAD, **handed_on, "PYTHONPATH": python_path}}


def _told_loss(ray: Any, lost: Exception, times: int) -> str:
    """Say that a run has no answer, and what to do."""
    if isinstance(lost, ray.exceptions.RayTaskError):
        return f"The run could not be started on its machine: {_short(lost.cause)}"
    often = f"{times} times" if times > 1 else "once"
    return (
        f"The worker of this run died {often}, most often because memory ran out or a "
        "machine was lost. Run the same command again with fewer runs at a time on a "
        "machine (more cores or GPUs for each); the run resumes from its last "
        f"checkpoint. Ray says: {_short(lost)}"
    )


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:_LONGEST].rstrip(".")


def _is_connected() -> bool:
    """Return whether this process has a connection to Ray already."""
    return "ray" in sys.modules and bool(_ray().is_initialized())


def _ray() -> ModuleType:
    # Ray reads this once, when it is imported; a user's own stays.
    with restored(_SILENCED):
        os.environ.setdefault(_SILENCED, _DEATHS)
        return _imported()


def _imported() -> ModuleType:
    try:
        return import_module("ray")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"Runs on many machines need Ray, which cannot be imported ({error}). "
            "Run: pip install 'fewlabels[ray]'"
        ) from error


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep our way to end: Ray puts its own into the process that starts it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
