import pytest
from tests.experiments.runs import toy
from tests.training.conftest import tiny_pool

from fewlabels.errors import UsageError
from fewlabels.experiments.execution import Stopwatch, TimedTrainer
from fewlabels.names import identity
from fewlabels.protocols import Trainer
from fewlabels.training import make


def test_a_timed_trainer_is_named_by_its_trainer_and_not_by_its_time():
    """What marks the evaluations of a training must not change while it runs."""
    fresh, used = Stopwatch(), Stopwatch({"train": 3.0})
    trainer = toy.Resuming()
    told = identity(TimedTrainer(trainer, fresh))
    assert told == identity(TimedTrainer(trainer, used)) == identity(trainer)
    assert told != identity(TimedTrainer(toy.Resuming(steps=41), fresh))


def test_time_for_measuring_is_no_time_of_training(monkeypatch):
    clock = iter([0.0, 1.0, 5.0, 7.0])  # training begins, measuring, and both end
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    watch = Stopwatch()
    with watch.running("train"), watch.running("measure"):
        pass
    assert dict(watch.seconds) == {"train": 3.0, "measure": 4.0}


def test_what_a_trainer_promises_is_passed_on():
    trainer = make("fixmatch", steps=30)
    timed = TimedTrainer(trainer, Stopwatch())
    assert isinstance(timed, Trainer)
    assert timed.identity == trainer.identity
    assert timed.num_steps == 30
    frozen = TimedTrainer(make("frozen-fixmatch"), Stopwatch())
    with pytest.raises(UsageError, match="need no encoder"):
        frozen.check(tiny_pool(shape=(6,)))
