"""Progress in a notebook or a terminal, where nobody else listens."""

import io
import pickle
import sys
import types
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from tests.experiments.loop.test_run import labeled_pool

import fewlabels
from fewlabels import progress
from fewlabels.experiments.evaluation import calibration
from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import ArrayImages, Split


@pytest.fixture
def cell(monkeypatch):
    """This process seems to be a notebook's; return the lines that it shows."""
    lines = []

    class Handle:
        def update(self, text, *, raw):
            lines.append(text["text/plain"])

    def display(text, *, raw, **_):
        Handle().update(text, raw=raw)
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    shown = types.ModuleType("IPython.display")
    shown.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return lines


OPTIONS = {"start": 8, "query": 4, "budget": 12, "strategy": "random"}


def supervised():
    return fewlabels.training.make("supervised", steps=20, minibatch_size=4)


def test_a_run_shows_its_trainings_without_a_line_of_setup(cell):
    list(fewlabels.run(labeled_pool(), trainer=supervised(), **OPTIONS))
    assert cell[0].startswith("Training 0/20")
    assert any("Training 20/20" in line and "loss" in line for line in cell)


def test_nothing_is_shown_twice_or_elsewhere(cell, monkeypatch):
    class Listener:
        def start(self, task, total, done):
            return 0

        def advance(self, handle, amount): ...
        def tell(self, step, figures): ...
        def finish(self, handle): ...

    with (
        progress.reporting(Listener()),
        progress.shown(),
        progress.track("x", 1),
    ):
        pass
    monkeypatch.delitem(sys.modules, "IPython")
    with progress.shown(), progress.track("x", 1):
        pass
    assert cell == []


def test_tasks_inside_tasks_share_a_line(cell):
    with (
        progress.shown(),
        progress.track("Runs", 2, done=1),
        progress.track("Training", 3) as advance,
    ):
        advance()
    assert cell[0] == "Runs 1/2"
    assert "Runs 1/2 · Training 1/3" in cell


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_a_script_shows_the_same_in_a_terminal_and_wipes_it(monkeypatch):
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    list(fewlabels.run(labeled_pool(), trainer=supervised(), **OPTIONS))
    written = screen.getvalue().split("\r")
    assert {len(line) for line in written} == {0, 79}
    assert "Training 0/20" in map(str.rstrip, written)
    assert not written[-2].strip()


@pytest.mark.parametrize("how", ["quiet", "file", "dumb", "none"])
def test_a_script_shows_nothing_where_nobody_looks(how, monkeypatch):
    streams = {"file": io.StringIO(), "none": None}
    monkeypatch.setattr(sys, "stderr", screen := streams.get(how, Screen()))
    monkeypatch.setenv("TERM", "dumb" if how == "dumb" else "xterm")
    asked = progress.quiet() if how == "quiet" else nullcontext()
    with asked, progress.shown(), progress.track("Runs", 2) as advance:
        advance()
    assert screen is None or screen.getvalue() == ""


# ---------------------------------------------------------------- what a round holds


def test_a_classifier_is_kept_on_request_and_never_pickled():
    pool, options = labeled_pool(), OPTIONS | {"trainer": supervised()}
    assert all(done.classifier is None for done in fewlabels.run(pool, **options))
    kept = list(fewlabels.run(pool, keep_classifier=True, **options))
    for done in kept:
        outputs = done.classifier.outputs(pool.test.images, torch.arange(20))
        right = outputs.logits.argmax(dim=1) == pool.test.labels
        assert float(right.double().mean()) == done.accuracy
        again = pickle.loads(pickle.dumps(done))
        assert again.classifier is None
        assert again.accuracy == done.accuracy


def test_calibration_is_that_of_a_loop_over_items():
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(300, 4, generator=generator)
    labels = torch.randint(4, (300,), generator=generator)
    images = ArrayImages(torch.zeros(300, 1))
    classifier = PrecomputedClassifier(torch.zeros(300, 1), logits)
    error, brier = calibration(classifier, Split(images, labels))
    gaps, squares = [0.0] * 15, 0.0
    for row, label in zip(
        logits.double().softmax(dim=1).tolist(), labels.tolist(), strict=True
    ):
        confidence = max(row)
        place = next(b for b in range(15) if confidence <= (b + 1) / 15)
        gaps[place] += (row.index(confidence) == label) - confidence
        squares += sum((p - (k == label)) ** 2 for k, p in enumerate(row))
    assert error == pytest.approx(sum(map(abs, gaps)) / 300)
    assert brier == pytest.approx(squares / 300)


def test_a_pool_is_shown_in_short():
    images = torch.zeros(50_000, 3, 32, 32, dtype=torch.uint8)
    pool = fewlabels.load(images[:, :, :1, :1].permute(0, 2, 3, 1), [1] * 50_000)
    assert len(repr(pool)) < 300
    assert repr(pool).startswith("Pool(50000 items of shape (3, 1, 1), 50000 labeled")
    assert len(repr(Split(pool.images, pool.labels))) < 300
    named = replace(pool, classes=("<a>", *pool.classes[1:]))
    assert "<tr><th>&lt;a&gt;</th><td>" in named._repr_html_()
