import json
import re
from pathlib import Path

import pytest
import yaml
from tests.experiments.bench import little

from fewlabels.cli.bench import build_experiment
from fewlabels.experiments import bench
from fewlabels.experiments.settings import Choice

FIELDS = yaml.safe_dump(json.loads(little.experiment(seeds=(0,)).model_dump_json()))


@pytest.fixture(autouse=True)
def _here(monkeypatch, request):
    """Do runs in this process, one after the other; draw for files in one test."""
    if request.function is not test_run_then_report_then_verify:
        monkeypatch.setattr("fewlabels.report.figures.Drawing.save", lambda *_: None)
    monkeypatch.setattr(
        "fewlabels.jobs.LocalExecutor", lambda *_, **options: little.Here()
    )


@pytest.fixture
def fewlabels(fewlabels):
    """Call the command line, with leave to import the trainer that toy.yaml names."""

    def call(*words):
        needs_leave = words[:2] in {("bench", "run"), ("bench", "verify")}
        return fewlabels(*words, *(("--allow-code",) if needs_leave else ()))

    return call


@pytest.fixture
def toy(tmp_path):
    (tmp_path / "toy.yaml").write_text(FIELDS)
    return "toy.yaml"


def test_list_names_every_recipe_and_its_cost(fewlabels):
    code, out, err = fewlabels("bench", "list")
    assert code == 0, err
    words = out.split()
    assert set(bench.names()) <= set(words)
    code, out, _ = fewlabels("bench", "list", "--json")
    assert [one["name"] for one in json.loads(out)] == list(bench.names())


def test_a_dry_run_says_the_cost_and_does_nothing(fewlabels, toy, tmp_path):
    code, out, err = fewlabels("bench", "run", toy, "--dry-run")
    assert code == 0, err
    assert "3 runs with 5 trainings of 40 steps" in out
    assert "finished: 0 of 3 runs; trainings left: 5, about 2 seconds" in out
    assert not (tmp_path / "bench").exists()
    code, out, _ = fewlabels("bench", "run", toy, "--dry-run", "--json")
    (cost,) = json.loads(out)
    assert (cost["num_cells"], cost["num_trainings_left"]) == (3, 5)


def test_the_papers_tables_take_139_trainings(fewlabels):
    tables = ["table1_cifar10", "table2_cifar100"]
    tables += ["table3_zero_shot", "table3_single_shot", "figure1_iou"]
    code, out, err = fewlabels("bench", "run", *tables, "--dry-run")
    assert code == 0, err
    assert "Total: 139 trainings of 2^20 steps, and 12 for other readings" in out


def test_run_then_report_then_verify(fewlabels, toy, tmp_path):
    code, out, err = fewlabels("bench", "run", toy)
    assert code == 0, err
    assert "[3/3] margin, 20 labels, seed 0:" in err
    page = tmp_path / "bench" / "reports" / "toy" / "index.html"
    assert f"Report: {page}" in out.replace("\n", "")
    assert page.stat().st_size > 10_000
    code, again, err = fewlabels("bench", "run", toy)
    assert code == 0
    assert "finished: 3 of 3 runs; trainings left: 0" in again
    assert "[" not in err
    page.unlink()
    code, out, err = fewlabels("bench", "report", "bench")
    assert code == 0, err
    assert page.exists()
    code, out, err = fewlabels("bench", "verify", "bench")
    assert code == 0, err
    assert "Identical" in out


def test_seeds_and_strategies_are_added(fewlabels, toy):
    fewlabels("bench", "run", toy, "--strategies", "random", "--quiet")
    words = ("--strategies", "random,entropy", "--seeds", "2", "--json")
    code, out, err = fewlabels("bench", "run", toy, *words)
    assert code == 0, err
    assert json.loads(out)["failed"] == 0
    folder = bench.BenchFolder(Path("bench"))
    asked = folder.experiments()["toy"]
    assert asked.seeds == (0, 1)
    assert [one.name for one in asked.strategies] == ["random", "entropy"]


def test_a_failing_run_makes_the_command_fail_after_the_others(fewlabels, toy):
    names = "tests.experiments.bench.little:Failing,random"
    code, out, err = fewlabels("bench", "run", toy, "--strategies", names)
    assert code == 1
    assert "failed: RuntimeError: nothing left to say" in err
    assert "[3/3] random" in err
    assert "Report:" in out


def test_failures_are_counted_by_experiment_and_reports_found_by_name(
    fewlabels, tmp_path
):
    failing = little.experiment(seeds=(0,), strategies=(little.FAILING,))
    for name, one in (("broken", failing), ("well-done", little.experiment())):
        fields = json.loads(one.model_dump_json()) | {"name": name, "seeds": [0]}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(fields))
    files = ("broken.yaml", "well-done.yaml")
    code, out, _ = fewlabels("bench", "run", *files, "--json")
    assert code == 1
    assert [json.loads(line)["failed"] for line in out.splitlines()] == [1, 0]
    code, out, err = fewlabels("bench", "report", "bench", "well-done")
    assert code == 0, err
    assert "well-done" in out
    code, _, err = fewlabels("bench", "report", "bench", "broke")
    assert code == 2
    assert "'broken'" in err


def test_a_name_stands_for_all_strategies_that_have_it(monkeypatch):
    twice = (Choice(name="npc"), Choice(name="npc", options={"draws": 5}))
    experiment = little.experiment(strategies=(*twice, Choice(name="random")))
    monkeypatch.setattr(bench, "recipe", lambda _: experiment)
    found = build_experiment(
        "toy", "npc, entropy", None, None, allow_code=False
    ).strategies
    assert [one.copy_with(made=None) for one in found] == [
        *twice,
        Choice(name="entropy"),
    ]


def test_a_different_outcome_makes_verify_fail(fewlabels, toy, tmp_path):
    fewlabels("bench", "run", toy, "--quiet")
    for file in (tmp_path / "bench" / "cells").glob("*/rounds.jsonl"):
        changed = file.read_text().replace('"accuracy": 0.', '"accuracy": 0.9')
        file.write_text(re.sub(', "checksum": "[^"]*"', "", changed))
    code, out, _ = fewlabels("bench", "verify", "bench")
    assert code == 1
    assert "accuracy was 0.9" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "digit"), "'digits'"),
        (("run", "digits", "--strategies", "mystery"), "mystery"),
        (("run", "digits", "--seeds", "many"), "The seeds are 'many'"),
        (("run", "digits", "--seeds", "0"), "The seeds are '0'"),
        (("run", "digits", "--engine", "cloud"), "cloud"),
        (("run", "digits", "--strategies", "npc,npc"), "is there 2 times; give"),
        (("run", "nothing.yaml"), "could not be read"),
        (("run", "digits", "--seeds", "9" * 30), "at most 10,000"),
        (("run", "digits", "--seeds", f"0-{'9' * 30}"), "at most 10,000"),
        (
            ("run", "digits", "--address", "a:1"),
            "--address a:1 works only with --engine ray",
        ),
        (
            ("run", "digits", "--engine", "ray", "--workers", "2"),
            "--workers 2 works only with --engine local",
        ),
        (("report", "nowhere"), "does not contain a benchmark"),
        (("verify", "nowhere"), "does not contain a benchmark"),
    ],
)
def test_mistakes_are_told_in_a_sentence(fewlabels, tmp_path, words, message):
    code, _, err = fewlabels("bench", *words)
    assert code in {1, 2}
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "bench").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "../outside"}, "The setting 'name' is '../outside'"),
        ({"name": "a/b"}, "files are named by it"),
        ({"name": ""}, "files are named by it"),
        ({"name": "x" * 101}, "files are named by it"),
        ({"retrainings": -1}, "'retrainings' is -1"),
        ({"footprint": {"seconds_per_step": float("nan"), "megabytes": 1}}, "nan"),
        ({"query": 0}, "query 0 and budget"),
        ({"budget": 5}, "start is 10, query 5 and budget 5"),
        ({"threads": 0}, "threads is 0"),
        ({"initial_models": 0}, "initial_models is 0"),
        ({"data": {"name": "digits", "sise": 3}}, "Did you mean 'size'?"),
        ({"data": {"name": "digits", "size": "big"}}, "'size' is 'big'"),
    ],
)
def test_an_experiment_that_cannot_be_done_is_refused_before_it_begins(
    fewlabels, tmp_path, change, message
):
    fields = yaml.safe_load(FIELDS)
    ((name, value),) = change.items()
    settings = fields["conditions"][0]["settings"]
    (fields if name in fields else settings)[name] = value
    (tmp_path / "odd.yaml").write_text(yaml.safe_dump(fields))
    code, _, err = fewlabels("bench", "run", "odd.yaml")
    assert code == 2
    assert "The experiment 'odd.yaml' cannot be done." in err
    assert message in err
    assert [one.name for one in tmp_path.iterdir()] == ["odd.yaml"]


def test_even_a_dry_run_refuses_a_folder_of_something_else(fewlabels, toy, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").touch()
    code, out, err = fewlabels("bench", "run", toy, "--out", "photos", "--dry-run")
    assert code == 1
    assert "contains 'cat.png'" in err
    assert not out


def test_other_conditions_under_the_same_name_are_told(fewlabels, toy, tmp_path):
    words = ("bench", "run", toy, "--strategies", "random")
    fewlabels(*words)
    _, _, err = fewlabels(*words)
    assert "different conditions" not in err
    (tmp_path / toy).write_text(FIELDS.replace("budget: 20", "budget: 15"))
    code, _, err = fewlabels(*words)
    assert code == 0
    assert "Note: 'toy' had different conditions, or a different trainer" in err


def test_one_seed_can_be_named(fewlabels, toy):
    code, out, err = fewlabels("bench", "run", toy, "--seeds", "7,", "--dry-run")
    assert code == 0, err
    assert "3 runs" in out


def test_steps_can_be_measured_first(fewlabels):
    words = ("digits", "--dry-run", "--measure", "2", "--seeds", "1")
    code, out, err = fewlabels("bench", "run", *words)
    assert code == 0, err
    assert "digits: 2 steps took" in out
    assert "measured now" in out
