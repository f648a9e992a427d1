"""Workers that do something else than runs; quick to import."""

import json
import os
import signal
import time
from importlib import import_module
from pathlib import Path


def leaving(root, settings, *, tensorboard=False):
    """Leave Python."""
    os.write(1, b"goodbye")
    raise SystemExit(5)


def dying(root, settings, *, tensorboard=False):
    """Be killed whenever the seed is 0."""
    if not json.loads(settings)["seed"]:
        os.kill(os.getpid(), signal.SIGKILL)


def threads(root, settings, *, tensorboard=False):
    """Say how many threads the libraries of a worker may use, as an error."""
    return os.environ["OMP_NUM_THREADS"]


def process(root, settings, *, tensorboard=False):
    """Print, and say in which process a run would be done, as an error."""
    os.write(1, b"null\n")
    print("null", flush=True)  # noqa: T201 - is no answer
    return str(os.getpid())


def sleeping(root, settings, *, tensorboard=False):
    """Work for ever, unless the seed is 0; leave a file of the process's name."""
    (Path(root) / f"{os.getpid()}.process").touch()
    while json.loads(settings)["seed"]:
        time.sleep(0.1)


def processes(root):
    """Return the processes that have worked, or still do."""
    return [int(one.stem) for one in Path(root).glob("*.process")]


def node(root, settings, *, tensorboard=False):
    """Take a moment, and say on which node of a cluster, as an error."""
    time.sleep(0.2)
    return import_module("ray").get_runtime_context().get_node_id()
