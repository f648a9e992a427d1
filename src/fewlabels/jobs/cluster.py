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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from fewlabels.errors import UsageError
from fewlabels.files import explained, replace_text
from fewlabels.jobs.surroundings import ONE_THREAD, num_cores, restored

Node = dict[str, Any]
"""A machine of a cluster, as Ray tells of it."""

_HANDED_ON = ("FEWLABELS_DATA", "FEWLABELS_CACHE")  # where data and features are
_USAGE = "RAY_USAGE_STATS_ENABLED"
_LEVEL = "RAY_BACKEND_LOG_LEVEL"
_SILENCED = "RAY_DEDUP_LOGS_SKIP_REGEX"
_DEATHS = r"worker died or was killed|Task \w+ failed"  # what is told by us, in time
_MODE, _TOKEN, _TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_PATIENCE = 10.0  # seconds
_LONGEST = 500  # letters of what Ray has to say


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
    ray = _ray()
    if ray.is_initialized():
        yield ray
        return
    with restored(_MODE):  # which Ray sets
        with _own_sigterm(), restored(_USAGE), restored(_LEVEL), _silence():
            os.environ[_USAGE] = "0"
            os.environ.setdefault(_LEVEL, "fatal")  # what goes wrong is raised, too
            _connect(ray, address)
        try:
            yield ray
        finally:
            ray.shutdown()


def is_connected() -> bool:
    """Return whether this process has a connection to Ray already."""
    return "ray" in sys.modules and bool(_ray().is_initialized())


def alive(ray: Any) -> list[Node]:
    """Return the machines of a cluster that are there."""
    return [node for node in ray.nodes() if node["Alive"]]


def environment() -> dict[str, Any]:
    """Return how the processes of Ray find our modules and data, with one thread."""
    installed = {*sysconfig.get_paths().values(), sysconfig.get_path("platstdlib")}
    own = [place or str(Path.cwd()) for place in sys.path if place not in installed]
    folders = [place for place in own if Path(place).is_dir()]
    handed_on = {key: os.environ[key] for key in _HANDED_ON if key in os.environ}
    python_path = os.pathsep.join([*folders, "${PYTHONPATH}"])
    return {"env_vars": {**ONE_THREAD, **handed_on, "PYTHONPATH": python_path}}


def room(resources: Mapping[str, float], cpus: float, gpus: float) -> int:
    """Return how many processes that need so much fit on a machine."""
    found = resources.get("CPU", 0) / cpus
    if gpus:
        found = min(found, resources.get("GPU", 0) / gpus)
    return int(found)


def checked_room(ray: Any, who: str, cpus: float, gpus: float, folder: Path) -> int:
    """Return how many processes fit on a cluster.

    Raises:
        UsageError: If none does, or one would not see the folder; ``who`` begins the
            sentence.
    """
    nodes = alive(ray)
    fitting = [node for node in nodes if room(node["Resources"], cpus, gpus)]
    if not fitting:
        every = [node["Resources"] for node in nodes]
        found = [f"{one.get('CPU', 0):g} and {one.get('GPU', 0):g}" for one in every]
        raise UsageError(
            f"{who} needs {cpus:g} cores and {gpus:g} GPUs, and no machine of the Ray "
            f"cluster has that many: {', '.join(found)}. Ask for less."
        )
    check_seen(ray, fitting, folder)
    return sum(room(node["Resources"], cpus, gpus) for node in fitting)


def check_seen(ray: Any, nodes: Sequence[Node], folder: Path) -> None:
    """Raise unless all of some machines see what is written to a folder here."""
    blind = _blind(ray, nodes, folder)
    if blind:
        raise UsageError(
            f"The folder '{folder}' must be shared by all machines of the Ray "
            f"cluster, under this path. It is not seen by: {'; '.join(blind)}. "
            "Give a folder on a shared disk, with fewlabels installed everywhere."
        )


def short(error: BaseException) -> str:
    """Return what an error of Ray says, in one line of bearable length."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:_LONGEST].rstrip(".")


def content(file: str) -> str:
    """Return what is in a file; nothing if this machine does not see it."""
    with suppress(OSError):
        return Path(file).read_text("utf-8")
    return ""


def _connect(ray: Any, address: str | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": "error"}
    if address is None:
        # Ray asks for a token unless it was told otherwise, which is for clusters that
        # somebody else keeps closed.
        os.environ.pop(_MODE, None)
        _make_token()
        ray.init("local", num_cpus=num_cores(), include_dashboard=False, **quiet)
        return
    try:
        _reach(address)
        ray.init(address, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"There is no Ray at '{address}': {short(error)}. Start its head node "
            "by the command 'ray start' and give what that prints, set "
            "RAY_AUTH_MODE=token here too if the cluster wants a token, or leave the "
            "address out to use this machine alone."
        ) from error


def _make_token() -> None:
    """Make a token where there is none; one that Ray makes, all users may read."""
    if os.environ.get(_TOKEN) or os.environ.get(_TOKEN_PATH):
        return
    path = Path.home() / ".ray" / "auth_token"
    with explained(path), suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32))


def _blind(ray: Any, nodes: Sequence[Node], folder: Path) -> list[str]:
    """Return the names of nodes that do not see what is written to a folder here."""
    affinity = import_module("ray.util.scheduling_strategies")
    token = uuid.uuid4().hex
    file = folder / f"{token}.token"
    task, surroundings = ray.remote(content), environment()
    replace_text(file, token)
    try:
        asked = []
        for node in nodes:
            there = affinity.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            pinned = task.options(
                num_cpus=0, runtime_env=surroundings, scheduling_strategy=there
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
            f"Work on many machines needs Ray, which cannot be imported ({error}). "
            "Run: pip install 'fewlabels[ray]'"
        ) from error


@contextmanager
def _silence() -> Iterator[None]:
    """Keep the compiled part of Ray from writing to the terminal while it starts."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    sys.stderr.flush()
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


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
