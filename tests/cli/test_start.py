"""``fewlabels start``: a new project, or the one that is there."""

import shutil
import threading
from pathlib import Path

import pytest
from tests.data.pictures import save
from tests.projects.toy import begun, pictures

from fewlabels.cli import start as module
from fewlabels.errors import DataError, FewlabelsError, UsageError
from fewlabels.projects import Project
from fewlabels.web import work


@pytest.fixture
def served(tmp_path, monkeypatch):
    """Note down what would be served, and create what would be created."""
    found = []

    def serve(place, **options):
        launch = tmp_path / "open-page.html"
        options["on_ready"]("http://127.0.0.1:8800/?token=abc", lambda: launch)
        if options["creation"]:
            wish, allowed = options["creation"], options["allow_code"]
            options["on_created"](work.begin(str(place), **wish, allow_code=allowed))
        found.append((place, options))

    monkeypatch.setattr("fewlabels.web.server.serve", serve)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    return found


def test_a_folder_and_a_budget_make_a_project_beside_it(tmp_path, served, capsys):
    folder = pictures(tmp_path / "photos")
    with pytest.raises(UsageError, match="add --classes"):
        module.start(folder)
    options = {"query": 4, "strategy": "random", "trainer": "supervised"}
    module.start(folder, classes="even,odd", budget=12, **options)
    place = tmp_path / "photos-labels"
    assert served[0][0] == place
    assert served[0][1]["host"] == "127.0.0.1"
    assert "Label at http://127.0.0.1:8800/?token=abc" in capsys.readouterr().out
    # The same command continues.
    module.start(folder, classes="even,odd,none", budget=15)
    told = capsys.readouterr().err
    assert "Continuing the project" in told
    assert "It keeps its classes (even,odd; Shift+N on the page adds one)" in told
    assert "and its budget (12, in" in told
    module.start(place)
    assert [one[0] for one in served] == [place] * 3


def test_a_hugging_face_data_set_is_labeled_like_a_folder(tmp_path, served):
    saved = Path(__file__).parents[1] / "data" / "hugging_face"
    shutil.copytree(saved / "one", tmp_path / "pets")
    options = {"query": 2, "strategy": "random", "trainer": "supervised", "audit": 1}
    module.start(Path(f"hf-dataset:{tmp_path}/pets"), budget=4, overlap=2, **options)
    assert served[0][0] == tmp_path / "pets-images-labels"
    with Project.open(served[0][0]) as project:
        assert [one.name for one in project.store.classes()] == ["even", "odd"]
        assert len(list(project.store.items())) == 6
        assert project.settings.overlap == 2
    module.start(Path(f"hf-dataset:{tmp_path}/pets"))  # the same goes on
    with pytest.raises(UsageError, match="hf download"):
        module.start(Path("hf-dataset:nowhere/at/all"))


def test_the_browser_is_led_to_the_page_by_a_file(tmp_path, served, monkeypatch):
    begun(tmp_path).close()
    opened, is_open = [], threading.Event()

    def open_page(address):
        opened.append(address)
        is_open.set()

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(module.webbrowser, "open", open_page)
    module.start(tmp_path / "project")
    assert is_open.wait(10)
    assert opened == [(tmp_path / "open-page.html").as_uri()]


def test_what_cannot_work_is_said_before_anything_is_made(tmp_path, served):
    with pytest.raises(UsageError, match="Other machines reach"):
        module.start(tmp_path, host="0.0.0.0")
    with pytest.raises(UsageError, match="no folder"):
        module.start(tmp_path / "nowhere", classes="a,b", budget=4)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="There is no image in"):
        module.start(tmp_path / "empty", classes="a,b", budget=4)
    assert served == []
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"classes": "cat"}, "at least two different names"),
        ({"classes": None}, "add --classes"),
        ({"strategy": "typiclst"}, "Did you mean 'typiclust'"),
        ({"trainer": "fixmach"}, "Did you mean 'fixmatch'"),
        ({"quality": "better"}, "'quality' is 'better'"),
        ({"audit": 12}, "leaves none to train on"),
        ({"query": 0}, "greater than or equal to 1"),
        ({"budget": 0}, "greater than or equal to 1"),
    ],
)
def test_a_wrong_option_is_reported_before_the_address(
    tmp_path, served, capsys, wrong, words
):
    folder = pictures(tmp_path / "photos")
    with pytest.raises(FewlabelsError, match=words):
        module.start(folder, **{"classes": "a,b", "budget": 12} | wrong)
    assert served == []
    assert "http" not in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_code_that_the_command_names_is_allowed(tmp_path, served):
    folder = pictures(tmp_path / "photos")
    options = {"strategy": "fewlabels.strategies:Random", "trainer": "supervised"}
    module.start(folder, classes="a,b", budget=12, **options)
    assert served[0][1]["allow_code"] == {"fewlabels.strategies:Random"}


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("fewlabels.names.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'fewlabels\[page\]'"):
        module.start(tmp_path)


def test_an_existing_project_is_found_by_its_folder(tmp_path, served):
    begun(tmp_path).close()
    module.start(tmp_path / "project", token="0123456789abcdef")
    assert served[0][0] == tmp_path / "project"
    assert served[0][1]["token"] == "0123456789abcdef"


def test_help_says_who_can_see_a_token(fewlabels):
    code, out, _ = fewlabels("start", "--help")
    text = " ".join(out.replace("│", " ").split())
    assert code == 0
    assert (
        "Other users of this machine can see the options of a running command" in text
    )
    assert "set the variable FEWLABELS_TOKEN instead" in text


def sorted_pictures(folder):
    for number in range(24):
        save(folder / ("odd" if number % 2 else "even") / f"{number:02d}.png", number)
    return folder


def test_folders_become_classes_and_labels(tmp_path, served, capsys, monkeypatch):
    folder = sorted_pictures(tmp_path / "photos")
    options = {"query": 4, "strategy": "random", "trainer": "supervised", "audit": 5}
    module.start(folder, budget=12, project=tmp_path / "first", **options)
    told = capsys.readouterr().err
    assert f"The classes are the folders of {folder}: even, odd." in told
    assert f"fewlabels import {tmp_path / 'first'} {folder}" in told
    with Project.open(tmp_path / "first") as project:
        assert project.status().num_imported == 0
        assert project.import_labels(folder).num_new == 19
    place = tmp_path / "second"
    module.start(folder, budget=12, project=place, import_folders=True, **options)
    told = capsys.readouterr().err
    assert "19 labels imported from folder names, 5 left out to measure." in told
    assert f"To undo that: fewlabels import {place} --undo" in told
    asked = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(
        "typer.confirm", lambda text, default: asked.append(text) or default
    )
    third = tmp_path / "third"
    module.start(folder, classes="odd,other", budget=12, project=third, **options)
    assert asked == ["Import the labels of 24 images from the folder names?"]
    with Project.open(third) as project:
        assert set(project.status().class_counts[1:]) == {0}
        assert 7 <= project.status().num_imported <= 12
    with pytest.raises(UsageError, match="has 0 folders with images"):
        module.start(
            pictures(tmp_path / "flat"), classes="a,b", budget=4, import_folders=True
        )
