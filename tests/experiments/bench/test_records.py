"""Records of finished benchmarks, from which the documents are made."""

import json
import shutil

from benchmarks import twins
from tests.experiments.bench import little

from fewlabels.experiments.bench.experiment import plan


def test_a_record_has_the_finished_runs_of_a_folder(finished, tmp_path, monkeypatch):
    folder, *_ = finished
    copy = tmp_path / "bench"
    shutil.copytree(folder.path, copy)
    unfinished = plan(little.experiment()).cells[-1]
    (copy / "cells" / unfinished.address / "rounds.jsonl").unlink()
    monkeypatch.setattr(twins, "RESULTS", tmp_path)
    twins.keep(copy)
    text = (tmp_path / "toy.jsonl").read_text("utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    kept = [(line["strategy"], line["seed"]) for line in lines]
    assert kept == [("random", 0), ("random", 1), ("margin", 0)]
    for line in lines:
        first, *_ = line["rounds"]
        assert len(line["start"]) == first["num_labeled"] == 10
        assert len(first["ids"]) == 5
        assert all(name.isdecimal() for name in [*line["start"], *first["ids"]])


def twin(*rows):
    """A record; each row is strategy, seed, accuracies, what is asked for."""
    return twins.Twin(
        [
            {
                "condition": "",
                "strategy": strategy,
                "seed": seed,
                "start": ["0"],
                "rounds": [
                    {"num_labeled": n, "accuracy": accuracy, "ids": ids}
                    for n, accuracy, ids in zip((50, 70), reached, asked, strict=True)
                ],
            }
            for strategy, seed, reached, asked in rows
        ]
    )


def test_twins_compare_trials_that_every_strategy_has_finished():
    found = twin(
        ("random", 0, (0.7, 0.80), (["1"], [])),
        ("random", 1, (0.7, 0.82), (["2"], [])),
        ("random", 2, (0.7, 0.50), (["3"], [])),
        ("badge", 1, (0.7, 0.92), (["4"], [])),
        ("badge", 0, (0.7, 0.91), (["5"], [])),
    )
    assert found.seeds("") == [0, 1]
    assert found.accuracies("random", 70) == [80.0, 82.0]
    assert found.difference("badge", "random", 70) == "+10.5 (+4.1 to +16.9)".join(
        ("**", "**")
    )


def test_intervals_of_twins_end_at_the_ends_of_the_scale():
    assert twins._mean([99.0, 100.0]) == "99.5 (93.1 to 100.0)"
    assert twins._mean([0.0, 2.0]) == "1.0 (0.0 to 13.7)"
