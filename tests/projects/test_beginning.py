"""How a project begins, what it refuses, and where its labels may be."""

import json
import os
import shlex
import shutil

import pytest
from sqlalchemy import text
from tests.projects.store.conftest import emptied
from tests.projects.toy import (
    QUICK,
    answer,
    begin,
    go_on,
    num_events,
    pictures,
)

from fewlabels.cli.project import next_sentence
from fewlabels.errors import (
    DataError,
    FewlabelsError,
    ProjectError,
    SettingsChangedWarning,
    StoreError,
    UnknownNameError,
    UsageError,
)
from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project


@pytest.fixture
def project(tmp_path):
    with begin(tmp_path) as opened:
        yield opened


def test_the_default_settings(tmp_path):
    with begin(tmp_path, budget=20, audit=None, query=None, strategy=None) as project:
        settings = project.settings
        assert (settings.audit, settings.query, settings.overlap) == (4, 20, 1)
        assert settings.strategy.name == "variance-reduction"
        assert settings.images == "../images"
        assert settings.shape == (1, 8, 8)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"budget": 0}, UsageError, "'budget' is 0"),
        ({"audit": 12}, UsageError, "takes 12 of 12 labels"),
        ({"query": 0}, UsageError, "'query' is 0"),
        ({"overlap": 0}, UsageError, "'overlap' is 0"),
        ({"size": 0}, UsageError, "'size' is 0"),
        ({"quality": "better"}, UsageError, "'quality' is 'better'"),
        ({"strategy": "nope"}, UnknownNameError, "no strategy called 'nope'"),
        ({"trainer": "nope"}, UnknownNameError, "no trainer called 'nope'"),
        (
            {"trainer": Choice(name="supervised", options={"stesp": 5})},
            FewlabelsError,
            "stesp",
        ),
    ],
)
def test_what_cannot_be_meant_leaves_no_trace(tmp_path, options, kind, message):
    with pytest.raises(kind, match=message):
        begin(tmp_path, **options)
    assert not (tmp_path / "project").exists()


@pytest.mark.parametrize(
    "names", [["cat"], ["cat", "cat"], ["cat", "Cat"], ["cat", " "], []]
)
def test_classes_that_are_none(tmp_path, names):
    pictures(tmp_path / "images", range(3))
    with pytest.raises(UsageError, match=r"at least two different names|was not taken"):
        Project.create(tmp_path / "project", tmp_path / "images", names, budget=5)


def test_folders_that_cannot_be_meant(tmp_path):
    with pytest.raises(DataError, match="no folder"):
        Project.create(tmp_path / "p", tmp_path / "nothing", ["a", "b"], budget=5)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no readable image in .*; give a folder with"):
        Project.create(tmp_path / "p", tmp_path / "empty", ["a", "b"], budget=5)
    images = pictures(tmp_path / "images", range(3))
    with pytest.raises(ProjectError, match="is not empty; nothing was touched"):
        Project.create(images, images, ["a", "b"], budget=5)
    with pytest.raises(ProjectError, match=r"There is no project in .*fewlabels init"):
        Project.open(tmp_path / "nothing")


def test_images_that_are_gone(project):
    folder, elsewhere = project.images_folder, project.folder.parent / "elsewhere"
    go_on(project)
    folder.rename(elsewhere)
    for verb in (project.ask, project.train, project.expectation):
        with pytest.raises(ProjectError, match=r"None of the 24 .* correct 'images'"):
            verb()
        folder.mkdir(exist_ok=True)  # as a drive that is not connected looks
    with pytest.raises(ProjectError, match="The labels are safe"):
        project.export(project.folder / "export")
    folder.rmdir()
    elsewhere.rename(folder)
    assert project.status().num_spent == 7
    assert project.train().is_new


def test_the_time_is_foretold_after_images_were_deleted(project):
    go_on(project)
    for path in sorted(project.images_folder.iterdir())[:12]:
        path.unlink()
    assert "Expected: " in project.expectation()
    assert project.status().num_images == 12


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]", b'{"budget": "many"}'])
def test_damaged_settings(project, content):
    project.settings_file.write_bytes(content)
    with pytest.raises(ProjectError, match=r"project\.json"):
        Project.open(project.folder)


def test_a_project_in_a_folder_for_reading_shows_how_it_stands(tmp_path):
    with begin(tmp_path) as project:
        go_on(project)
        folder = project.folder
    for above in (tmp_path, *tmp_path.parents):
        if above.name.startswith(("test_", "popen-", "pytest-")):
            above.chmod(0o755)  # pytest's own
    folder.chmod(0o555)
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.getuid() == 0:
                os.setuid(65534)  # nobody
            with Project.open(folder) as project:
                os.write(theirs, f"{project.status().num_spent} labels. ".encode())
                project.ask()
        except FewlabelsError as error:
            os.write(theirs, str(error).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as said:
        os.waitpid(child, 0)
        told = said.read()
    folder.chmod(0o755)
    assert told.startswith("7 labels. ")
    assert "could not be written" in told


def test_settings_that_are_no_regular_file_are_not_waited_for(project):
    project.settings_file.unlink()
    os.mkfifo(project.settings_file)
    with pytest.raises(ProjectError, match="cannot be read: not a regular file"):
        Project.open(project.folder)


@pytest.mark.parametrize("details", ["{}", "[]", '{"fingerprint": "%%%"}', '"x"'])
def test_what_is_kept_of_a_picture_is_made_anew_where_it_is_damaged(project, details):
    def kept():
        return [item.details for item in project.store.items()]

    before = kept()
    with project.store.write_connection() as connection:
        connection.execute(text("UPDATE items SET details = :new"), {"new": details})
    assert kept() != before
    go_on(project)
    assert kept() == before


def test_a_fault_in_the_settings_does_not_show_the_password(project):
    settings = json.loads(project.settings_file.read_text())
    address = "postgresql://ann:secret@host/labels"
    settings |= {"store": address, "stroe": address, "audit": -1}
    del settings["budget"]
    project.settings_file.write_text(json.dumps(settings))
    with pytest.raises(ProjectError) as raised:
        Project.open(project.folder)
    said = str(raised.value)
    assert "The setting 'budget' is missing; give it." in said
    assert "There is no setting 'stroe'; take it out." in said
    assert "The setting 'audit' is -1: input should be greater than" in said
    assert "secret" not in said


# --------------------------------------------------------------------- PostgreSQL


def test_the_same_on_postgresql(tmp_path, place):
    with begin(tmp_path, store=place) as project:
        asked = go_on(project)
        before = num_events(project)
        assert answer(project, asked).num_same == 7
        assert num_events(project) == before
        project.train()
        go_on(project)
        assert project.status().num_spent == 11
        project.backup(tmp_path / "backup.sqlite")
    with Project.open(tmp_path / "project") as again:
        assert again.status().num_spent == 11
        assert len(again.store.rounds()) == 2


def test_a_store_belongs_to_one_project(tmp_path, server):
    address = emptied(server)
    with begin(tmp_path, store=address) as project:
        before = num_events(project)
        for verb in (project.status, project.ask):  # before the first round and after
            verb()
            with pytest.raises(StoreError, match="belongs to another project"):
                begin(tmp_path / "other", store=address)
        assert num_events(project) == before
    assert not (tmp_path / "other" / "project").exists()


def test_a_project_knows_its_store(tmp_path):
    for name in ("one", "other"):
        with begin(tmp_path / name) as project:
            go_on(project)
            project.backup(tmp_path / f"{name}.sqlite")
    file = project.folder / "labels.sqlite"
    shutil.copy(tmp_path / "one.sqlite", file)
    with pytest.raises(ProjectError, match="began with another label store"):
        Project.open(project.folder)
    shutil.copy(tmp_path / "other.sqlite", file)
    with Project.open(project.folder) as restored:
        assert restored.status().num_spent == 7


def test_a_project_in_the_folder_one_stands_in(tmp_path, monkeypatch):
    images, place = pictures(tmp_path / "images"), tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    kept = place.stat().st_ino
    with Project.create(".", images, ["even", "odd"], budget=5, trainer=QUICK) as made:
        # A full stop after a dot would read as the folder above.
        assert next_sentence(made, made.status()) == f"Run fewlabels ask {place}."
    assert place.stat().st_ino == kept  # or the shell would stand in a deleted folder
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "images"]
    with Project.open(place) as opened:
        assert len(opened.ask().items) == 5


def test_commands_can_be_pasted(tmp_path):
    (tmp_path / "my own").mkdir()
    with begin(tmp_path / "my own") as opened:
        sentence = next_sentence(opened, opened.status())
    words = shlex.split(sentence.removesuffix("."))
    assert words == ["Run", "fewlabels", "ask", str(tmp_path / "my own/project")]


def test_an_edit_of_the_settings_is_told_once(project, recwarn):
    project.close()
    settings = json.loads(project.settings_file.read_text())
    project.settings_file.write_text(json.dumps(settings | {"budget": 13}))
    told = r"project\.json' was changed: budget was 12 and is now 13\."
    with pytest.warns(SettingsChangedWarning, match=told):
        Project.open(project.folder).close()
    recwarn.clear()
    with Project.open(project.folder) as opened:
        assert opened.settings.budget == 13
    assert not recwarn.list


def test_a_password_in_the_settings_is_not_told(project):
    before = project.settings
    address = {"store": "postgresql://ann:secret@host/labels"}
    now = before.model_copy(update=address)
    with pytest.warns(
        SettingsChangedWarning, match="the store is a different one"
    ) as told:
        now.warn_of_changes(project.folder)
    assert "secret" not in str(told[0].message)


def test_a_damaged_record_of_a_model_is_not_trusted(project):
    go_on(project)
    project.train()
    project.close()
    file = project.models_folder / "model-000/training.json"
    file.write_text(file.read_text().replace('"even"', '"eben"', 1))
    with (
        Project.open(project.folder) as opened,
        pytest.raises(ProjectError, match=r"training\.json' is damaged"),
    ):
        opened.train()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "has lost its 'project.json': put it back; "),
        ("{", "Invalid JSON: .* Correct it; "),
        ("[]", "Input should be an object. Correct it; "),
    ],
)
def test_damaged_settings_name_the_ones_used_last(tmp_path, content, words):
    images = pictures(tmp_path / "images", range(6))
    Project.create(tmp_path / "p", images, ["a", "b"], budget=4).close()
    if content is None:
        (tmp_path / "p/project.json").unlink()
    else:
        (tmp_path / "p/project.json").write_text(content)
    with pytest.raises(ProjectError, match=words + ".*json' shows the settings used"):
        Project.open(tmp_path / "p")
    with pytest.raises(ProjectError, match="is not empty; nothing was touched"):
        Project.create(tmp_path / "p", images, ["a", "b"], budget=4)
