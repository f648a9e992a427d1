"""The table that the page and the command line share."""

import pytest
from tests.report.conftest import Writer

from fewlabels.errors import UsageError
from fewlabels.report import AccuracyRow, AccuracyTable, accuracy_table


def test_rows_are_runs_and_columns_are_numbers_of_labels(npc, random):
    assert accuracy_table([npc, random]) == AccuracyTable(
        num_labels=(3, 7, 11),
        rows=(
            AccuracyRow("npc", 1, (0.742, 0.954, 0.972)),
            AccuracyRow("random", 0, (0.742, 0.896, 0.931)),
        ),
    )


def test_a_run_that_is_not_finished_fills_its_row_in_part(npc, tmp_path, pool):
    half = Writer(tmp_path / "half", pool, "margin").add(0.7).folder
    table = accuracy_table([npc, half])
    assert table.num_labels == (3, 7, 11)
    assert table.rows[1].accuracies == (0.7, None, None)


def test_without_a_test_split_every_cell_is_empty(tmp_path, pool):
    unmeasured = Writer(tmp_path / "run", pool, num_test=0).add(None).add(None, size=0)
    assert accuracy_table([unmeasured.folder]).rows[0].accuracies == (None, None)


def test_where_no_label_came_the_later_measurement_stands(tmp_path, pool):
    writer = Writer(tmp_path / "run", pool)
    writer.add(0.5, answers=[-1] * 4).add(0.6, size=0)
    assert accuracy_table([writer.folder]).rows[0].accuracies == (0.6,)


def test_medians_stand_beside_the_accuracies(npc, tmp_path, pool):
    writer = Writer(tmp_path / "run", pool, "margin")
    writer.add(0.7, median=0.65).add(0.8).add(0.9, size=0, median=0.95)
    table = accuracy_table([npc, writer.folder])
    assert [row.medians for row in table.rows] == [(), (0.65, None, 0.95)]
    assert table.has_medians
    assert not accuracy_table([npc]).has_medians


def test_no_round_is_an_empty_row(tmp_path, pool):
    new = Writer(tmp_path / "new", pool).folder
    assert accuracy_table([new]) == AccuracyTable((), (AccuracyRow("npc", 1, ()),))


def test_no_run_is_an_error():
    with pytest.raises(
        UsageError, match=r"^There is no run to report on; give at least"
    ):
        accuracy_table([])


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ([{"seed": 0}, {"seed": 1}], ["npc, seed 0", "npc, seed 1"]),
        (
            [{}, {"trainer": {"name": "supervised", "options": {}}}],
            ["npc, fixmatch (steps = 400)", "npc, supervised"],
        ),
        (
            [{}, {"options": {"draws": 9}}],
            ["npc", "npc (draws = 9)"],
        ),
        ([{}, {}], ["npc (run 0)", "npc (run 1)"]),
        ([{"seed": 1}, {"strategy": "dal"}], ["npc", "dal"]),
    ],
)
def test_rows_of_one_strategy_are_told_apart(tmp_path, pool, changes, names):
    folders = [
        Writer(tmp_path / f"run {number}", pool, **change).folder
        for number, change in enumerate(changes)
    ]
    assert [row.name for row in accuracy_table(folders).rows] == names


def test_a_strategy_keeps_its_color_and_runs_of_it_share_one(tmp_path, pool):
    strategies = ["margin", "npc", "dal", "random", "margin", "badge", "egl", "bait"]
    folders = [
        Writer(tmp_path / f"{number}", pool, strategy, seed=number).folder
        for number, strategy in enumerate(strategies)
    ]
    hues = [row.hue for row in accuracy_table(folders).rows]
    assert hues == [2, 1, 3, 0, 2, 4, 5, 2]
