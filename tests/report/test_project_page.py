"""The page of a project: honest about its number, safe with any name, one file."""

import re

import numpy as np
import pytest
from tests.projects.toy import changed
from tests.report.projects import CLASSES, answer, create, truly, write_images
from tests.report.test_page import check_sound, pictures, read, text_of

from fewlabels.data.files import FileImages, check_files
from fewlabels.experiments.evaluation import accuracy_interval
from fewlabels.report import write_project_report
from fewlabels.report.project import enlarged
from fewlabels.report.wording import interval_text, rough_percent


def page(project):
    return write_project_report(project.folder / "report.html", project)


def plain(words):
    return words.replace("\N{NO-BREAK SPACE}", " ")


def captions(path, state):
    """Return what stands below the images of a state."""
    found = re.findall(
        rf'<li class="{state}".*?<span class="label">(.*?)</span>',
        path.read_text("utf-8"),
    )
    return sorted(found)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two rounds, two models; then a third round, of which some images are open."""
    project, truth = create(tmp_path_factory.mktemp("trained"))
    for _ in range(2):
        answer(project, project.ask(), truly(truth))
        project.train()
    asked = project.ask()
    names = [one.item.partition("@")[0] for one in asked.items]
    words = truly(truth) | {names[0]: "skip", names[1]: "unsure", names[5]: ""}
    answer(project, asked, words)
    yield project
    project.close()


@pytest.fixture(scope="module")
def shown_page(trained):
    return page(trained)


# -------------------------------------------------------------------- the numbers shown


def test_the_headline_is_the_audited_accuracy_with_its_interval(trained, shown_page):
    status = trained.status()
    audited = status.curve[-1].audited
    shown = text_of(shown_page)
    accuracy, ends = rough_percent(audited.accuracy), interval_text(audited, " and ")
    assert plain(f"{accuracy} of images right, between {ends}.") in shown
    assert f"{audited.num_right} of 8 images drawn at random" in shown
    assert "by model-001, trained on 12 labels for other images." in shown
    assert "In 95 of 100 projects the true share is in such a range" in shown
    once = plain(interval_text(status.curve[-1].once))
    assert f"for a single look, planned beforehand, the range is {once}." in shown
    assert f"{status.num_spent} of 30 labels are spent." in shown


def test_the_curve_says_the_interval_of_each_model(trained, shown_page):
    drawings = [a["aria-label"] for tag, a in read(shown_page).tags if tag == "svg"]
    assert len(drawings) == 1
    for point in trained.status().curve:
        accuracy, ends = rough_percent(point.audited.accuracy), point.audited
        words = f"{accuracy} ({interval_text(ends)}) after {point.num_labeled} labels"
        assert words in drawings[0]
    assert trained.status().advice in text_of(shown_page)


def test_models_rounds_and_classes_are_in_tables(trained, shown_page):
    shown = text_of(shown_page)
    points = trained.status().curve
    for number, point in enumerate(points):
        audited = point.audited
        row = f"model-00{number} {point.num_labeled} {rough_percent(audited.accuracy)}"
        assert plain(f"{row} {interval_text(audited)}") in shown
    assert "0 random untrained 14 8 14 20" in shown  # ..., and the date
    assert "1 random model-000 6 0 6 20" in shown
    assert "2 random model-001 6 0 5 20" in shown
    for name, amount in zip(CLASSES, trained.status().class_counts, strict=True):
        assert f"{name} {amount}" in shown


def test_what_people_said_of_the_last_round_stands_below_each_image(shown_page):
    path = shown_page
    assert "Round 2 5 of 6 images answered" in text_of(path)
    assert captions(path, "open") == ["open"]
    assert captions(path, "skipped") == ["skipped", "unsure"]
    assert len(pictures(path)) >= 6
    assert {picture.shape for picture in pictures(path)} == {(8, 8)}


def test_labels_that_no_model_has_seen_are_told(shown_page):
    assert (
        "3 labels were added after model-001 was trained, so it has not seen them."
        in text_of(shown_page)
    )


def test_how_it_was_made(shown_page):
    shown = text_of(shown_page)
    for words in (
        "Strategy random",
        "Trainer supervised (steps = 20)",
        "Reason You chose the trainer.",
        "Audit 8",
        "Seed 0",
        "Images 40",
        "Shape 1 × 8 × 8",
        "torch 2.",
    ):
        assert words in shown, words


# ------------------------------------------------------------------------ odd projects


def test_nothing_asked_yet(tmp_path):
    project, _ = create(tmp_path)
    with project:
        path = page(project)
    shown = text_of(path)
    assert "Accuracy not measured: no model has been trained yet." in shown
    assert "0 of 30 labels are spent." in shown
    assert "There are no labels to train on yet. 3 classes: dark, middle" in shown
    assert "No images have been asked about yet." in shown
    assert pictures(path) == []
    assert "<svg" not in path.read_text("utf-8")


def test_one_model_is_no_curve(tmp_path):
    project, truth = create(tmp_path)
    with project:
        answer(project, project.ask(), truly(truth))
        project.train()
        path = page(project)
    assert "<svg" not in path.read_text("utf-8")
    assert "A curve needs models with two different numbers of labels." in text_of(path)
    assert "of images right, between" in text_of(path)


def test_without_an_audit_slice_no_number_is_given(tmp_path):
    project, truth = create(tmp_path, audit=0)
    with project:
        answer(project, project.ask(), truly(truth))
        project.train()
        path = page(project)
    shown = text_of(path)
    assert "Accuracy not measured: no images were set aside to measure on." in shown
    assert "says nothing about others." in shown
    assert "No images were set aside to measure" in shown
    assert "of images right" not in shown
    assert "model-000 6 – –" in shown


def test_an_audit_slice_without_labels_says_so(tmp_path):
    project, truth = create(tmp_path)
    with project:
        asked = project.ask()
        measuring = {one.item for one in asked.items if one.role == "audit"}
        words = {
            name: word
            for name, word in truly(truth).items()
            if not any(item.startswith(f"{name}@") for item in measuring)
        }
        answer(project, asked, words)
        project.train()
        shown = text_of(page(project))
    assert "not measured: none of the images that measure has a label." in shown


@pytest.mark.parametrize("predictions", ["kept", "gone", "damaged"])
def test_an_audit_slice_younger_than_a_model_measures_its_predictions(
    tmp_path, predictions
):
    project, truth = create(tmp_path, audit=0)
    with project:
        answer(project, project.ask(), truly(truth))
        name = project.train().record.name
        path = project.models_folder / name / "predicted.bin"
        if predictions == "gone":
            path.unlink()
        elif predictions == "damaged":
            rows = np.frombuffer(path.read_bytes(), "<u4").reshape(-1, 3).copy()
            rows[:, 2] = 77  # there is no such class
            path.write_bytes(rows.tobytes())
    with changed(project, audit=8) as project:
        answer(project, project.ask(), truly(truth))
        shown = text_of(page(project))
        project.train()
        later = text_of(page(project))
    words = "the images that measure were drawn after the model was trained."
    assert (words in shown) == (predictions != "kept")
    assert words not in later


def test_several_annotators_and_how_far_they_agree(tmp_path):
    project, truth = create(tmp_path, overlap=2)
    with project:
        asked = project.ask()
        answer(project, asked, truly(truth), "anna")
        words = truly(truth)
        first = asked.items[0].item.partition("@")[0]
        words[first] = next(name for name in CLASSES if name != words[first])
        answer(project, asked, words, "bert")
        kappa = project.status().agreement.fleiss
        path = page(project)
    shown = text_of(path)
    assert "14 images were labeled by two or more." in shown
    assert f"Fleiss' kappa is {kappa:.2f}." in shown
    assert re.search(r"anna 14 0 (0\.\d\d) bert 14 0 \1", shown)
    assert shown.count("People disagree about 1 labeled image") == 1
    assert "do not agree" not in shown
    assert captions(path, "skipped") == ["disputed"]


def test_two_annotators_who_share_no_image(tmp_path):
    project, truth = create(tmp_path)
    with project:
        words = truly(truth)
        names = [one.item.partition("@")[0] for one in project.ask().items]
        answer(project, project.ask(), {n: words[n] for n in names[:5]}, "anna")
        answer(project, project.ask(), {n: words[n] for n in names[5:]}, "bert")
        shown = text_of(page(project))
    assert "No image was labeled by two people" in shown
    assert "anna 5 0 – bert 9 0 –" in shown


def test_a_hundred_classes(tmp_path):
    classes = [f"kind {number}" for number in range(100)]
    project, truth = create(tmp_path, classes)
    with project:
        answer(project, project.ask(), truly(truth, classes))
        project.train()
        path = page(project)
    html = path.read_text("utf-8")
    assert len(re.findall(r'<span class="class">kind \d+</span>', html)) == 100
    assert "100: kind 0, kind 1" in text_of(path)


def test_a_file_that_is_gone_is_an_empty_frame_with_its_name(tmp_path):
    project, _ = create(tmp_path)
    with project:
        asked = project.ask()
        name = asked.items[0].item.partition("@")[0]
        (tmp_path / "images" / name).unlink()
        project.index()
        path = page(project)
    assert f'<span class="gone">{name}</span>' in path.read_text("utf-8")
    assert len(pictures(path)) == 13


def test_photos_are_shown_larger_than_the_network_sees_them(tmp_path):
    write_images(tmp_path / "images", num_images=2, side=200)
    listed = [(p.name, p) for p in sorted((tmp_path / "images").iterdir())]
    files, _ = check_files(listed)
    small = FileImages(tuple(files), (1, 32, 32))
    assert enlarged(small).shape == (1, 128, 128)
    native = FileImages(tuple(files), (1, 200, 200))
    assert enlarged(native) is native


# ---------------------------------------------------- safe, self-contained, repeatable

WILD = ("<script>alert(1)</script>", '" onload="x', "$a_1$ & <b>写真</b>")


@pytest.fixture(scope="module")
def wild(tmp_path_factory):
    project, truth = create(tmp_path_factory.mktemp("wild"), WILD, overlap=2)
    with project:
        for _ in range(2):
            asked = project.ask()
            answer(project, asked, truly(truth, WILD), "<b>anna</b>")
            answer(project, asked, truly(truth, WILD), '" onload="bert')
            project.train()
        yield page(project)


def test_names_from_outside_are_only_ever_text(wild, shown_page):
    check_sound(shown_page)
    check_sound(wild)
    html = wild.read_text("utf-8")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "&lt;b&gt;anna&lt;/b&gt;" in html


def test_the_same_project_gives_the_same_bytes(trained, tmp_path):
    first = write_project_report(tmp_path / "new" / "a.html", trained)
    second = write_project_report(tmp_path / "b.html", trained)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("right", "among", "words"),
    [(8, 8, "63 to 100 %"), (0, 8, "0 to 37 %"), (399, 400, "99 to 99.9 %")],
)
def test_ends_of_intervals_are_not_rounded_to_certainty(right, among, words):
    assert plain(interval_text(accuracy_interval(right, among))) == words
