"""The live view: what it shows of a task, and that it fits the terminal."""

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fewlabels.cli.live import Bars, Figure, figure_lines, short
from fewlabels.cli.terminal import Terminal
from fewlabels.journal import JsonLines, read
from fewlabels.progress import reporting, tell, track

ALL = {
    "supervised": 0.2,
    "consistency": 0.1,
    "learning-rate": 0.046123,
    "kept": 0.633,
    "kept-refined": 0.58,
    "images-per-second": 12_345.6,
    "loss": 0.41234,
    "accuracy": 0.912,
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


def figures_of(**values):
    return {name: Figure(value).then(value, 0.5) for name, value in values.items()}


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            120,
            [
                "loss       0.412     ▄       kept     63.3 %  images        12.3k/s"
                "  supervised    0.200",
                "accuracy  91.2 %     ▄       refined  58.0 %  learning rate  0.0461"
                "  consistency   0.100",
            ],
        ),
        (
            80,
            [
                "loss       0.412     ▄       kept     63.3 %  images        12.3k/s",
                "accuracy  91.2 %     ▄       refined  58.0 %  learning rate  0.0461",
            ],
        ),
        (
            60,
            [
                "loss       0.412     ▄       kept     63.3 %",
                "accuracy  91.2 %     ▄       refined  58.0 %",
            ],
        ),
        (20, []),
    ],
)
def test_figures_stand_in_two_lines_and_fit(width, expected):
    figures = {name: Figure(value).then(value, 0.41) for name, value in ALL.items()}
    bars = Bars(console(width))
    with reporting(bars), track("Training", 600) as advance:
        advance(246)
        tell(246, ALL)
        above, *below = shown(bars, width)
        assert above.startswith("Training     "[: width // 2])
        assert [line.removeprefix(" " * 13) for line in below] == expected
    lines = figure_lines(figures, width - 13)
    assert [str(line).rstrip() for line in lines] == expected
    assert all(len(line) <= width - 13 for line in lines)


@given(st.integers(1, 200), st.sets(st.sampled_from([*ALL, "odd", "strange name"])))
def test_nothing_is_wider_than_the_terminal(width, names):
    figures = figures_of(**dict.fromkeys(names, 123.456))
    lines = figure_lines(figures, width)
    assert len(lines) <= 2
    assert len({len(line) for line in lines}) <= 1
    assert all(len(line) <= width for line in lines)


def test_a_figure_that_comes_later_moves_no_other():
    early = {name: value for name, value in ALL.items() if name != "accuracy"}
    before, after = (
        figure_lines(figures_of(**figures), 107) for figures in (early, ALL)
    )
    assert str(before[0]) == str(after[0])
    assert str(before[1]).strip() == str(after[1])[29:].strip()


def test_figures_of_others_are_shown_by_their_names():
    lines = figure_lines(figures_of(margin=0.12345, entropy=1234.5), 60)
    words = [str(line).split() for line in lines]
    assert words == [["margin", "0.123"], ["entropy", "1.23e+03"]]


def test_without_bars_of_several_heights_there_are_no_curves():
    lines = figure_lines(figures_of(loss=0.5, kept=0.25), 60, has_curves=False)
    assert [str(line).rstrip() for line in lines] == [
        "loss       0.500  kept     25.0 %"
    ]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([], "          "),
        ([(0.5, 0.1)], "▄         "),
        ([(0.5, 0.0), (0.5, 1.0)], "▄▄▄▄▄▄▄▄▄▄"),
        ([(share / 10, share / 10) for share in range(1, 11)], "▁▂▂▃▄▄▅▆▆▇"),
        ([(7.0, 0.1), (5.0, 0.1), (0.0, 0.2)], "▇▁        "),  # a mean in a tenth
        ([(0.0, 0.55), (1.0, 0.6), (4.0, 0.9)], "     ▁▁▁▇ "),  # taken up again
        ([(1.0, 0.1), (math.nan, 0.2), (math.inf, 0.2), (0.0, 0.3)], "▇▇▁       "),
        ([(1.0, 0.1), (0.0, 7.0)], "▇▇▇▇▇▇▇▇▇▁"),  # more steps than announced
    ],
)
def test_a_curve_goes_along_with_the_bar(told, expected):
    figure = Figure(0.0)
    for value, share in told:
        figure = figure.then(value, share)
    assert figure.curve == expected
    assert figure.value is told[-1][0] if told else True


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0.0"), (99.94, "99.9"), (100, "100"), (999.4, "999"), (999.5, "1.0k"),
        (999_900, "999.9k"), (1_000_000, "1.0M"), (math.nan, "nan"),
    ],
)  # fmt: skip
def test_large_numbers_are_short(value, expected):
    assert short(value) == expected


def test_what_is_not_finite_is_said():
    lines = figure_lines(figures_of(**dict.fromkeys(ALL, math.nan)), 107)
    assert str(lines[0]).split()[:2] == ["loss", "nan"]


def test_the_last_task_has_the_figures_and_they_go_with_it():
    bars = Bars(console())
    with reporting(bars):
        with track("Run", 2), track("Training", 1000, done=400) as advance:
            advance(100)
            tell(500, {"loss": 0.5})
            run, training, figures = shown(bars)
            assert run.split() == ["Run", "0/2"]
            assert "500/1,000" in training
            assert figures.split() == ["loss", "0.500", "▄"]
            tell(600, {"kept": 0.25})
            assert "loss" in shown(bars)[2]
            assert "kept" in shown(bars)[2]
        tell(600, {"accuracy": 0.5})  # no bar, nothing to show
        with track("Search", 3):
            assert len(shown(bars)) == 1
    assert shown(bars) == []


def test_the_time_left_is_guessed_from_the_pace_of_this_sitting():
    clock = [0.0]
    bars = Bars(console(get_time=lambda: clock[0]))
    with reporting(bars), track("Training", 10_000, done=9_000) as advance:
        assert "left" not in shown(bars)[0]
        for _ in range(4):
            clock[0] += 45.0
            advance(5)
        assert shown(bars)[0].endswith(" 9,020/10,000  2:27:00 left")
        clock[0] += 150.0
        advance(900)  # 915 units since the first 5, in 285 seconds
        assert shown(bars)[0].endswith(" 9,920/10,000  0:25 left")


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
    terminal = Terminal(Console(file=io.StringIO()), err, is_quiet=kind == "quiet")
    with terminal.busy(), track("Training", 2) as advance:
        advance(1)
        tell(1, ALL)
    assert stream.getvalue() == ""


def test_a_terminal_is_one_of_several_listeners(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    err, lines = Console(file=Screen(), width=80), JsonLines(tmp_path / "a.jsonl")
    terminal = Terminal(Console(file=io.StringIO()), err)
    with terminal.busy(), reporting(lines), track("Training", 2) as advance:
        advance(1)
        tell(1, ALL)
    assert "Training" in err.file.getvalue()
    (line,) = read(lines.path)
    assert ALL.items() <= line.items()
