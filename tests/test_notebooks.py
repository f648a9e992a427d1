"""The notebooks and the script of the documentation run, and hold no outputs."""

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from fewlabels.experiments import bench

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"


def cells(name):
    content = json.loads((FOLDER / f"{name}.ipynb").read_text("utf-8"))["cells"]
    return [cell for cell in content if cell["cell_type"] == "code"]


def run_cells(name):
    """Run the cells one by one; return the names that there are, and what is shown."""
    space, shown = {"__name__": name}, []
    for cell in cells(name):
        body = ast.parse("".join(cell["source"])).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), name, "exec"), space)
        if last is not None:
            shown.append(eval(compile(ast.Expression(last.value), name, "eval"), space))
    return space, shown


@pytest.mark.parametrize("name", ["embeddings", "own"])
def test_notebooks_hold_no_outputs(name):
    assert all(not cell["outputs"] for cell in cells(name))
    assert all(cell["execution_count"] is None for cell in cells(name))


@pytest.mark.slow
def test_strategies_are_compared_on_embeddings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space, shown = run_cells("embeddings")
    assert len(space["frame"]) == 3 * 3 * 4
    assert "800 items" in repr(shown[0])
    assert {line.get_label() for line in shown[1].lines} == set(space["names"])


@pytest.mark.slow
def test_an_own_strategy_and_an_own_loss_are_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, (found, (accuracy, error, num_classes)) = run_cells("own")
    assert found == []
    assert accuracy > 0.3
    assert 0 <= error <= 1
    assert num_classes == 10


def started(folder, *words):
    """Start Python in a folder and a process group of its own, as a terminal does."""
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "MPLBACKEND": "agg"},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow  # twelve runs in processes of their own
def test_a_day_in_one_script(tmp_path):
    script = FOLDER / "day.py"
    assert sum(bool(line.strip()) for line in script.read_text().splitlines()) <= 60
    shutil.copy(script, tmp_path)

    with started(tmp_path, "day.py") as day:
        before = [day.stdout.readline() for _ in range(4)]  # three beginnings, a run
        os.killpg(day.pid, signal.SIGINT)
        before += day.stdout.readlines()
    assert day.returncode != 0

    with started(tmp_path, "day.py") as day:
        after = [line for line in day.stdout if line.endswith(": finished\n")]
    assert day.returncode == 0
    assert len(before + after) == len(set(before + after)) == 3 + 4 * 3
    frame = bench.read_results(tmp_path / "bench").to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == 4 * 3 * 3
    assert (tmp_path / "curves.png").stat().st_size > 1000

    # From a notebook: nothing is left to do.
    code = "from day import bench, experiment; print([*bench.run(experiment, 'bench')])"
    with started(tmp_path, "-c", code) as cell:
        assert cell.stdout.read() == "[]\n"
