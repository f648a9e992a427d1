"""Results as tables: frames, files, reprs; what is written besides; other settings."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet
from tests.experiments.bench.little import Here, experiment

from fewlabels import errors
from fewlabels.cli.bench import with_settings
from fewlabels.experiments.bench import BenchFolder, checked, read_results, recipe, run
from fewlabels.experiments.bench.experiment import plan
from fewlabels.experiments.bench.runner import estimate, num_trainings


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A benchmark of two strategies, two seeds and three rounds, all done."""
    folder = BenchFolder(tmp_path_factory.mktemp("bench"))
    folder.open()
    asked = folder.ask_for(experiment())
    ended = list(run(asked, folder, Here(), predictions=True))
    assert [each.error for each in ended] == [None] * len(ended)
    assert all(str(each) == f"{each.cell.label}: finished" for each in ended)
    return folder


def test_results_are_what_is_in_the_folder(folder):
    results = read_results(folder.path)
    assert results.num_finished == 4
    bare = experiment().copy_with(conditions=experiment().conditions)
    for asked in ("toy", bare, str):
        same = read_results(str(folder.path), None if asked is str else asked)
        assert same.rows == results.rows
    with pytest.raises(errors.UnknownNameError, match="toy"):
        read_results(folder, "other")


def test_which_experiment_to_read_has_to_be_clear(tmp_path):
    folder = BenchFolder(tmp_path / "b")
    folder.open()
    with pytest.raises(errors.UsageError, match=r"has 0 experiments: none\. Run one"):
        read_results(folder)
    for name in "ab":
        folder.ask_for(experiment(name=name))
    with pytest.raises(errors.UsageError, match=r"has 2 experiments: a, b\. Run one"):
        read_results(folder)


def test_a_frame_has_a_row_per_seed_strategy_and_round(folder):
    frame = read_results(folder).to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == 2 * 2 * 3
    assert (
        frame.groupby(["strategy", "seed"])["num_labeled"].apply(list).tolist()
        == [[10, 15, 20]] * 4
    )
    measured = frame[["accuracy", "calibration_error", "brier_score"]]
    assert measured.notna().all(axis=None)
    assert (frame["train_seconds"] >= 0).all()
    page = Path(__file__).parents[3] / "docs" / "experiments.md"
    text = page.read_text("utf-8")
    shown = text[text.index("| column |") : text.index("`results.write(")]
    assert set(re.findall("`([a-z_]+)`", shown)) == set(frame)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_tables_hold_the_same_as_the_frame(folder, tmp_path, ending):
    results, file = read_results(folder), tmp_path / f"results.{ending}"
    results.write(file)
    read = pd.read_csv(file) if ending == "csv" else pd.read_parquet(file)
    wanted = results.to_frame()
    assert list(read.columns) == list(wanted.columns)
    assert np.allclose(read["accuracy"], wanted["accuracy"])
    with pytest.raises(errors.UsageError, match=r"Give .* the ending \.csv or"):
        results.write(tmp_path / "results.xls")


def test_without_pandas_it_is_said_what_to_install(folder, monkeypatch):
    monkeypatch.setattr("fewlabels.names.find_spec", lambda _: None)
    with pytest.raises(errors.UsageError, match="pip install 'pandas'"):
        read_results(folder).to_frame()


def test_experiments_are_shown_in_short(folder):
    shown = repr(read_results(folder).experiment)
    assert "random" in shown
    assert len(shown) < 200


def test_results_are_shown_in_short(folder):
    results = read_results(folder)
    assert "finished=4 of 4 runs" in repr(results)
    assert len(repr(results)) < 500
    assert "<th>margin</th>" in results._repr_html_()


def test_predictions_of_a_round_are_a_table(folder):
    cell = plan(experiment()).cells[0]
    file = folder.run_folder(cell).path / "round-001" / "predictions.parquet"
    table = parquet.read_table(file).to_pandas()
    assert table["split"].value_counts().to_dict() == {"pool": 1297, "test": 500}
    test = table[table["split"] == "test"]
    accuracy = (test["label"] == test["predicted"]).mean()
    assert accuracy == folder.result(cell).lines[1].accuracy
    rows = np.stack(test["probabilities"])
    assert np.allclose(rows.sum(axis=1), 1, atol=1e-5)


def test_settings_of_all_conditions_can_be_replaced():
    changed = with_settings(
        experiment(conditions=recipe("digits").conditions),
        {"budget": 20, "query": 10, "trainer.precision": "bf16-mixed"},
    )
    for condition in changed.conditions:
        assert condition.settings.budget == 20
        assert condition.settings.trainer.options["precision"] == "bf16-mixed"
        assert condition.settings.trainer.made.options["precision"] == "bf16-mixed"
    for wrong in ("trainer", "strategy.draws", "bugdet"):
        with pytest.raises(errors.UnknownNameError):
            with_settings(experiment(), {wrong: 1})
    with pytest.raises(errors.UsageError, match="budget"):
        with_settings(experiment(), {"budget": "many"})


def test_hours_of_gpus_come_from_published_steps(tmp_path):
    folder = BenchFolder(tmp_path)
    cost = estimate(checked(recipe("table1_cifar10")), folder, num_workers=2)
    # Six hours for 2^20 steps, of as many images.
    assert cost.gpu_hours["A100 in mixed precision"] == pytest.approx(
        6 * cost.num_trainings
    )
    assert cost.core_days > 1000
    assert estimate(experiment(), folder, num_workers=2).gpu_hours == {}


def test_a_run_without_queries_is_not_its_own_beginning():
    balanced = checked(recipe("balanced_fixmatch"))
    assert num_trainings([balanced]) == len(plan(balanced).all) == 5
