"""The live view: what it shows of a task, and that it fits the terminal."""

import io
import math
import sys

import pytest
from rich.console import Console

from fewlabels import progress
from fewlabels.cli.terminal import Bars, Terminal
from fewlabels.experiments.runs import TrainingLog
from fewlabels.files import read_entries as read
from fewlabels.progress import reporting, tell, track

ALL = {
    "kept": 0.633,
    "images-per-second": 12_345.6,
    "loss": 0.41234,
    "accuracy": 0.912,
    "odd": 1234.5,
}


class Screen(io.StringIO):
    """A stream that takes itself for a terminal."""

    def isatty(self):
        return True


def console(width=80, **options):
    return Console(file=Screen(), force_terminal=True, width=width, **options)


def shown(bars, width=80):
    """Return the lines that the view would show now, without their ends."""
    paper = Console(file=io.StringIO(), width=width, record=True)
    for part in bars._view.get_renderables():
        paper.print(part)
    return [line.rstrip() for line in paper.export_text().splitlines()]


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            100,
            "kept 0.633  images-per-second 1.235e+04  loss 0.4123  accuracy 0.912  "
            "odd 1234",
        ),
        (40, "kept 0.633  images-per-sec…"),
    ],
)
def test_figures_stand_in_a_line_that_fits(width, expected):
    bars = Bars(console(width))
    with reporting(bars), track("Training", 600) as advance:
        advance(246)
        tell(246, ALL)
        above, below = shown(bars, width)
    assert above.startswith("Training")
    assert below == " " * 13 + expected
    assert len(below) <= width


def test_the_last_task_has_the_figures_and_they_go_with_it():
    bars = Bars(console())
    with reporting(bars):
        with track("Run", 2), track("Training", 1000, done=400) as advance:
            advance(100)
            tell(500, {"loss": math.nan})
            run, training, figures = shown(bars)
            assert run.split()[0] == "Run"
            assert "0/2" in run
            assert "500/1000" in training
            assert figures.split() == ["loss", "nan"]
            tell(600, {"kept": 0.25})
            assert shown(bars)[2].split() == ["loss", "nan", "kept", "0.25"]
        tell(600, {"accuracy": 0.5})  # no bar, nothing to show
        with track("Search", 3):
            assert len(shown(bars)) == 1
    assert shown(bars) == []


def test_the_time_left_is_guessed_from_the_pace_of_this_sitting():
    clock = [0.0]
    bars = Bars(console(get_time=lambda: clock[0]))
    with reporting(bars), track("Training", 10_000, done=9_000) as advance:
        for _ in range(4):
            clock[0] += 45.0
            advance(5)
        assert shown(bars)[0].endswith("2:27:00")


def test_the_screen_is_clean_afterwards():
    screen = console()
    with reporting(Bars(screen)), track("Training", 2) as advance:
        advance(1)
        tell(1, ALL)
    written = screen.file.getvalue()
    assert "Training" in written
    assert "Training" not in written[written.rindex("\x1b[2K") :]  # wiped


@pytest.mark.parametrize("kind", ["quiet", "file", "dumb"])
def test_where_nobody_can_see_it_nothing_is_shown(kind, monkeypatch):
    monkeypatch.setenv("TERM", "dumb" if kind == "dumb" else "xterm")
    stream = io.StringIO() if kind == "file" else Screen()
    err = Console(file=stream, width=80)
    assert err.is_terminal == (kind != "file")
    terminal = Terminal(kind == "quiet", Console(file=io.StringIO()), err)
    monkeypatch.setattr(sys, "stderr", stream)
    with terminal.busy(), progress.shown(), track("Training", 2) as advance:
        advance(1)
        tell(1, ALL)
    assert stream.getvalue() == ""


def test_a_terminal_is_one_of_several_listeners(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    err, log = Console(file=Screen(), width=80), TrainingLog(tmp_path / "a.jsonl")
    terminal = Terminal(out=Console(file=io.StringIO()), err=err)
    with terminal.busy(), reporting(log), track("Training", 2) as advance:
        advance(1)
        tell(1, ALL)
    assert "Training" in err.file.getvalue()
    (line,) = read(log.file)
    assert ALL.items() <= line.items()
