"""Processes of this machine that do calls: one job, or many side by side."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Condition, RLock, Thread
from typing import IO, Any, Protocol

from fewlabels import errors
from fewlabels.errors import FewlabelsError, JobError, UsageError, check_range
from fewlabels.jobs.events import Event
from fewlabels.names import AllowCode

ONE_THREAD = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMBA")
} | {"VECLIB_MAXIMUM_THREADS": "1"}
"""Environment of a worker that has one core."""

RETRIES = 3
"""How often a call is begun again whose worker was killed."""

_WORKER = "fewlabels.jobs.worker"
_PROGRAM = (sys.executable, "-P", "-X", "faulthandler", "-m", _WORKER)
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ENDS = {"done", "failed", "canceled", "died"}
_MAX_EVENTS = 10_000
_MAX_PRINTED = 10_000  # bytes
# glibc gives large blocks back to the system, which clears them before they are used
# again: as much work as a network that embeds images. Here up to half a gigabyte is
# kept, in one place for all threads.
_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**28),
    "MALLOC_TRIM_THRESHOLD_": str(2**29),
}


def start(
    call: str,
    arguments: Mapping[str, Any],
    *,
    allow_code: AllowCode = False,
    gives_way: int = 0,
) -> "Job":
    """Begin a call in a process of its own, which ends with it, or with this process.

    Args:
        call: What to call, as ``"module:function"``: a function of fewlabels that is
            made for it, or one that is allowed.
        arguments: Its arguments. What JSON cannot hold, such as a path, becomes text.
        allow_code: Which other functions may be called, and which import paths the
            arguments of ours may name: any (True), these, or none.
        gives_way: Steps, of 20, by which others that want the processors go first.

    Returns:
        The job, which goes on by itself.
    """
    worker = Worker(allow_code=allow_code, is_reused=False, gives_way=gives_way)
    return worker.start(call, arguments)


class Job:
    """A call that another process does."""

    def __init__(self, worker: "Worker", number: int) -> None:
        self._worker, self._number = worker, number
        self._events: deque[Event] = deque(maxlen=_MAX_EVENTS)
        self._num_received = 0
        self._changed = Condition()

    def events(self) -> Iterator[Event]:
        """Yield what happened and what happens, to the end; several may listen.

        Whoever begins after many thousand events hears the latest of them.

        Yields:
            Events; the last one is ``done``, ``failed``, ``canceled`` or ``died``.
        """
        num_seen, new = 0, [{"event": ""}]
        while new[-1]["event"] not in _ENDS:
            with self._changed:
                while self._num_received == num_seen:
                    self._changed.wait()
                num_new = min(self._num_received - num_seen, len(self._events))
                new = [self._events[i] for i in range(-num_new, 0)]
                num_seen = self._num_received
            yield from new

    def wait(self, timeout: float | None = None) -> Event | None:
        """Wait until the job has ended, or for some seconds.

        Args:
            timeout: Seconds to wait; None: as long as it takes.

        Returns:
            The last event; None if the job goes on.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.end, timeout)
            return self.end

    def result(self) -> Any:
        """Wait until the job has ended, and return what the call returned.

        A job that was canceled, died, or raised something that is no error of fewlabels
        raises a :class:`JobError`; one of those comes with its own type and sentence.

        Returns:
            The result, as JSON holds it.
        """
        end = self.wait()
        assert end is not None
        if end["event"] == "done":
            return end["result"]
        raise error_of(end)

    def cancel(self) -> None:
        """Ask the job to stop: a training saves its state, which takes some steps."""
        self._worker.send({"cancel": self._number})

    def kill(self) -> None:
        """End its process at once; the same job, started again, goes on."""
        self._worker.close()

    @property
    def end(self) -> Event | None:
        """The last event of a job that has ended."""
        with self._changed:
            is_over = self._events and self._events[-1]["event"] in _ENDS
            return self._events[-1] if is_over else None

    def receive(self, event: Event) -> None:
        """Take an event of the process; nothing counts after the last one."""
        with self._changed:
            if self.end is None:
                self._events.append(event)
                self._num_received += 1
                self._changed.notify_all()


class Worker:
    """A process that does one call after another; made when there is one to do.

    Args:
        environment: Variables that it has beside those of this process.
        allow_code: Which functions it may call beside those made for it, and which
            import paths the arguments of those may name.
        is_reused: Whether it waits for another call after the first.
        gives_way: Steps, of 20, by which others that want the processors go first.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str] | None = None,
        allow_code: AllowCode = False,
        is_reused: bool = True,
        gives_way: int = 0,
    ) -> None:
        self._environment = dict(environment or {})
        self._allowed = allow_code if allow_code is True else list(allow_code or ())
        self._is_reused, self._is_closed = is_reused, False
        self._gives_way = gives_way
        self._numbers, self._lock = count(1), RLock()
        self._job = Job(self, 0)
        self._process: subprocess.Popen[str] | None = None
        self._reader = Thread()

    def start(self, call: str, arguments: Mapping[str, Any]) -> Job:
        """Begin a call; the one before has to be over, and the worker not closed."""
        number = next(self._numbers)
        order = {"number": number, "call": call, "arguments": dict(arguments)}
        with self._lock:
            if self._is_closed:
                raise JobError("The worker of the job was closed.")
            self._job = Job(self, number)
            if self._process is None:
                self._begin()
            self.send({**order, "allow_code": self._allowed})
            return self._job

    def send(self, order: Mapping[str, Any]) -> None:
        """Send a line to the process; a dead one is noticed by whoever reads it."""
        line = json.dumps(order, default=str) + "\n"
        with self._lock, suppress(OSError, ValueError):
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.write(line)
                self._process.stdin.flush()

    def close(self) -> None:
        """End the process at once, whatever it does; there will be no other."""
        with self._lock:
            self._is_closed, process = True, self._process
            if process is not None:
                _end(process)
        if process is not None:
            self._reader.join()

    def _begin(self) -> None:
        # Python finds modules there where this process does.
        places = os.pathsep.join(place or str(Path.cwd()) for place in sys.path)
        printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the reader
        self._process = subprocess.Popen(  # noqa: S603 - ourselves
            [*_PROGRAM, str(self._gives_way)],
            env=_MEMORY | os.environ | self._environment | {"PYTHONPATH": places},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # Ctrl-C is ours to see; one group to end
        )
        own = self._process, printed
        self._reader = Thread(target=self._read, args=own, daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str], printed: IO[bytes]) -> None:
        """Hand events to the job, to the last one."""
        assert process.stdin is not None
        assert process.stdout is not None
        with printed, process.stdout:
            try:
                for line in process.stdout:
                    with suppress(ValueError, RecursionError):  # whoever wrote it
                        event = json.loads(line)
                        is_object = isinstance(event, dict)
                        if is_object and isinstance(event.get("event"), str):
                            self._job.receive(event)
                    if not self._is_reused and self._job.end is not None:
                        break
            finally:
                with self._lock:
                    _end(process)  # a dead one may have left others
                    code = process.wait()
                    job, self._process = self._job, None
                with suppress(OSError):  # what it has not read
                    process.stdin.close()
                size = printed.seek(0, os.SEEK_END)
                printed.seek(max(0, size - _MAX_PRINTED))
                text = printed.read().decode(errors="replace")
                reason = f"The process ended: {describe_exit(code)}; start it again."
                end = {"event": "died", "code": code, "reason": reason}
                job.receive({**end, "printed": text})


class Executor(Protocol):
    """Does the same call with many arguments side by side, each with one thread.

    A worker that is killed is replaced, and its call begun again. Who does the calls
    changes nothing in them.
    """

    @property
    def num_workers(self) -> int:
        """How many calls are done at a time."""
        ...

    def run(
        self, call: str, orders: Sequence[Mapping[str, Any]], folder: Path
    ) -> Generator[tuple[int, Event]]:
        """Do calls, which whoever planned them has allowed.

        Args:
            call: What to call, as ``"module:function"``.
            orders: The arguments of each call.
            folder: Where they write to.

        Yields:
            The number of each call with its last event, as it ends.
        """
        ...


class LocalExecutor:
    """Does calls in processes of this machine.

    Args:
        num_workers: How many at a time; by default one for each GPU, or for each core
            where there is none.
        gpus: GPUs that each worker has for itself, and sees; 0: it sees all. More
            workers than GPUs share them evenly.
    """

    def __init__(self, num_workers: int | None = None, *, gpus: float = 1) -> None:
        own, every = errors.whole_number("gpus", gpus), visible_gpus()
        self.devices = [every[i : i + own] for i in range(0, len(every), own or 1)]
        self.devices = [part for part in self.devices if own and len(part) == own]
        if own > 1 and not self.devices:
            raise UsageError(f"A worker shall have {own} GPUs; {len(every)} are there.")
        usual = len(self.devices) or num_cores()
        self.num_workers = usual if num_workers is None else num_workers
        check_range("The number of workers", self.num_workers, at_least=1)

    def run(
        self, call: str, orders: Sequence[Mapping[str, Any]], folder: Path
    ) -> Generator[tuple[int, Event]]:
        """Do calls; see :class:`Executor`."""
        del folder  # which every process of this machine sees
        idle: SimpleQueue[Worker] = SimpleQueue()

        def ended(order: Mapping[str, Any]) -> Event:
            worker, end = idle.get(), Event()
            try:
                for _ in range(RETRIES + 1):
                    end = worker.start(call, order).wait() or {}
                    if end["event"] in {"done", "failed"}:
                        return end
                return end | lost(describe_exit(end.get("code", -signal.SIGINT)))
            finally:
                idle.put(worker)

        with ExitStack() as ends:
            for number in range(min(self.num_workers, len(orders))):
                seen = dict(ONE_THREAD)
                if self.devices:
                    own = self.devices[number % len(self.devices)]
                    seen[_VISIBLE] = ",".join(own)
                worker = Worker(environment=seen, allow_code=True)
                idle.put(ends.enter_context(closing(worker)))
            # One thread for each worker, to wait for it.
            threads = ThreadPoolExecutor(self.num_workers)
            ends.callback(threads.shutdown, wait=False, cancel_futures=True)
            doing = {threads.submit(ended, order): n for n, order in enumerate(orders)}
            for future in as_completed(doing):
                yield doing[future], future.result()


def lost(reason: str) -> Event:
    """Return the last event of a call that ended its workers again and again."""
    message = (
        f"The worker was lost {RETRIES + 1} times ({reason}). Run the same command "
        "again, with fewer workers if memory ran out; what is finished is kept."
    )
    return {"event": "died", "reason": message}


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch  # slow to import

    number = torch.cuda.device_count()
    named = os.environ.get(_VISIBLE, "").split(",")
    if len(named) >= number > 0 and named[0]:
        return named[:number]
    return [str(place) for place in range(number)]


def num_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def error_of(end: Event) -> FewlabelsError:
    """Return the error of a job's last event, if the job is not done."""
    if end["event"] == "canceled":
        return JobError("The job was canceled; what it had saved is kept.")
    kind: Any = vars(errors).get(end.get("error", ""))
    if not isinstance(kind, type) or not issubclass(kind, FewlabelsError):
        kind = JobError
    # Some have arguments of their own.
    error: FewlabelsError = kind.__new__(kind, end["reason"])
    error.add_note(end.get("traceback") or end.get("printed") or "")
    return error


def _end(process: subprocess.Popen[str]) -> None:
    """End a process that was not waited for, and all that it has started."""
    if not hasattr(os, "killpg"):
        process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):  # it is ending already
        os.killpg(process.pid, signal.SIGKILL)


def describe_exit(code: int) -> str:
    """Return what an exit code stands for.

    Example:
        >>> describe_exit(-9)
        'signal 9 (Killed), most often because memory ran out'
    """
    if code >= 0:
        return f"exit code {code}"
    hint = ", most often because memory ran out" if code == -signal.SIGKILL else ""
    return f"signal {-code} ({signal.strsignal(-code)}){hint}"
