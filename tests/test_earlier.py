"""A run and a project that earlier versions made open, go on and are reported."""

import csv
import json
import shutil
from pathlib import Path

import pytest
import torch

from fewlabels import augment, data, rng
from fewlabels.features import StoredViews
from fewlabels.projects import Project
from fewlabels.report.page import write_report
from fewlabels.report.project import write_project_report
from fewlabels.runs import RunFolder, RunSettings, execute
from fewlabels.training import frozen, loop

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


def earlier_views(images, encoder, *, settings, num_views, key, cache):
    """Return views as they were drawn then: by blocks of images and not by image."""
    del cache
    is_weak = isinstance(settings, augment.WeakAugment)
    kind, varied = ("weak", augment.weak) if is_weak else ("strong", augment.strong)
    views = []
    for number in range(num_views):
        rows = []
        for block, items in enumerate(torch.arange(len(images)).split(256)):
            draws = rng.stream(key, f"{kind} view", number, block)
            rows.append(encoder.embed(varied(images.read(items), draws, settings)))
        views.append(torch.cat(rows).half().numpy())
    return StoredViews(tuple(views))


def test_a_run_that_was_killed_goes_on_and_gives_the_same_rounds(
    tmp_path, steps, monkeypatch
):
    monkeypatch.setattr(frozen, "embedded_views", earlier_views)
    folder = tmp_path / "run"
    shutil.copytree(EARLIER / "run", folder)
    written = json.loads((folder / "run.json").read_text())
    measured = (folder / "round-001" / "evaluations.jsonl").read_text().splitlines()
    settings, pool = (
        RunSettings.model_validate(written["settings"]),
        data.load("digits"),
    )
    assert len(list(execute(settings, folder, pool))) == 3
    expected = (EARLIER / "rounds.jsonl").read_text()
    assert (folder / "rounds.jsonl").read_text() == expected
    # The second training went on in its middle, and its evaluations with it.
    assert steps[0] > 30
    assert steps.count(199) == 2
    kept = (folder / "round-001" / "evaluations.jsonl").read_text().splitlines()
    assert kept[: len(measured)] == measured
    page = write_report(tmp_path / "report.html", [RunFolder(folder)], pool)
    assert "frozen-fixmatch-darp" in page.read_text()


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
