"""What the jobs of the tests call; quick to import."""

import os
import resource
import signal
import sys
import time
import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from fewlabels import progress
from fewlabels.errors import FewlabelsWarning, UnknownNameError


def add(one, other):
    """Print, and return a sum."""
    os.write(1, b'{"event": "done", "result": "printed"}\n')
    print("printed too", flush=True)  # noqa: T201 - is no event
    return one + other


def process():
    """Say which process this is, and where."""
    return [os.getpid(), str(Path.cwd()), sys.stdin.read()]


def priorities():
    """Say how this process and, on Linux, its session are preferred to others."""
    file = Path("/proc/self/autogroup")
    session = int(file.read_text("ascii").split()[-1]) if file.exists() else None
    return [os.getpriority(os.PRIO_PROCESS, 0), session]


def work(steps):
    """Advance, and tell of it."""
    with progress.part("round-000"), progress.track("Training", steps) as advance:
        for step in range(steps):
            advance()
            progress.tell(step + 1, {"loss": 1 / (step + 1)})
        progress.tell(steps, {"accuracy": 0.5})


def note():
    """Warn."""
    warnings.warn("three files are odd", FewlabelsWarning, stacklevel=1)


def refuse():
    """Raise an error of the package that has arguments of its own."""
    raise UnknownNameError("strategy", "margn", ["margin", "npc"])


def fall():
    """Raise something that nobody expects."""
    raise RuntimeError("out\nof ideas")


def strange():
    """Return what JSON cannot hold."""
    return object()


def leave():
    """Leave Python with a word."""
    os.write(2, b"goodbye\n")
    raise SystemExit(5)


def die():
    """End as the system does it when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(marker):
    """Wait for ever, without a word; leave a file with the process's number."""
    Path(marker).write_text(str(os.getpid()))
    while True:
        time.sleep(60)


def fork(folder, is_killed=False):
    """Wait for ever, or die, beside a child that waits; leave their numbers."""
    child = os.fork()
    if child == 0:
        while True:
            time.sleep(60)
    Path(folder, "child").write_text(str(child))
    if is_killed:
        die()
    sleep(Path(folder, "parent"))


def write():
    """Write lines that are no events among the events."""
    lines = b'\xff\xfe\n[1]\n5\n{"event": []}\n{}\n' + 10_000 * b"[" + b"\n{\n\n"
    for answers in range(3, 10):
        with suppress(OSError):
            os.write(answers, lines)
    return "heard"


def handle(folder):
    """Step until asked to stop, and finish the step then."""
    place = Path(folder)
    with progress.handle_cancellation():
        for step in range(10**9):
            (place / "step").write_text(str(step))
            time.sleep(0.01)
            if progress.is_stopped():
                (place / "saving").touch()
                time.sleep(0.5)
                (place / "saved").write_text(str(step))
                raise progress.Canceled


def num_page_faults(num_bytes):
    """Return how often memory was fetched for blocks that follow each other."""

    def num_so_far():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    bytearray(b"1") * num_bytes
    before = num_so_far()
    for _ in range(5):
        bytearray(b"1") * num_bytes
    return num_so_far() - before


def dies_if(number):
    """Be killed if the number is 0; else return it."""
    return number or die()


def goes_on(folder, number):
    """Work for ever, unless the number is 0; leave a file of the process's name."""
    Path(folder, f"{os.getpid()}.process").touch()
    while number:
        time.sleep(0.1)


def surroundings(number):
    """Take a moment, and say which process this is, where, and what it may use."""
    time.sleep(0.2)
    names = ("OMP_NUM_THREADS", "FEWLABELS_DATA")
    told = {name: os.environ.get(name) for name in names}
    return told | {"process": os.getpid(), "folder": str(Path.cwd())}


def node(number):
    """Take a moment, and say on which node of a cluster."""
    time.sleep(0.2)
    return import_module("ray").get_runtime_context().get_node_id()


def meet(folder, num):
    """Wait until as many processes are here, and say which GPUs this one sees."""
    Path(folder, f"{os.getpid()}.here").touch()
    while len([*Path(folder).glob("*.here")]) < num:
        time.sleep(0.05)
    return os.environ.get("CUDA_VISIBLE_DEVICES")
