"""A training that was stopped goes on, and ends with the same bits."""

import os
import signal
import time
from functools import partial
from multiprocessing import get_context

import pytest
import torch
from tests.training.conftest import changed, tiny_pool
from tests.training.test_workspace import fit, same, undisturbed

from fewlabels import progress
from fewlabels.errors import DamagedWarning, DataChangedWarning, TrainingError
from fewlabels.training import loop, make

ALWAYS = {"steps": 12, "minibatch_size": 4, "save_every": 0.0, "checkpoint_every": 3}
TRAINERS = [
    make("supervised", **ALWAYS, dropout=0.2),
    make("fixmatch", **ALWAYS, mu=2, threshold=0.6),
    make("fixmatch", **ALWAYS, mu=2, threshold=0.6, momentum=0.0, forward="split"),
    make("fixmatch-darp", **ALWAYS, threshold=0.6, warmup=0.2, refine_every=3),
]

each_trainer = pytest.mark.parametrize("trainer", TRAINERS)


def stopped_at(*stops):
    """Stop all trainers in the middle, one at the edges; where there is time, all."""
    cases = [(trainer, stop) for trainer in TRAINERS for stop in stops]
    quick = [(trainer, stops[1]) for trainer in TRAINERS]
    quick += [(TRAINERS[3], stop) for stop in stops]  # which keeps the most
    slow = [pytest.mark.slow]
    return pytest.mark.parametrize(
        ("trainer", "stop"),
        [pytest.param(*one, marks=[] if one in quick else slow) for one in cases],
    )


class StoppedError(Exception):
    """The process is gone."""


@pytest.fixture
def stop_before(monkeypatch):
    """Let a training end before a step, once; record the steps that were done."""
    advance = loop.Stepper.advance
    done, stops = [], []

    def stopping(self, step, minibatch):
        if stops and step == stops[0]:
            stops.pop()
            raise StoppedError
        done.append(step)
        return advance(self, step, minibatch)

    monkeypatch.setattr(loop.Stepper, "advance", stopping)
    return done, stops.append


@stopped_at(1, 5, 11)
def test_it_goes_on_where_it_was(tmp_path, trainer, stop, stop_before):
    done, stop_at = stop_before
    expected = undisturbed(trainer)
    done.clear()
    stop_at(stop)
    with pytest.raises(StoppedError):
        fit(tmp_path, trainer)
    checkpoints = []
    found = fit(tmp_path, trainer, on_checkpoint=lambda s, _: checkpoints.append(s))
    assert same(found, expected)
    # What the last step did is only known to be good after the next.
    assert done == [*range(stop), *range(max(0, stop - 1), 12)]
    assert checkpoints == [s for s in (3, 6, 9, 12) if s >= stop]
    assert [path.name for path in tmp_path.glob("[!.]*")] == ["model.safetensors"]


def test_saving_now_and_then_repeats_a_few_steps(tmp_path, monkeypatch, stop_before):
    done, stop_at = stop_before
    trainer = TRAINERS[1]
    expected = undisturbed(trainer)
    done.clear()
    monkeypatch.setattr(
        "fewlabels.training.training.SavedState.is_due", lambda _: done[-1] % 4 == 3
    )
    stop_at(6)
    with pytest.raises(StoppedError):
        fit(tmp_path, trainer)
    assert same(fit(tmp_path, trainer), expected)
    assert done == [0, 1, 2, 3, 4, 5, *range(4, 12)]


@pytest.fixture
def asked_after(stop_before):
    """Fit; the wish to stop comes during a step, as a signal would bring it."""
    done, _ = stop_before

    def canceled(folder, trainer, step):
        interrupt = progress.Interrupt()

        def asked():
            if len(done) > step and not interrupt.is_asked:
                interrupt(signal.SIGINT, None)  # no exception: the training handles it
            return interrupt.is_asked

        with pytest.raises(progress.Canceled), progress.stopping(asked):
            fit(folder, trainer)
        return list(done)

    return canceled


@stopped_at(0, 6, 10)
def test_one_that_is_canceled_is_saved_however_seldom_that_is_done(
    tmp_path, trainer, stop, asked_after, stop_before
):
    done, _ = stop_before
    seldom = changed(trainer, save_every=1e9)
    # After the step in which it is asked, one more shows that its weights are good.
    assert asked_after(tmp_path, seldom, stop) == list(range(stop + 2))
    done.clear()
    found = fit(tmp_path, seldom)
    assert done == list(range(stop + 1, 12))
    assert same(found, undisturbed(trainer))


def test_without_a_folder_a_canceled_training_ends_at_once(asked_after):
    assert asked_after(None, TRAINERS[0], 5) == list(range(6))


def test_one_that_is_canceled_in_its_last_step_is_finished(
    tmp_path, asked_after, stop_before
):
    done, _ = stop_before
    seldom = changed(TRAINERS[1], save_every=1e9)
    assert asked_after(tmp_path, seldom, 11) == list(range(12))
    done.clear()
    assert same(fit(tmp_path, seldom), fit(None, seldom))
    assert done == list(range(12))  # all of them those of the second


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_a_damaged_state_counts_as_none(tmp_path, share, stop_before):
    done, stop_at = stop_before
    stop_at(7)
    with pytest.raises(StoppedError):
        fit(tmp_path, TRAINERS[1])
    path = tmp_path / "state.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    done.clear()
    with pytest.warns(DamagedWarning, match="begins with its first step"):
        found = fit(tmp_path, TRAINERS[1])
    assert same(found, undisturbed(TRAINERS[1]))
    assert done[:12] == list(range(12))


def test_a_changed_byte_of_the_state_is_found_out(tmp_path, stop_before):
    _, stop_at = stop_before
    stop_at(7)
    with pytest.raises(StoppedError):
        fit(tmp_path, TRAINERS[3])
    path = tmp_path / "state.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x55
    path.write_bytes(content)
    with pytest.warns(DamagedWarning, match="not those that were written"):
        found = fit(tmp_path, TRAINERS[3])
    assert same(found, undisturbed(TRAINERS[3]))


def test_the_state_of_another_training_is_left_out(tmp_path, stop_before):
    _, stop_at = stop_before
    stop_at(7)
    with pytest.raises(StoppedError):
        fit(tmp_path, TRAINERS[1])
    other = changed(TRAINERS[1], learning_rate=0.01)
    with pytest.warns(DataChangedWarning, match="6 steps of a training with other"):
        found = fit(tmp_path, other)
    assert same(found, fit(None, other))


def test_what_does_not_decide_the_outcome_may_change(tmp_path, stop_before):
    done, stop_at = stop_before
    stop_at(7)
    with pytest.raises(StoppedError):
        fit(tmp_path, TRAINERS[1])
    done.clear()
    fit(tmp_path, changed(TRAINERS[1], save_every=9.0, prefetch=2))
    assert done == list(range(6, 12))


@each_trainer
def test_making_minibatches_ahead_changes_nothing(trainer):
    assert same(fit(None, changed(trainer, prefetch=3)), undisturbed(trainer))


def test_a_lost_training_keeps_the_last_good_state(tmp_path, monkeypatch):
    trainer = make("fixmatch", **ALWAYS)
    rate_at = loop.Stepper.rate_at
    monkeypatch.setattr(
        loop.Stepper,
        "rate_at",
        lambda self, step: 1e30 if step == 7 else rate_at(self, step),
    )
    with pytest.raises(TrainingError, match=r"The state after 7 steps.*is in .*state"):
        fit(tmp_path, trainer)
    monkeypatch.setattr(loop.Stepper, "rate_at", rate_at)
    found = fit(tmp_path, trainer)
    weights = torch.cat([p.flatten() for p in found.module.parameters()])
    assert weights.isfinite().all()


def train_and_log(folder, log):
    """Train as a process of its own would, and note each step."""
    advance = loop.Stepper.advance

    def logged(self, step, minibatch):
        with log.open("a") as file:
            file.write(f"{step}\n")
        return advance(self, step, minibatch)

    loop.Stepper.advance = logged
    fit(folder, make("fixmatch", steps=30, minibatch_size=4, save_every=0.0))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_a_killed_process_goes_on(tmp_path):
    """A real SIGKILL, once some steps are done; then the same program again."""
    log, folder = tmp_path / "steps.txt", tmp_path / "work"
    forked = partial(get_context("fork").Process, target=train_and_log)
    log.touch()
    child = forked(args=(folder, log))
    child.start()
    while len(log.read_text().splitlines()) < 10 and child.is_alive():
        time.sleep(0.005)
    child.kill()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    before = len(log.read_text().splitlines())
    again = forked(args=(folder, log))
    again.start()
    again.join()
    assert again.exitcode == 0
    steps = [int(line) for line in log.read_text().splitlines()]
    assert steps[before] > 0
    assert len(steps) <= 34
    trainer = make("fixmatch", steps=30, minibatch_size=4)
    assert same(fit(folder, trainer), fit(None, trainer, pool=tiny_pool()))
