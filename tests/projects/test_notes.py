"""What a project says of itself: falls, labels without an image, disputes."""

import pytest
from tests.projects.toy import begin, go_on, paths, truth, write

from fewlabels.projects import Project


@pytest.fixture
def project(tmp_path):
    with begin(tmp_path, audit=5) as opened:
        yield opened


def other(name):
    return "odd" if truth(name) == "even" else "even"


def noted(project, words):
    return [note for note in project.status().notes if words in note]


def test_a_fall_of_the_accuracy_is_a_warning(project, monkeypatch):
    measured = [one.item for one in go_on(project).items if one.role == "audit"]
    record = project.train().record
    said = {item: truth(item) for item in measured}
    wrong = {item: other(item) for item in measured}

    def having(number, num_right):
        audit = dict([*said.items()][:num_right] + [*wrong.items()][num_right:])
        counts = (2 + number, 2 + number)
        changes = {"number": number, "audit": audit, "class_counts": counts}
        return record.model_copy(update=changes)

    records = tuple(having(*one) for one in enumerate([2, 5, 1]))
    monkeypatch.setattr(Project, "records", lambda self: records)
    (note,) = noted(project, "The accuracy fell from 100 % to 20 %")
    assert "of 5 audited images, 4 changed from right to wrong" in note
    assert note.endswith("The earlier one, model-001, is kept in the folder models.")
    assert "slips" not in note  # what was measured does not tell the cause
    monkeypatch.setattr(Project, "records", lambda self: records[:2])
    assert not noted(project, "fell")


def test_labels_of_vanished_images_are_told_with_the_budget(project):
    asked = go_on(project)
    assert (project.status().num_spent, noted(project, "are gone")) == (9, [])
    audit = next(one.item for one in asked.items if one.role == "audit")
    query = [one.item for one in asked.items if one.role == "query"][:2]
    aside = project.folder / "aside"
    aside.mkdir()
    gone = [item.partition("@")[0] for item in (audit, *query)]
    for name in gone:
        (project.images_folder / name).rename(aside / name)
    project.train()
    status = project.status()
    (note,) = noted(project, "The files of 3 labeled images are gone.")
    assert "neither train nor measure" in note
    assert "the budget gets as many labels back" in note
    assert (status.num_spent, sum(status.class_counts)) == (6, 2)
    assert not noted(project, "Of the images that measure")  # none was skipped
    for name in gone:
        (aside / name).rename(project.images_folder / name)
    project.index()
    assert project.status().num_spent == 9
    assert not noted(project, "are gone")


# ------------------------------------------------------------------ contradictions


def test_an_answer_that_contradicts_another_annotator_is_told_as_such(
    project, tmp_path
):
    asked = go_on(project)
    first, second, *_ = paths(project, asked)
    file = write(tmp_path / "b.csv", [(first, other(first)), (second, truth(second))])
    told = project.tell(file, annotator="bob")
    assert (told.num_new, told.num_contradicting, told.num_disputed) == (2, 1, 1)
    told = project.tell(file, annotator="bob")
    assert (told.num_same, told.num_contradicting) == (2, 0)  # said once
    told = project.tell(write(tmp_path / "c.csv", [(first, truth(first))]))
    assert (told.num_contradicting, told.num_disputed) == (1, 0)  # two of three
    told = project.tell(
        write(tmp_path / "b.csv", [(first, truth(first))]), annotator="bob"
    )
    assert (told.num_changed, told.num_contradicting) == (1, 0)


def test_two_annotators_in_one_file_contradict_each_other(project, tmp_path):
    name = paths(project, project.ask())[0]
    rows = [(name, "even", "", "ann"), (name, "odd", "", "bob")]
    told = project.tell(write(tmp_path / "a.csv", rows))
    assert (told.num_new, told.num_contradicting, told.num_disputed) == (2, 1, 1)
