"""``fewlabels diagnose``: what a person sees, and what a program reads."""

import json
import shutil
from functools import partial

import pytest
from tests.experiments.runs.toy import digits, whole_run

from fewlabels.experiments.settings import Choice


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished run of npc and one of random, side by side."""
    place, pool = tmp_path_factory.mktemp("runs"), digits()
    for name in ("npc", "random"):
        whole_run(place / name, pool, strategy=Choice(name=name), budget=15)
    return place


@pytest.fixture
def diagnose(fewlabels):
    """Call the command in this process; return exit code, stdout, stderr."""
    return partial(fewlabels, "diagnose")


def test_a_table_for_people(diagnose, done):
    code, out, err = diagnose(done / "npc")
    assert code == 0, err
    assert "npc on digits" in out
    for word in ("λmin", "ceiling", "pool", "rank", "condition", "limit", "predicted"):
        assert word in out
    table = [line.split() for line in out.splitlines() if "last-layer" in line]
    assert [row[0] for row in table] == ["10", "15"]
    assert [row[-1] for row in table] == ["last-layer", "last-layer*"]
    assert table[-1][2:4] == ["–", "–"]
    assert "* A kernel stands in; the round's own (none)" in out
    assert "…" not in out


def test_lines_for_programs(diagnose, done):
    code, out, err = diagnose(done / "random", "--json")
    assert (code, err) == (0, "")
    first, last = map(json.loads, out.splitlines())
    assert first["num_labeled"] == first["rank"] == len(first["eigenvalues"]) == 10
    assert 0 < first["value"] <= first["ceiling"] <= first["smallest"] + 1e-9
    assert first["is_stand_in"]
    assert last["value"] is None
    assert 0 < last["predicted_error"] < first["predicted_error"] < 2
    assert last["predicted_random_error"] < first["predicted_random_error"]
    assert first["predicted_from_labels"] is True
    assert len(first["predicted_modes"]) == 20


def test_quiet_says_nothing(diagnose, done):
    assert diagnose(done / "npc", "--quiet") == (0, "", "")


def test_nothing_is_written(diagnose, done):
    before = {file: file.stat().st_mtime_ns for file in done.rglob("*")}
    diagnose(done / "npc")
    assert {file: file.stat().st_mtime_ns for file in done.rglob("*")} == before


def test_a_round_without_its_network_is_a_row_that_says_so(diagnose, done, tmp_path):
    shutil.copytree(done / "npc", tmp_path / "npc")
    shutil.rmtree(tmp_path / "npc" / "round-000")
    code, out, _ = diagnose(tmp_path / "npc")
    assert code == 0
    assert out.count("no saved network") == 1


def test_any_other_folder_is_refused(diagnose, tmp_path):
    for place in (tmp_path, tmp_path / "missing"):
        code, _, err = diagnose(place)
        assert code == 1
        assert "has no run.json; give a folder that 'fewlabels run' made." in err
    (tmp_path / "run.json").write_text("{}")
    code, _, err = diagnose(tmp_path)
    assert code == 1
    assert "does not describe a run" in err


def test_a_run_that_has_just_begun_has_no_rounds(diagnose, done, tmp_path):
    shutil.copytree(done / "npc", tmp_path / "npc")
    (tmp_path / "npc" / "rounds.jsonl").unlink()
    code, out, err = diagnose(tmp_path / "npc")
    assert (code, out) == (0, "")
    assert "contains no finished round yet" in err
