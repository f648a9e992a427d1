"""Each promise of SECURITY.md names tests; those that belong nowhere else are here."""

import ast
import os
import re
import socket
from hashlib import sha256
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url
from tests.experiments.runs import toy
from tests.projects.store.conftest import emptied
from tests.projects.toy import begin, go_on, paths, write

from fewlabels.errors import AnswersError, UsageError
from fewlabels.experiments.settings import Choice, RunSettings
from fewlabels.jobs import cluster
from fewlabels.projects import Project, predict
from fewlabels.report import write_project_report, write_report

ROOT = Path(__file__).parents[1]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
INJECTION = "x'); DROP TABLE events; --"


def promises():
    """Return the promises of SECURITY.md, a text each."""
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    _, _, rest = text.partition("## What is promised\n")
    promised, found, _ = rest.partition("\n## What is not promised")
    assert found
    return re.split(r"^- ", promised, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("promise", promises(), ids=lambda text: text[:30].strip("*"))
def test_every_promise_names_tests_that_exist(promise):
    named = TEST.findall(promise)
    assert named, promise
    assert promise.count("tests/") == len(named)  # none is misspelt
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        assert name in {
            one.name for one in tree.body if isinstance(one, ast.FunctionDef)
        }


def test_nobody_is_told_anything_and_images_stay_as_they_are(tmp_path, monkeypatch):
    def refuse(*given, **named):
        raise AssertionError(f"somebody asked for {given} {named}")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    trainer = Choice(name="supervised", options={"steps": 2})
    _, folder = toy.whole_run(tmp_path / "run", toy.digits(), trainer=trainer)
    write_report(folder.report_file, folder, toy.digits())
    with begin(tmp_path) as project:
        before = state(project.images_folder)
        go_on(project)
        project.train()
        exported = project.export(tmp_path / "export").folder
        write_project_report(tmp_path / "project.html", project)
        predict(exported / "model", project.images_folder)
        assert state(project.images_folder) == before


def state(folder):
    """Return content and time of every file in a folder."""
    return {
        path: (sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
    }


def test_ray_tells_nobody_of_its_use(monkeypatch):
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    seen = []

    def init(*_, **__):
        seen.append(os.environ["RAY_USAGE_STATS_ENABLED"])

    monkeypatch.setattr(ray, "init", init)
    with cluster.connected(None):
        assert seen == ["0"]


def test_yaml_makes_no_objects(tmp_path):
    file = tmp_path / "settings.yaml"
    mark = tmp_path / "mark"
    file.write_text(f"data: !!python/object/apply:os.mkdir ['{mark}']\n")
    with pytest.raises(UsageError, match="could not be read: could not determine a"):
        RunSettings.merged(file, {})
    assert not mark.exists()


def test_nothing_in_an_answer_is_a_path_or_a_query(tmp_path):
    with begin(tmp_path) as project:
        asked = project.ask()
        names = paths(project, asked)
        outside = tmp_path / "outside.png"
        outside.write_bytes((project.images_folder / names[0]).read_bytes())
        for name in ("../outside.png", str(outside), INJECTION):
            with pytest.raises(AnswersError, match="there is no image"):
                project.tell(write(tmp_path / "a.csv", [(name, "even")]))
        with pytest.raises(AnswersError, match="there is no class"):
            project.tell(write(tmp_path / "a.csv", [(names[0], INJECTION)]))
        rows = [(name, "even", "", INJECTION) for name in names]
        assert project.tell(write(tmp_path / "a.csv", rows)).num_new == len(names)
        (annotator,) = {event.annotator for event in project.store.labels()}
        assert annotator == INJECTION


def test_no_file_but_the_settings_holds_the_password(tmp_path, server):
    address = make_url(emptied(server)).set(password="sesame")
    with begin(tmp_path, store=address.render_as_string(hide_password=False)) as made:
        go_on(made)
        made.train()
    with Project.open(tmp_path / "project") as project:
        project.export(tmp_path / "export")
        write_project_report(tmp_path / "export.html", project)
        project.backup(tmp_path / "backup.sqlite")
        settings = project.settings_file
    holding = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and b"sesame" in path.read_bytes()
    ]
    assert holding == [settings]
