"""The study: its pages follow from its record, and its tests from theirs."""

import json

import pytest
import torch
from benchmarks import learner_tables, study_measures, study_report, study_tables
from benchmarks.study import SELECTORS, SOURCES, STAGES, planned
from benchmarks.study_data import Study

from fewlabels.gram.diffusion import Diffusion, diffusion_rows


@pytest.mark.parametrize("page", study_report.PAGES, ids=lambda page: page.name)
def test_pages_say_what_the_record_says(page):
    made = study_report.parts(*(Study.read(stage) for stage in STAGES))
    text = page.read_text("utf-8")
    assert study_report.filled(text, made) == text


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
