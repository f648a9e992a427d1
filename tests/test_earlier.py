"""A project that an earlier version made opens, goes on and is reported."""

import csv
import shutil
from pathlib import Path

import pytest

from fewlabels.projects import Project
from fewlabels.report.project import write_project_report
from fewlabels.training import loop

EARLIER = Path(__file__).parent / "earlier"


@pytest.fixture
def steps(monkeypatch):
    """The optimizer steps that are taken while a test runs."""
    taken = []
    advance = loop.Stepper.advance

    def counting(self, number, minibatch):
        taken.append(number)
        return advance(self, number, minibatch)

    monkeypatch.setattr(loop.Stepper, "advance", counting)
    return taken


def test_a_project_trains_nothing_until_something_is_told(tmp_path, steps):
    shutil.copytree(EARLIER / "project", tmp_path / "project")
    folder = tmp_path / "project" / "work"
    with Project.open(folder) as project:
        assert not project.train().is_new
        assert not steps
        table = folder / "round-001.csv"
        with table.open(newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:  # the class stands in the name of a file
            row["label"] = Path(row["file_name"]).stem[-1]
        with table.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        project.tell(table, annotator="ann")
        assert project.train().is_new
        assert len(steps) == 60
        assert project.status().model.name == "model-001"
        page = write_project_report(tmp_path / "report.html", project)
        assert "frozen-fixmatch" in page.read_text()
