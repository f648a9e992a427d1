"""The jobs behind the page, and the state of the project that is sent to all tabs.

Features, rounds, trainings and exports are jobs in other processes that send events.
Quick ones share a process that stays, since importing torch takes longer than they do.
"""

import json
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import BoundedSemaphore, Lock, Thread
from time import monotonic, sleep
from typing import Any

from fewlabels.errors import FewlabelsError, JobError
from fewlabels.jobs import Event, Job, Worker, start
from fewlabels.jobs.processes import ONE_THREAD, num_cores
from fewlabels.names import AllowCode

_CALLS = {
    "creation": "fewlabels.web.work:begin",
    "warm-up": "fewlabels.web.work:warm_up",
    "features": "fewlabels.web.work:prepare",
    "round": "fewlabels.web.work:next_round",
    "guesses": "fewlabels.web.guesses:guess",
    "training": "fewlabels.projects.project:train",
    "export": "fewlabels.web.work:export",
    "estimate": "fewlabels.web.work:estimate_final",
    "final": "fewlabels.web.work:train_finally",
}
"""What each job calls."""
_FINISHED = "BudgetError"
_UNLEARNED = "UnlearnedLabelsError"
_MOST_SECONDS = 60.0  # for an answer that somebody waits for
_MOST_WAITING = 4  # others than those have to be answered meanwhile
_NO_START = (FewlabelsError, OSError, RuntimeError)  # no memory, no thread
_LONG = {"features": 0, "training": 10, "final": 10}
"""Jobs in processes of their own, and their niceness: people wait for all others."""
# Threads that wait for each other while other programs have the cores take three times
# as long as one thread.
_HALF_THE_CORES = dict.fromkeys(ONE_THREAD, str(max(1, num_cores() // 2)))
_FIRST_LABELS = 10  # from which the first model is trained, within a round
_LEAST_SECONDS = 1.0  # of progress, before it says how long the rest will take
_INTERVAL = 2.0  # seconds after which changes by other programs are read
_PAUSE = 0.2  # seconds between two reads of the state, at least

_log = logging.getLogger(__name__)


class Background:
    """The jobs of one project.

    Args:
        folder: The project's.
        allow_code: Which import paths ``project.json`` may name.
        creation: What :func:`fewlabels.web.work.begin` needs to create the project;
            None: it is there.
    """

    def __init__(
        self,
        folder: Path,
        *,
        allow_code: AllowCode = False,
        creation: Mapping[str, Any] | None = None,
    ) -> None:
        self._folder, self._allow_code = folder.resolve(), allow_code
        self._creation = creation
        self.on_change: Callable[[], object] = lambda: None
        """Called by other threads, whenever there is something new to show."""
        self.on_created: Callable[[Event], object] = lambda _: None
        """Called with the last event of the creation, whether it failed or not."""
        self._worker = Worker(environment=_HALF_THE_CORES, allow_code=allow_code)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="fewlabels-quick")
        self._jobs: dict[str, Job] = {}
        self._lock = Lock()
        self._slots = BoundedSemaphore(_MOST_WAITING)
        self._tasks: dict[str, Any] = {name: {"status": "idle"} for name in _CALLS}
        self._takes_steps = False
        self._chosen_after: tuple[int, bool] | None = None
        self._short_after: int | None = None
        self._random_after: int | None = None
        self._guessed_at = (-1, -1)
        self.predictions: dict[str, Any] = {}
        """Predictions for all images, as of :func:`fewlabels.web.guesses.guess`."""
        self._trains_again = False
        self._is_closed = False

    # ------------------------------------------------------------------- what to do

    def start(self, name: str, **arguments: Any) -> bool:
        """Begin a job, a quick one after those before it; False: it is under way."""
        if not self._reserve(name):
            return False
        arguments["folder"] = str(self._folder)
        try:
            if name in _LONG:
                Thread(target=self._do, args=(name, arguments), daemon=True).start()
            else:
                self._executor.submit(self._do, name, arguments)
        except RuntimeError as error:
            self._fail(name, error)
        return True

    def begin(self) -> None:
        """Create the project, if it is not there, and prepare its images.

        Work that was stopped is resumed. The process that creates the project is kept
        for quick jobs, so that torch is not imported again.
        """
        if self._creation is None:
            self.start("warm-up")
            self.start("features")
        else:
            self.start("creation", **self._creation)

    def consider(self, state: Mapping[str, Any]) -> None:
        """Choose images in time; guess anew after each label and round."""
        asked, left = state["round"], state["budget"] - state["spent"]
        number = -1 if asked is None else asked["number"]
        is_short = self._short_after == number and left > state["waiting"]
        # After the last label of the budget only a model is trained.
        is_due = asked is None or is_short or state["open"] == 0
        # The first images are random anyway. After that the features decide, unless
        # somebody would rather go on without them.
        at_random = number < 0 or (not self.is_ready and self._random_after == number)
        wish = (number, left > 0)  # a raised budget is another wish
        is_due &= self._chosen_after != wish and (self.is_ready or at_random)
        if is_due and self.start("round", at_random=at_random):
            self._chosen_after = wish
        moment = (state["sequence"], number)
        learns = state["spent"] >= _FIRST_LABELS
        is_new = self.is_ready and moment != self._guessed_at
        if is_new and self.start("guesses", learns=learns):
            self._guessed_at = moment

    def want_images(self, after: int) -> None:
        """Note that a tab got fewer images than it asked for.

        Args:
            after: The last round at that time; a later one may have images for it.
        """
        if self._short_after != after:
            self._short_after = after
            self.on_change()

    def choose_again(self, *, at_random: bool = False) -> None:
        """Choose although that has failed, or once at random, without features."""
        with self._lock:
            self._random_after = self._short_after if at_random else None
            self._chosen_after = None
            self._tasks["round"] = {"status": "idle"}
        self.on_change()

    def train(self) -> None:
        """Train on all labels; once more after a training that knows fewer."""
        self._trains_again = True  # first: one that is under way may end meanwhile
        self.start("training")

    def export(self, *, as_is: bool = False) -> None:
        """Write the export into the project's folder.

        Args:
            as_is: Whether the labels may come without a model that learned from them.
        """
        self.start("export", target=str(self._folder / "export"), as_is=as_is)

    def ask(self, what: str, **arguments: Any) -> Any:
        """Return the result of a function of the model, as soon as it is known.

        Args:
            what: A function of :mod:`fewlabels.web.guesses`.
            arguments: Its arguments.

        Returns:
            Its result.
        """
        if not self.is_ready:
            raise JobError(self.why_not_ready)
        arguments["folder"] = str(self._folder)

        def work() -> Any:
            call = f"fewlabels.web.guesses:{what}"
            return self._worker.start(call, arguments).result()

        if not self._slots.acquire(blocking=False):
            raise JobError("Others wait for the model already; try again later.")
        try:
            answer = self._executor.submit(work)
            try:
                return answer.result(_MOST_SECONDS)
            except TimeoutError as error:
                answer.cancel()  # unless it has begun
                raise JobError("The answer takes longer than a minute.") from error
        finally:
            self._slots.release()

    def cancel(self, name: str) -> None:
        """Ask a job to stop; what it has saved is kept."""
        if name == "training":
            self._trains_again = False
        with suppress(KeyError):
            self._jobs[name].cancel()

    def close(self) -> None:
        """End all jobs; the same ones, started again, go on."""
        self._is_closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._worker.close()
        for job in list(self._jobs.values()):
            job.kill()

    # ------------------------------------------------------------------------ status

    def status(self) -> dict[str, Any]:
        """Return the status of each job."""
        with self._lock:
            return {name: dict(task) for name, task in self._tasks.items()}

    @property
    def is_ready(self) -> bool:
        """Whether all images are known, with their features."""
        return bool(self._tasks["features"]["status"] == "done")

    @property
    def why_not_ready(self) -> str:
        """Why the model is not ready."""
        if self._tasks["features"]["status"] in {"canceled", "failed"}:
            return "The images were not all looked at; let that go on first."
        return "The images are still being looked at; try again later."

    # ------------------------------------------------------------------------- inside

    def _do(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Do a job, quick ones in the process that stays."""
        call, allowed = _CALLS[name], self._allow_code
        try:
            if name in _LONG:
                niceness = _LONG[name]
                job = start(call, arguments, allow_code=allowed, gives_way=niceness)
            else:
                job = self._worker.start(call, arguments)
        except _NO_START as error:
            self._fail(name, error)
        else:
            self._watch(name, job)

    def _reserve(self, name: str) -> bool:
        """Mark a job as running; return False if it runs already."""
        with self._lock:
            if self._is_closed or self._tasks[name]["status"] == "running":
                return False
            usual = self._tasks[name].get("seconds")
            self._tasks[name] = {"status": "running", "task": "", "done": 0, "total": 0}
            self._tasks[name] |= {"seconds_left": None, "usual_seconds": usual}
            if name == "training":
                self._trains_again = False
        self.on_change()
        return True

    def _watch(self, name: str, job: Job) -> None:
        """Follow a job to its end."""
        self._jobs[name] = job
        end: Event = {}
        begun = monotonic()
        first: dict[int, tuple[float, int]] = {}  # when each part began, and where
        for event in job.events():
            end = event
            if event["event"] == "progress" and event["is_over"]:
                self._update(name, task="", done=0, total=0, seconds_left=None)
            elif event["event"] == "progress":
                known = {key: event[key] for key in ("task", "done", "total")}
                since, before = first.setdefault(
                    event.get("id", 0), (monotonic(), event["done"])
                )
                passed, done = monotonic() - since, event["done"] - before
                left = None
                if done and passed >= _LEAST_SECONDS:
                    left = round(passed * (event["total"] - event["done"]) / done)
                self._update(name, **known, seconds_left=left)
        self._react(name, end)
        self._update(name, **_outcome(end), seconds=round(monotonic() - begun, 1))
        if name == "training" and self._trains_again:
            self.train()

    def _react(self, name: str, end: Event) -> None:
        """Do what follows from the end of a job."""
        if name == "creation" and not self._is_closed:
            self.on_created(end)
        if end["event"] != "done":
            return
        result = end["result"]
        if name == "creation" and not self._is_closed:
            self._creation = None
            self.start("features")
        elif name == "features":
            self._takes_steps = result.get("takes_steps", False)
            if result.get("goes_on"):  # the server was killed meanwhile
                self.train()
        elif name == "round" and self._takes_steps:
            self.train()
        elif name == "guesses":
            self.predictions = result.pop("predictions")

    def _fail(self, name: str, error: Exception) -> None:
        """Note that a job could not start."""
        _log.warning("%s could not start: %s", name, error)
        self._update(name, status="failed", error=f"It could not start: {error}")

    def _update(self, name: str, **facts: Any) -> None:
        with self._lock:
            self._tasks[name] = {**self._tasks[name], **facts}
        self.on_change()


def _outcome(end: Event) -> dict[str, Any]:
    """Return how a job ended, as the page shows it."""
    if end["event"] == "done":
        return {"status": "done", "result": end["result"], "error": None}
    if end["event"] == "canceled":
        return {"status": "canceled", "error": None}
    if end.get("error") == _FINISHED:
        return {"status": "finished", "error": None}
    if end.get("error") == _UNLEARNED:
        return {"status": "asks", "error": end["reason"]}
    return {"status": "failed", "error": end.get("reason", "The job ended.")}


class StateBroadcaster:
    """The latest state, with a version that grows when it changes.

    Args:
        read_state: Computes the state.
        react: Called with each state, to start what has to be done.
    """

    def __init__(
        self,
        read_state: Callable[[], dict[str, Any]],
        react: Callable[[dict[str, Any]], object],
    ) -> None:
        self._read_state, self._react = read_state, react
        self._is_due, self._is_closed = threading.Event(), False
        self.latest = (0, "{}")
        """Version and text of the latest state."""
        self.is_stopping: Callable[[], bool] = lambda: False
        """Whether the server is shutting down, and waits for open connections."""
        self._thread = Thread(target=self._watch, daemon=True)

    def open(self) -> None:
        """Start to read the state."""
        self._is_due.set()
        self._thread.start()

    def close(self) -> None:
        """Stop to read the state."""
        self._is_closed = True
        self._is_due.set()

    def notify(self) -> None:
        """Read the state soon, since it may have changed."""
        self._is_due.set()

    @property
    def is_closed(self) -> bool:
        """Whether there will be no new state."""
        return self._is_closed or self.is_stopping()

    def _watch(self) -> None:
        while not self._is_closed:
            self._is_due.wait(_INTERVAL)
            self._is_due.clear()
            try:
                state = self._read_state()
                self._react(state)
            # Such as a busy store, or no memory; the state is read again later.
            except (FewlabelsError, OSError, RuntimeError) as error:
                _log.warning("%s", error)
            else:
                version, text = self.latest
                new = json.dumps(state)
                if new != text:
                    self.latest = (version + 1, new)
            sleep(_PAUSE)
