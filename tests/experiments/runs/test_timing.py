from fewlabels.experiments.runs import Stopwatch


def test_time_for_measuring_is_no_time_of_training(monkeypatch):
    clock = iter([0.0, 1.0, 5.0, 7.0])  # training begins, measuring, and both end
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    watch = Stopwatch()
    with watch.running("train"), watch.running("measure"):
        pass
    assert dict(watch.seconds) == {"train": 3.0, "measure": 4.0}
