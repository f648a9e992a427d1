from tests.runs import toy

from fewlabels.runs.timing import Stopwatch, TimedTrainer


def test_a_timed_trainer_is_named_by_its_trainer_and_not_by_its_time():
    """What marks the evaluations of a training must not change while it runs."""
    fresh, used = Stopwatch(), Stopwatch({"train": 3.0})
    trainer = toy.Resuming()
    assert repr(TimedTrainer(trainer, fresh)) == repr(TimedTrainer(trainer, used))
    other = toy.Resuming(steps=41)
    assert repr(TimedTrainer(trainer, fresh)) != repr(TimedTrainer(other, fresh))


def test_time_for_measuring_is_no_time_of_training(monkeypatch):
    clock = iter([0.0, 1.0, 5.0, 7.0])  # training begins, measuring, and both end
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    watch = Stopwatch()
    with watch.running("train"), watch.running("measure"):
        pass
    assert dict(watch.seconds) == {"train": 3.0, "measure": 4.0}
