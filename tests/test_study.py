"""The study: its pages follow from its record, and its tests from theirs."""

import json

import pytest
import torch
from benchmarks import (
    learner_tables,
    practical_tables,
    study_measures,
    study_report,
    study_tables,
)
from benchmarks.study import SELECTORS, SOURCES, STAGES, planned
from benchmarks.study_data import Study

from fewlabels.experiments import evaluation
from fewlabels.gram.diffusion import Diffusion, diffusion_rows


@pytest.mark.parametrize("page", study_report.PAGES, ids=lambda page: page.name)
def test_pages_say_what_the_record_says(page):
    made = study_report.parts(*(Study.read(stage) for stage in STAGES))
    text = page.read_text("utf-8")
    assert study_report.filled(text, made) == text


def test_long_tables_say_what_the_record_says():
    made = study_report.parts(*(Study.read(stage) for stage in STAGES))
    files = {study_report.table_path(name): name for name in study_report.LONG}
    assert set(study_report.TABLES.iterdir()) == set(files)
    for path, name in files.items():
        assert path.read_text("utf-8") == study_report.as_csv(made[name]())


def test_a_table_as_csv():
    text = (
        "Even pools:\n\n| learner | 10, 20 |\n|---|---|\n| `ot` | *5* |\n\n(8 pools.)\n"
    )
    other = "\n| digits | 10, 20 |\n|---|---|\n| a |  |\n"
    expected = 'table,row,"10, 20"\nEven pools,ot,5\ndigits,a,\n'
    assert study_report.as_csv(text + other) == expected


def line(selector, pool, accuracy, data="digits", **other):
    told = {"stage": "screen", "data": data, "head": "spreading", "query": 10}
    labels = {"labels": [0, 10, 20, 30, 40], "accuracy": [0.1, *([accuracy] * 4)]}
    return told | labels | {"selector": selector, "pool": pool} | other


def test_only_pools_that_are_whole_count(tmp_path):
    path = tmp_path / "study.jsonl"
    lines = [
        line(name, pool, 0.5 + 0.1 * pool + 0.2 * (name == "npc"), data)
        for name in ("random", "npc")
        for pool in range(3)
        for data in ("digits", "mnist")
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines[:-1]))
    study = Study.read("screen", path)
    data = study.data("spreading")
    assert data == ["digits", "mnist"]
    assert study.pools("spreading", data) == [0, 1]
    assert study.means("spreading", "npc", 2, data) == pytest.approx([70, 80])
    assert "+20.0" in study_tables.tests(study, "npc", ["random"])
    assert study_tables.ranking(study).index("npc") < study_tables.ranking(study).index(
        "random"
    )


def test_every_strategy_is_planned_on_every_pool():
    every = [one.name for one in SOURCES]
    plans = list(planned("screen", every, ["spreading"], list(SELECTORS)))
    assert len(plans) == 2 * sum(not one.is_slow for one in SOURCES)
    conditions = plans[0][2].conditions
    assert len({one.settings.data.options["seed"] for one in conditions}) == 10


def test_measures_of_a_set_are_those_of_dense_matrices():
    draws = torch.Generator().manual_seed(0)
    features = torch.randn(60, 7, generator=draws).double()
    graph = diffusion_rows(features, Diffusion(num_neighbors=5))
    items = torch.tensor([3, 17, 40, 41])
    told = study_measures.measures(features, graph, items)
    gram = features[items] @ features[items].T + 1
    values = torch.linalg.eigvalsh(gram)
    assert told["smallest eigenvalue"] == pytest.approx(float(values[0]))
    assert told["log-determinant"] == pytest.approx(float(values.log().sum()))
    kernel = graph.rows @ graph.rows.T
    noise = (0.01 + graph.remainder) * torch.eye(4).double()
    known = kernel[items][:, items] + noise
    left = kernel - kernel[:, items] @ torch.linalg.solve(known, kernel[items])
    assert told["trace left"] == pytest.approx(float(left.trace()))
    largest = float(torch.linalg.eigvalsh(left)[-1])
    assert told["largest eigenvalue left"] == pytest.approx(largest)


def test_learners_are_marked_where_tests_hold_after_correction():
    draws = torch.Generator().manual_seed(0)
    noise = torch.randn(3, 5, generator=draws).tolist()
    rival = {seed: 50.0 + 5 * seed for seed in range(5)}
    shifts = {"much better": 20, "much worse": -20, "level": 0}
    others = {
        name: {
            seed: value + shift + noise[number][seed] for seed, value in rival.items()
        }
        for number, (name, shift) in enumerate(shifts.items())
    }
    found = {"fixmatch-darp": rival, "seen once": {0: 99.0}, **others}
    marks = learner_tables.significant(found)
    assert marks == {"much better": " ▲", "much worse": " ▼"}


@pytest.fixture
def practical(tmp_path, monkeypatch):
    """Return a function that takes runs, and the tables made of them."""
    caches = (practical_tables.compared, practical_tables.savings)
    path = tmp_path / "practical.jsonl"
    monkeypatch.setattr(practical_tables, "RECORD", path)
    monkeypatch.setattr(practical_tables.heads, "RECORD", tmp_path / "heads.jsonl")

    def record(runs):
        place = {"stage": "confirm", "learner": "blend", "labels": [0, *BUDGETS]}
        lines = [
            place
            | {"data": data, "strategy": name, "pool": pool, "seconds": [1.0] * 7 + [0]}
            | {"accuracy": [0.1, *([accuracy] * 7)]}
            for (data, name, pool), accuracy in runs.items()
        ]
        path.write_text("".join(json.dumps(one) + "\n" for one in lines))
        return practical_tables

    for cached in (*caches, practical_tables._learners):
        cached.cache_clear()
    yield record
    for cached in (*caches, practical_tables._learners):
        cached.cache_clear()


BUDGETS = practical_tables.LABELS


def test_strategies_are_compared_on_pools_that_all_of_them_have(practical):
    runs = {
        ("cifar10", name, pool): 0.5 + 0.01 * pool + 0.1 * (name == "uherding")
        for name in ("random", "uherding", "margin")
        for pool in range(4)
    }
    del runs["cifar10", "margin", 3]
    runs["cifar10", "badge", 0] = 0.5  # fewer than half of the pools
    comparison = practical(runs).compared("confirm", "cifar10")
    assert comparison.num_pools == 3
    assert set(comparison.scores) == {"random", "uherding", "margin"}
    assert comparison.left_out == {"badge": 1}
    assert comparison.mean_over_random("uherding") == pytest.approx([10] * 3)
    assert (
        practical_tables.compared("confirm", "cifar10", only="uherding").num_pools == 4
    )
    assert "61.0 (+10.0 ± 0.0)" in practical_tables.accuracies("confirm")


def test_the_ranking_takes_the_largest_block_without_a_gap(practical):
    draws = torch.Generator().manual_seed(0)
    runs = {
        (data, name, pool): 0.5
        + 0.05 * number
        + 0.01 * torch.rand(1, generator=draws)[0]
        for data in ("cifar10", "20 groups", "mnist")
        for number, name in enumerate(("random", "uherding", "typiclust"))
        for pool in range(5)
        if (data, name) != ("mnist", "typiclust")
    }
    made = practical({place: float(value) for place, value in runs.items()})
    ranking = made.ranking_of("confirm")
    assert ranking.data == ["cifar10", "20 groups"]
    assert ranking.names == ["typiclust", "uherding", "random"]
    assert "The mean leaves out MNIST" in made.ranking("confirm")
    alone = practical_tables.Ranking(ranking.comparisons, ["cifar10"], ranking.names)
    middle, half = alone.difference("typiclust", "uherding")
    values = {
        name: ranking.comparisons["cifar10"].mean_accuracy(name).tolist()
        for name in ("typiclust", "uherding")
    }
    [test] = evaluation.paired_tests(values, against="uherding")
    assert (middle - half, middle + half) == pytest.approx((test.low, test.high))


def test_an_empty_record_makes_pages_without_numbers(practical):
    made = practical({})
    assert {part() for part in made.parts().values()} >= {made.NOTHING}


def test_learners_are_compared_with_the_better_of_two(practical):
    made = practical({})
    accuracies = {
        "spreading": [0.6] * 6,
        "linear": [0.5] * 5 + [0.7],
        "blend": [0.65] * 6,
    }
    line = {"data": "cifar10", "pool": 0, "labels": made.heads.LABELS}
    for name, values in accuracies.items():
        other = {"log_loss": 1.0, "calibration_error": 0.05}
        line[name] = [{"accuracy": value} | other for value in values]
    made.heads.RECORD.write_text(json.dumps(line) + "\n")
    assert "| *+5.0* | *-5.0* |" in made.learners()
    assert "by +3.3 points" in made.blend_in_short()
    assert "by -5.0 at worst (CIFAR-10, 640 labels)" in made.blend_in_short()
    assert "| 1.00 / 5.0 |" in made.calibration()
