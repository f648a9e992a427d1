"""A call in a process of its own: events, canceling, dying, permission."""

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests.conftest import forked_processes

from fewlabels import jobs, progress
from fewlabels.errors import JobError, UnknownNameError, UsageError

ROOT = Path(__file__).parents[2]


def begun(name, **arguments):
    return jobs.start(f"tests.jobs.calls:{name}", arguments, allow_code=True)


@pytest.fixture(scope="module")
def worker():
    """One process for all calls that leave it as it was."""
    with closing(jobs.Worker(allow_code=True)) as shared:
        yield shared


def in_(worker, name, **arguments):
    return worker.start(f"tests.jobs.calls:{name}", arguments)


def eventually(condition, seconds=60):
    until = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < until:
        time.sleep(0.02)
    return found


def is_alive(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text("ascii")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def told(path):
    return path.read_text() if path.exists() else ""


# ------------------------------------------------------------------------ results


def test_a_job_returns_what_its_call_does_whatever_is_printed(worker):
    job = in_(worker, "add", one=[1], other=["é\n"])
    assert job.result() == [1, "é\n"]
    assert job.wait() == job.end == {"event": "done", "result": [1, "é\n"]}


def test_one_process_does_call_after_call_and_ends_when_it_is_closed():
    with closing(jobs.Worker(allow_code=True)) as own:
        (one, *_), (other, *_) = (in_(own, "process").result() for _ in range(2))
    assert one == other
    assert not is_alive(one)
    with pytest.raises(JobError, match="closed"):
        in_(own, "process")


def test_a_job_works_in_our_folder_and_its_process_ends_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process, folder, read = begun("process").result()
    assert (folder, read) == (str(tmp_path), "")
    assert eventually(lambda: not is_alive(process))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_memory_that_was_freed_is_used_again(worker):
    assert in_(worker, "num_page_faults", num_bytes=2**26).result() < 2_000


def test_errors_of_the_package_arrive_as_they_were_raised(worker):
    with pytest.raises(UnknownNameError, match=r"'margn'\. Did you mean 'margin'\?"):
        in_(worker, "refuse").result()


def test_other_errors_arrive_in_a_line_with_their_traceback_for_the_log(worker):
    job = in_(worker, "fall")
    end, told = job.wait(), ("RuntimeError", "RuntimeError: out of ideas")
    assert (end["error"], end["reason"]) == told
    assert "in fall" in end["traceback"]
    with pytest.raises(JobError, match="RuntimeError: out of") as caught:
        job.result()
    assert caught.value.__notes__ == [end["traceback"]]


def test_a_result_that_cannot_be_told_is_a_failure(worker):
    assert "not JSON serializable" in in_(worker, "strange").wait()["reason"]


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("leave", 5, "exit code 5"),
        ("die", -9, r"signal 9 \(Killed\), most often because memory ran out"),
    ],
)
def test_a_death_is_told_and_the_next_call_has_another_process(name, code, words):
    with closing(jobs.Worker(allow_code=True)) as own:
        job = in_(own, name)
        end = job.wait()
        assert (end["event"], end["code"]) == ("died", code)
        assert end["printed"] == ("goodbye\n" if name == "leave" else "")
        with pytest.raises(JobError, match=words):
            job.result()
        assert in_(own, "add", one=1, other=2).result() == 3


# ------------------------------------------------------------------------- events


def test_events_tell_how_far_a_job_is_and_how_it_fares(worker):
    *events, end = in_(worker, "work", steps=200).events()
    assert end == {"event": "done", "result": None}
    first, *_, last = (one for one in events if one["event"] == "progress")
    task = {"event": "progress", "id": first["id"], "task": "Training", "total": 200}
    task["part"] = "round-000"
    assert first == {**task, "done": 0, "is_over": False}
    assert last == {**task, "done": 200, "is_over": True}
    figures = [one for one in events if one["event"] == "figures"]
    told = {"event": "figures", "step": 200, "part": "round-000"}
    assert figures[-2:] == [
        {**told, "figures": {"loss": 1 / 200}},
        {**told, "figures": {"accuracy": 0.5}},
    ]
    assert len(events) - len(figures) < 200  # not each step is worth a line


def test_warnings_of_the_package_are_notes(worker):
    note, end = in_(worker, "note").events()
    assert note == {"event": "note", "text": "three files are odd"}
    assert end["event"] == "done"


def test_lines_that_are_no_events_are_skipped():
    job = begun("write")
    assert job.wait(60) == {"event": "done", "result": "heard"}


def test_a_job_whose_events_cannot_be_taken_has_an_end(tmp_path, monkeypatch):
    def receive(self, event):
        if event["event"] != "died":
            raise MemoryError
        kept(self, event)

    kept = jobs.Job.receive
    monkeypatch.setattr(jobs.Job, "receive", receive)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    job = begun("sleep", marker=tmp_path / "marker")
    assert job.wait(60)["event"] == "died"
    job._worker._reader.join()  # its error comes after the end, and is no other test's


def test_several_hear_all_events_however_late_they_begin(worker):
    job = in_(worker, "work", steps=3)
    early = list(job.events())
    assert list(job.events()) == early


def test_of_very_many_events_the_latest_are_kept():
    job = jobs.Job(None, 1)
    for number in range(10_050):
        job.receive({"event": "note", "text": number})
    job.receive({"event": "done", "result": None})
    job.receive({"event": "alive"})  # too late to count
    events = list(job.events())
    assert [events[0]["text"], len(events)] == [51, 10_000]
    assert events[-1]["event"] == "done"


def test_a_silent_job_tells_that_it_is_alive_and_is_canceled_at_once(tmp_path):
    job = begun("sleep", marker=tmp_path / "marker")
    events = job.events()
    assert [next(events)["event"] for _ in range(3)] == ["alive"] * 3
    assert job.wait(0) is None
    job.cancel()
    assert list(events)[-1] == {"event": "canceled"}
    with pytest.raises(JobError, match="was canceled"):
        job.result()


# ------------------------------------------------------------------------ to stop


def test_work_that_handles_a_cancellation_ends_after_a_step(tmp_path):
    job = begun("handle", folder=tmp_path)
    assert eventually(lambda: int(told(tmp_path / "step") or 0) > 3)
    job.cancel()
    assert eventually((tmp_path / "saving").exists)
    job.cancel()  # by an impatient person
    assert job.wait()["event"] == "canceled"
    assert told(tmp_path / "saved") == told(tmp_path / "step")


def test_a_job_that_is_canceled_before_it_begins_never_does(tmp_path):
    job = begun("sleep", marker=tmp_path / "marker")
    job.cancel()
    assert job.wait()["event"] == "canceled"


def test_who_cancels_too_late_disturbs_nobody():
    with closing(jobs.Worker(allow_code=True)) as own:
        first = in_(own, "add", one=1, other=1)
        assert first.result() == 2
        first.cancel()
        assert in_(own, "add", one=2, other=2).result() == 4
        assert first.result() == 2


def test_a_killed_job_says_so(tmp_path):
    job = begun("sleep", marker=tmp_path / "marker")
    assert eventually((tmp_path / "marker").exists)
    job.kill()
    assert job.end["code"] == -signal.SIGKILL


@pytest.fixture
def forked(tmp_path):
    """Give the number of the child of a job; end it, whatever the test shows."""
    yield lambda: int(told(tmp_path / "child") or 0)
    with suppress(ProcessLookupError, ValueError):
        os.kill(int(told(tmp_path / "child")), signal.SIGKILL)


def test_a_killed_job_takes_its_children_along(tmp_path, forked):
    job = begun("fork", folder=tmp_path)
    assert eventually(lambda: told(tmp_path / "parent"))
    job.kill()
    assert job.end["code"] == -signal.SIGKILL
    assert eventually(lambda: not is_alive(forked()))


def test_the_death_of_a_job_is_told_while_its_children_live(tmp_path, forked):
    job = begun("fork", folder=tmp_path, is_killed=True)
    assert job.wait(60)["code"] == -signal.SIGKILL
    assert eventually(lambda: not is_alive(forked()))


PARENT = """
import sys, time
from fewlabels import jobs, progress
jobs.start("tests.jobs.calls:fork", {"folder": sys.argv[1]}, allow_code=True)
time.sleep(600)
"""


def test_a_job_and_its_children_end_with_the_process_that_started_it(tmp_path, forked):
    marker = tmp_path / "parent"
    path = os.pathsep.join([str(ROOT), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": path},
    ) as parent:
        assert eventually(lambda: told(marker))
        process = int(told(marker))
        assert is_alive(process)
        parent.kill()
    assert eventually(lambda: not is_alive(process))
    assert eventually(lambda: not is_alive(forked()))


# --------------------------------------------------------------------- permission


@pytest.fixture(scope="module")
def refusing():
    """A worker that may call one function of somebody else; a fork imports less."""
    allowed = "tests.jobs.calls:note"
    with closing(jobs.Worker(allow_code=[allowed])) as shared:
        with forked_processes(1):
            shared.start(allowed, {}).result()
        yield shared


@pytest.mark.parametrize(
    "call",
    [
        "os:system",
        "tests.jobs.calls:add",
        "fewlabels.names:import_object",  # ours, but not meant for it
        "fewlabels.jobs.events:import_object",
        "fewlabels:",
        "",
    ],
)
def test_a_strangers_function_is_not_called(refusing, call):
    with pytest.raises(UsageError, match="may not be called in a job"):
        refusing.start(call, {}).result()


def run_of(strategy, options, root):
    """Return what does a run of a benchmark."""
    settings = {"strategy": {"name": strategy, "options": options}, "data": "digits"}
    settings |= {"trainer": "spreading", "query": 5, "budget": 15}
    order = {"root": str(root), "settings": json.dumps(settings)}
    return "fewlabels.experiments.bench.runner:work", order


def test_code_that_arguments_name_is_not_imported(refusing, tmp_path):
    mark = tmp_path / "mark"
    system = "os:system", {"command": f"touch {mark}"}
    inner = "albl", {"arms": ["npc", "os:system"]}
    for evil in (system, inner):
        with pytest.raises(UsageError, match="code to import: 'os:system'"):
            refusing.start(*run_of(*evil, tmp_path / "bench")).result()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("allowed", [True, ["os:system"]])
def test_a_job_cannot_permit_itself_anything(refusing, tmp_path, allowed):
    mark = tmp_path / "mark"
    call, arguments = run_of("os:system", {"command": f"touch {mark}"}, tmp_path)
    with pytest.raises(UsageError, match="allow_code out of"):
        refusing.start(call, {**arguments, "allow_code": allowed}).result()
    train = "fewlabels.projects.project:train"
    with pytest.raises(UsageError, match="allow_code out of"):
        refusing.start(train, {"folder": "x", "allow_code": allowed}).result()
    assert not mark.exists()


@pytest.mark.usefixtures("forked_workers")
def test_code_that_the_program_allows_is_used_by_what_arguments_name(tmp_path):
    own = "tests.experiments.runs.toy:FirstOnes"
    job = jobs.start(*run_of(own, {}, tmp_path), allow_code=[own])
    assert job.result() is None


def test_what_is_allowed_by_name_is_called(refusing):
    assert refusing.start("tests.jobs.calls:note", {}).wait()["event"] == "done"


# ---------------------------------------------------------- events, there and back


class Heard:
    """Writes down what a listener is told."""

    def __init__(self):
        self.all = []

    def start(self, *content):
        self.all.append(("start", *content))
        return len(self.all)

    def advance(self, *content):
        self.all.append(("advance", *content))

    def tell(self, *content):
        self.all.append(("tell", *content))

    def finish(self, *content):
        self.all.append(("finish", *content))


def announced():
    """Do some work inside other work, the inner one taken up again."""
    with progress.track("Rounds", 2) as outer:
        with progress.track("Training", 30, done=10) as inner:
            inner(10)
            progress.tell(20, {"loss": 0.5})
            inner(10)
        outer(2)


def test_progress_is_the_same_after_it_was_events():
    here, there, events = Heard(), Heard(), []
    with progress.reporting(here, jobs.Sender(events.append)):
        announced()
    with progress.reporting(there), closing(jobs.Replay()) as replay:
        for event in events:
            replay.receive(json.loads(json.dumps(event)))
    assert there.all == here.all


def test_tasks_whose_end_was_lost_end_with_the_last_event():
    there, events = Heard(), []
    with progress.reporting(jobs.Sender(events.append)):
        announced()
    with progress.reporting(there), closing(jobs.Replay()) as replay:
        for event in events[:3]:
            replay.receive(event)
    assert [kind for kind, *_ in there.all] == [
        "start", "start", "advance", "finish", "finish",
    ]  # fmt: skip
