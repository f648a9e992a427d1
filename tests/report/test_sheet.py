"""The contact sheet: the numbers of the file, safe with any name, and no hint."""

import csv
import json
import re

import pytest
from PIL import Image
from tests.projects.toy import changed
from tests.report.projects import CLASSES, answer, create, truly
from tests.report.test_page import check_sound, pictures, read, text_of

from fewlabels.errors import UsageError
from fewlabels.projects import Project
from fewlabels.report import sheet_path, write_contact_sheet


@pytest.fixture
def begun(tmp_path):
    project, truth = create(tmp_path)
    with project:
        yield project, truth


def sheet(project, asked):
    """Write the sheet of a query, and the query itself; return both places."""
    query = project.folder / "round.csv"
    questions = project.questions(asked)
    project.write_query(questions, query)
    path = write_contact_sheet(sheet_path(query), project, questions, query)
    return path, query


def shown(path):
    """Return number and name of every image on a sheet."""
    html = path.read_text("utf-8")
    pairs = re.findall(r'<strong>(\d+)</strong> <span title="(.+?)">', html)
    return [(int(number), name) for number, name in pairs]


def rows(query):
    with query.open(newline="", encoding="utf-8-sig") as file:
        return [(int(r["number"]), r["file_name"]) for r in csv.DictReader(file)]


def test_rows_and_pictures_have_the_same_numbers(begun):
    project, _ = begun
    path, query = sheet(project, project.ask())
    assert [number for number, _ in shown(path)] == list(range(1, 15))
    assert shown(path) == rows(query)
    assert len(pictures(path)) == 14
    text = text_of(path)
    assert "Round 0: 14 images to label" in text
    assert all(name in text for name in CLASSES)
    assert f"fewlabels tell {project.folder} {query}" in text


def test_numbers_stay_when_some_images_are_answered(begun):
    project, truth = begun
    asked = project.ask()
    before = dict(shown(sheet(project, asked)[0]))
    names = [before[number] for number in (1, 2, 5)]
    answer(project, asked, {n: truly(truth)[n] for n in names})
    (project.folder / "query.csv").unlink()
    path, query = sheet(project, project.ask())
    left = {k: v for k, v in before.items() if v not in names}
    assert dict(shown(path)) == dict(rows(query)) == left


def test_the_page_is_one_file_with_a_strict_policy_and_escaped_names(tmp_path):
    nasty = "<script>alert(1)</script>"
    classes = ("dark", nasty, '"><img src=x>')
    project, _ = create(tmp_path, classes=classes, budget=40, audit=0)
    with project:
        old = project.images_folder / "000.png"
        old.rename(old.with_name('<img onerror=alert(1)> "&.png'))
        path, _ = sheet(project, project.ask(size=40))
    check_sound(path)
    assert nasty in text_of(path)
    assert "&lt;img onerror=alert(1)&gt;" in path.read_text("utf-8")


def test_pictures_keep_their_proportions_and_small_ones_their_pixels(tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    Image.linear_gradient("L").resize((800, 400)).save(images / "wide.png")
    Image.radial_gradient("L").resize((30, 60)).save(images / "high.png")
    options = {"budget": 9, "audit": 0, "strategy": "random", "trainer": "supervised"}
    with Project.create(tmp_path / "p", images, ["a", "b"], **options) as project:
        path, _ = sheet(project, project.ask())
    assert sorted(p.shape for p in pictures(path)) == [(60, 30), (160, 320)]
    assert path.read_text("utf-8").count('class="pixels"') == 1


def test_a_file_that_is_damaged_meanwhile_leaves_a_gap(begun):
    project, _ = begun
    asked = project.ask()
    name = project.questions(asked)[0].path
    (project.images_folder / name).write_bytes(b"no image")
    path, _ = sheet(project, asked)
    assert len(pictures(path)) == 13
    assert "can no longer be shown" in text_of(path)


# ------------------------------------------------------------------------ guesses


def has_guesses(path):
    return any(tag == "details" for tag, _ in read(path).tags)


def test_a_guess_is_folded_away(begun):
    project, truth = begun
    answer(project, project.ask(), truly(truth))
    project.train()
    (project.folder / "query.csv").unlink()
    path, query = sheet(project, project.ask())
    assert has_guesses(path)
    html = path.read_text("utf-8")
    assert "<details>" in html  # and not open
    images, _, folded = html.partition("<details>")
    with query.open(newline="", encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            number, guess = row["number"], row["suggestion"]
            assert f"<strong>{number}</strong> <span>{guess}</span>" in folded
    assert "<small>" not in images


def test_a_round_that_measures_has_no_guess_whatever_is_open_of_it(tmp_path):
    project, truth = create(tmp_path, audit=0)
    with project:
        answer(project, project.ask(), truly(truth))
        project.train()
    with changed(project, audit=8) as project:
        asked = project.ask()
        assert (asked.model, asked.num_audit) == ("model-000", 8)
        (project.folder / "query.csv").unlink()
        assert not has_guesses(sheet(project, asked)[0])
        (project.folder / "round.csv").unlink()
        measured = {o.item.partition("@")[0] for o in asked.items if o.role == "audit"}
        answer(project, asked, {name: truly(truth)[name] for name in measured})
        left = project.ask()
        assert left.num_audit == 0
        (project.folder / "query.csv").unlink()
        path, query = sheet(project, left)  # guesses now would give away which it was
        assert not has_guesses(path)
        lines = project.write_query(left, query.with_suffix(".jsonl")).read_text()
        assert not any(json.loads(one)["suggestion"] for one in lines.splitlines())


# ----------------------------------------------------------------- somebody's own file


@pytest.mark.parametrize("content", ["", "<html>my thesis</html>", "folder"])
def test_a_page_of_somebody_else_is_not_touched(tmp_path, content):
    page = tmp_path / "query.html"
    page.mkdir() if content == "folder" else page.write_text(content)
    with pytest.raises(UsageError, match="is not a contact sheet"):
        sheet_path(tmp_path / "query.csv")


def test_an_earlier_sheet_is_replaced(begun):
    project, _ = begun
    asked = project.ask()
    first, _ = sheet(project, asked)
    content = first.read_bytes()
    again, _ = sheet(project, asked)
    assert (again, again.read_bytes()) == (first, content)
