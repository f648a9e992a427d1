"""A run that is killed without warning, anywhere, goes on as if nothing happened."""

import os
import random
import signal
from pathlib import Path

import pytest
from tests.experiments.runs import toy

from fewlabels.experiments.runs import RunFolder, execute
from fewlabels.experiments.settings import Choice
from fewlabels.progress import reporting

SETTINGS = toy.settings()
RESUMING = toy.settings(
    strategy=Choice(name="random"),
    trainer=Choice(name="tests.experiments.runs.toy:Resuming"),
)


class Moments:
    """Counts moments of a run and kills the process at one of them."""

    def __init__(self, fatal=None):
        self.fatal, self.seen = fatal, []

    def pass_by(self, name):
        self.seen.append(name)
        if len(self.seen) - 1 == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def start(self, task, total, done):
        self.pass_by(f"start {task}")
        return 0

    def advance(self, handle, amount):
        self.pass_by("work")

    def tell(self, step, figures):
        self.pass_by("figures")

    def finish(self, handle):
        self.pass_by("finish")


def run_with(moments, path, pool, patch, settings):
    """Do the run, passing by a moment before and after every file replacement."""
    plain = Path.replace

    def replace(self, target):
        moments.pass_by("before replacement")
        plain(self, target)
        moments.pass_by("after replacement")

    patch.setattr(Path, "replace", replace)
    with reporting(moments):
        list(execute(settings, path, pool))


def killed_at(fatal, path, pool, patch, settings=SETTINGS):
    """Fork, run until the moment, die there; return whether the child was killed."""
    child = os.fork()
    if not child:
        run_with(Moments(fatal), path, pool, patch, settings)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def without_a_kill(path, settings):
    """Return the pool, the moments of a whole run and what it wrote."""
    pool, moments = toy.digits(), Moments()
    with pytest.MonkeyPatch.context() as patch:
        run_with(moments, path, pool, patch, settings)
    return pool, moments.seen, (path / "rounds.jsonl").read_bytes()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return without_a_kill(tmp_path_factory.mktemp("whole") / "run", SETTINGS)


@pytest.fixture(scope="module")
def resuming(tmp_path_factory):
    return without_a_kill(tmp_path_factory.mktemp("resuming") / "run", RESUMING)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
@pytest.mark.parametrize("wanted", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_change_no_byte(uninterrupted, tmp_path, monkeypatch, wanted):
    pool, seen, expected = uninterrupted
    chance = random.Random(0)
    kills = sum(
        killed_at(chance.randrange(len(seen) // 8), tmp_path / "run", pool, monkeypatch)
        for _ in range(wanted)
    )
    assert kills >= wanted / 2
    list(execute(SETTINGS, tmp_path / "run", pool))
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == expected
    assert not list((tmp_path / "run").rglob("*.partial"))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
def test_a_kill_at_any_replacement_changes_no_byte(
    uninterrupted, tmp_path, monkeypatch
):
    pool, seen, expected = uninterrupted
    replacements = [i for i, name in enumerate(seen) if "replacement" in name]
    assert len(replacements) >= 20
    for moment in replacements:
        path = tmp_path / f"killed-at-{moment}"
        assert killed_at(moment, path, pool, monkeypatch)
        list(execute(SETTINGS, path, pool))
        assert (path / "rounds.jsonl").read_bytes() == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
@pytest.mark.parametrize("every", [53, pytest.param(29, marks=pytest.mark.slow)])
def test_a_training_that_goes_on_in_its_middle_has_the_same_median(
    resuming, tmp_path, monkeypatch, every
):
    pool, seen, expected = resuming
    for moment in range(every % 2, len(seen), every):
        path = tmp_path / f"killed-at-{moment}"
        assert killed_at(moment, path, pool, monkeypatch, RESUMING)
        list(execute(RESUMING, path, pool))
        assert (path / "rounds.jsonl").read_bytes() == expected
        assert not list(path.rglob("*.partial"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
def test_a_training_that_is_killed_again_and_again_has_the_same_median(
    resuming, tmp_path, monkeypatch
):
    pool, _, expected = resuming
    kills = 0
    while killed_at(37, tmp_path / "run", pool, monkeypatch, RESUMING):
        kills += 1
    assert kills >= 5
    folder = RunFolder(tmp_path / "run")
    assert folder.rounds_file.read_bytes() == expected
    for line in folder.lines():
        assert line.median_accuracy != line.accuracy
