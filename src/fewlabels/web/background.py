"""The jobs behind the page: features, rounds, trainings, exports.

Each is a job in a process of its own that sends events. Quick ones share a process that
stays, since importing torch takes longer than they do.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import BoundedSemaphore, Lock, Thread
from time import monotonic
from typing import Any

from fewlabels.errors import FewlabelsError, JobError
from fewlabels.jobs import Event, Job, Worker, start
from fewlabels.jobs.processes import ONE_THREAD, num_cores
from fewlabels.names import AllowCode

_WORK = "fewlabels.web.work"
_TRAIN = "fewlabels.projects.jobs:train"
_FINISHED = "BudgetError"
_UNLEARNED = "UnlearnedLabelsError"
_GUESS = "fewlabels.web.guesses"
_MOST_SECONDS = 60.0  # for an answer that somebody waits for
_MOST_WAITING = 4  # others than those have to be answered meanwhile
_NO_START = (FewlabelsError, OSError, RuntimeError)  # no memory, no thread
_GIVES_WAY = 10  # niceness of trainings; people wait for the other jobs
# Threads that wait for each other while other programs have the cores take three times
# as long as one thread.
_HALF_THE_CORES = dict.fromkeys(ONE_THREAD, str(max(1, num_cores() // 2)))
_TASKS = (
    "creation", "features", "round", "training", "export", "guesses", "estimate",
    "final",
)  # fmt: skip
_FIRST_LABELS = 10  # from which the first model is trained, within a round
_LEAST_SECONDS = 1.0  # of progress, before it says how long the rest will take

_Callback = Callable[[Event], object] | None

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
        self._tasks: dict[str, Any] = {name: {"status": "idle"} for name in _TASKS}
        self._facts: dict[str, Any] = {"takes_steps": False, "goes_on": False}
        self._chosen_after: int | None = None
        self._short_after: int | None = None
        self._waiting_after: int | None = None
        self._random_after: int | None = None
        self._guessed_at = -1
        self._needs_first_model = True
        self._learned_at = -1
        self._trains_again = False
        self._is_closed = False

    # ------------------------------------------------------------------- what to do

    def begin(self) -> None:
        """Create the project, if it is not there, and prepare its images.

        What was stopped goes on. The process of the creation stays for quick jobs, so
        that nobody waits for it to import torch again.
        """
        if self._creation is None:
            self._queue("guesses", f"{_WORK}:warm_up", {})
            self.prepare()
        else:
            self._queue(
                "creation", f"{_WORK}:begin", self._creation, self._after_creation
            )

    def prepare(self) -> None:
        """Take in all images and make their features; or go on, after a stop."""
        self._start_own("features", f"{_WORK}:prepare", self._after_features)

    def consider(self, state: Mapping[str, Any]) -> None:
        """Choose the next images in time, and guess anew after each label."""
        asked, left = state["round"], state["budget"] - state["spent"]
        number = -1 if asked is None else asked["number"]
        is_short = self._short_after == number and left > state["waiting"]
        if asked is None or is_short or (state["open"] == 0 and left > 0):
            self._choose(number, has_features=self.is_ready)
        self._learn_first(state)
        is_new = self.is_ready and state["sequence"] != self._guessed_at
        if is_new and self._queue("guesses", f"{_GUESS}:guess", {}):
            self._guessed_at = state["sequence"]

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
        self._start_own("training", _TRAIN)

    def estimate(self) -> None:
        """Measure how long a network from scratch would take."""
        self._queue("estimate", f"{_WORK}:estimate_final", {})

    def train_finally(self) -> None:
        """Train a network from scratch, while rounds and quick trainings go on."""
        self._start_own("final", f"{_WORK}:train_finally")

    def export(self, *, as_is: bool = False) -> None:
        """Write the export into the project's folder.

        Args:
            as_is: Whether the labels may come without a model that learned from them.
        """
        target = {"target": str(self._folder / "export"), "as_is": as_is}
        self._queue("export", f"{_WORK}:export", target)

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
            return self._worker.start(f"{_GUESS}:{what}", arguments).result()

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

    def _choose(self, after: int, *, has_features: bool) -> None:
        # The first images are random anyway. After that the features decide, unless
        # somebody would rather go on without them.
        at_random = after < 0 or (not has_features and self._random_after == after)
        if self._chosen_after == after:
            return
        if not (has_features or at_random):
            self._waiting_after = after
            return
        arguments = {"at_random": at_random}
        if self._queue("round", f"{_WORK}:next_round", arguments, self._after_round):
            self._chosen_after = after

    def _learn_first(self, state: Mapping[str, Any]) -> None:
        """Train the first model, tried again after each label until it succeeds."""
        can_learn = self.is_ready and state["spent"] >= _FIRST_LABELS
        is_new = state["sequence"] != self._learned_at
        if not (self._needs_first_model and can_learn and is_new):
            return

        def learned(end: Event) -> None:
            if end["event"] == "done":
                self._needs_first_model = not end["result"]["is_done"]

        if self._queue("guesses", f"{_WORK}:learn_first", {}, learned):
            self._learned_at = state["sequence"]

    def _after_round(self, end: Event) -> None:
        if end["event"] == "done" and self._facts["takes_steps"]:
            self.train()

    def _after_creation(self, end: Event) -> None:
        if self._is_closed:
            return
        self.on_created(end)
        if end["event"] == "done":
            self._creation = None
            self.prepare()

    def _after_features(self, end: Event) -> None:
        if end["event"] == "done":
            self._facts.update(end["result"])
            if self._facts["goes_on"]:  # the server was killed meanwhile
                self.train()
            if self._waiting_after is not None:  # until there are images to label
                self._choose(self._waiting_after, has_features=True)
                with suppress(RuntimeError, CancelledError):  # it was closed
                    self._executor.submit(int).result()

    def _queue(
        self, name: str, call: str, arguments: Mapping[str, Any], then: _Callback = None
    ) -> bool:
        """Do something quick when those before it are done; False: it is under way."""
        if not self._reserve(name):
            return False

        def work() -> None:
            try:
                job = self._worker.start(
                    call, {"folder": str(self._folder), **arguments}
                )
            except _NO_START as error:
                self._fail(name, error)
            else:
                self._watch(name, job, then)

        with suppress(RuntimeError):  # it was closed
            self._executor.submit(work)
        return True

    def _start_own(self, name: str, call: str, then: _Callback = None) -> None:
        """Begin something long in a process of its own, unless it is under way."""
        if not self._reserve(name):
            return
        niceness = 0 if name == "features" else _GIVES_WAY
        folder = {"folder": str(self._folder)}
        try:
            job = start(call, folder, allow_code=self._allow_code, gives_way=niceness)
            Thread(target=self._watch, args=(name, job, then), daemon=True).start()
        except _NO_START as error:
            self._fail(name, error)

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

    def _watch(self, name: str, job: Job, then: _Callback) -> None:
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
        if then is not None:
            then(end)
        self._update(name, **_outcome(end), seconds=round(monotonic() - begun, 1))
        if name == "training" and self._trains_again:
            self.train()

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
