"""Slips of people: answers not told yet, swapped files, disputes, skipped audits."""

import pytest
from tests.projects.exchange.annotators import EXTENSION, FILL
from tests.projects.toy import (
    answer,
    begin,
    begun,
    go_on,
    num_events,
    paths,
    pictures,
    truth,
    write,
)

from fewlabels.errors import AnswersError, UsageError
from fewlabels.projects import answers


@pytest.fixture
def project(tmp_path):
    with begun(tmp_path) as opened:
        yield opened


def test_answers_that_were_not_told_are_not_written_over(project, tmp_path):
    asked = project.ask()
    file = project.write_query(asked, tmp_path / "query.csv")
    project.write_query(asked, file)  # nobody wrote anything there
    names = paths(project, asked)
    write(file, [(names[0], truth(names[0])), (names[1], "off")])
    before = file.read_bytes()
    with pytest.raises(UsageError, match="changed since"):
        project.write_query(project.ask(), file)
    assert file.read_bytes() == before
    write(file, [(names[0], truth(names[0])), (names[1], "")])
    project.tell(file, annotator="ann")
    file.unlink()
    project.write_query(project.ask(), file)
    assert names[0] not in file.read_text("utf-8")


def test_a_kill_before_a_query_is_written_locks_no_file(project, tmp_path, monkeypatch):
    file, real = tmp_path / "query.csv", answers.replace_text
    project.write_query(project.ask(), file)
    before = file.read_bytes()

    def cut(path, text):
        if path == file:
            raise KeyboardInterrupt
        real(path, text)

    asked = project.ask(anew=True)
    monkeypatch.setattr(answers, "replace_text", cut)
    with pytest.raises(KeyboardInterrupt):
        project.write_query(asked, file)
    assert file.read_bytes() == before
    monkeypatch.setattr(answers, "replace_text", real)
    project.write_query(asked, file)
    assert file.read_bytes() != before


@pytest.mark.parametrize("kind", ["csv", "jsonl", "label-studio"])
def test_a_query_whose_answers_were_told_is_written_over(project, tmp_path, kind):
    file = tmp_path / f"query.{EXTENSION[kind]}"
    asked = project.ask()
    project.write_query(asked, file)
    project.write_query(asked, file)
    name = paths(project, asked)[0]
    FILL[kind](file, [(0, truth(name), "", "ann")])
    with pytest.raises(UsageError, match="changed since"):
        project.write_query(project.ask(), file)
    project.tell(file)
    project.write_query(project.ask(), file)
    assert name not in file.read_text("utf-8")


def test_a_file_that_one_of_two_people_told_is_written_over_for_the_other(tmp_path):
    with begin(tmp_path, overlap=2) as project:
        file = project.write_query(asked := project.ask(), tmp_path / "query.csv")
        names = paths(project, asked)
        answers = [(row, truth(name), "", "") for row, name in enumerate(names)]
        FILL["csv"](file, answers)  # without the name of who answered
        project.tell(file, annotator="ann")
        project.write_query(project.ask(), file)
        FILL["csv"](file, answers)  # the same bytes, and somebody else's
        with pytest.raises(UsageError, match="changed since"):
            project.write_query(project.ask(), file)
        assert project.tell(file, annotator="bob").num_new == len(names)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("other", ["bob", ""])
def test_the_same_answers_of_somebody_else_are_not_written_over(tmp_path, kind, other):
    with begin(tmp_path, overlap=2) as project:
        file = tmp_path / f"query.{EXTENSION[kind]}"
        asked = project.ask()
        project.write_query(asked, file)
        given = [(row, truth(n)) for row, n in enumerate(paths(project, asked)[:6])]
        FILL[kind](file, [(row, label, "", "ann") for row, label in given])
        project.tell(file)
        project.write_query(project.ask(), file)
        FILL[kind](file, [(row, label, "", other) for row, label in given])
        before = file.read_bytes()
        with pytest.raises(UsageError, match="changed since"):
            project.write_query(project.ask(), file)
        assert file.read_bytes() == before
        assert project.tell(file, annotator="bob").num_new == 6
        project.write_query(project.ask(), file)


def test_a_skip_that_was_told_as_unsure_is_not_written_over(project, tmp_path):
    file = tmp_path / "query.csv"
    project.write_query(project.ask(), file)
    FILL["csv"](file, [(0, "", "unsure", "ann")])
    project.tell(file)
    FILL["csv"](file, [(0, "", "skip", "ann")])
    with pytest.raises(UsageError, match="changed since"):
        project.write_query(project.ask(), file)


def test_answers_that_were_told_before_a_kill_are_told_again(project, tmp_path):
    asked = project.ask()
    file = project.write_query(asked, tmp_path / "query.csv")
    names = paths(project, asked)
    FILL["csv"](file, [(row, truth(name), "", "ann") for row, name in enumerate(names)])
    noted = (project.folder / ".stored-answers").read_bytes()
    project.tell(file)
    (project.folder / ".stored-answers").write_bytes(noted)  # killed before it is noted
    project.train()
    with pytest.raises(UsageError, match="changed since"):
        project.write_query(project.ask(), file)
    assert project.tell(file).num_same == len(names)
    project.write_query(project.ask(), file)
    assert names[0] not in file.read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("sizes.csv", "file_name,label,size\n00.png,,17\n"),
        ("names.csv", "file_name,label\n00.png,\n"),
        ("sizes.jsonl", '{"file_name": "00.png", "size": 17}\n'),
        ("tasks.json", '[{"data": {"file_name": "00.png"}}]\n'),
    ],
)
def test_a_table_that_is_no_query_is_not_written_over(project, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match="was not written by ask"):
        project.write_query(project.ask(), tmp_path / name)
    project.tell(tmp_path / name)  # which does not make it a query
    with pytest.raises(UsageError, match="was not written by ask"):
        project.write_query(project.ask(), tmp_path / name)
    assert (tmp_path / name).read_text() == content


@pytest.mark.parametrize("content", [b"my diary\n", b"\xff\xfe\x00"])
def test_a_file_of_something_else_is_not_written_over(project, tmp_path, content):
    file = tmp_path / "diary.txt"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="Tell it first"):
        project.write_query(project.ask(), file)
    assert file.read_bytes() == content


def test_a_configuration_of_somebody_else_is_not_written_over(project, tmp_path):
    asked, config = project.ask(), tmp_path / "query.config.xml"
    for _ in range(2):
        project.write_query(asked, tmp_path / "query.json")
    changed = config.read_text("utf-8").replace("<View>", "<View><Header/>")
    for content in (changed.encode(), b"\xff\xfe\x00"):
        config.write_bytes(content)
        with pytest.raises(UsageError, match=r"query\.config\.xml' was not written"):
            project.write_query(asked, tmp_path / "query.json")
        assert config.read_bytes() == content


def test_only_what_is_ours_is_removed_beside_a_query(project, tmp_path):
    theirs = tmp_path / "query.csv.partial"
    theirs.write_text("important")
    project.write_query(project.ask(), tmp_path / "query.csv")
    assert theirs.read_text() == "important"


def test_a_dispute_is_noted_with_its_remedy(project, tmp_path):
    asked = go_on(project)
    name = paths(project, asked)[0]
    wrong = "odd" if truth(name) == "even" else "even"
    answers = write(tmp_path / "a.csv", [(name, wrong)])
    assert not any("disagree" in note for note in project.status().notes)
    project.tell(answers, annotator="bob")
    said = "People disagree about 1 labeled image, left out of training and measuring."
    assert any(note.startswith(said) for note in project.status().notes)
    project.tell(write(tmp_path / "a.csv", [(name, truth(name))]), annotator="bob")
    assert not any("disagree" in note for note in project.status().notes)


@pytest.mark.parametrize(
    "columns", [("file_name", "label"), ("file_name", "label", "id")]
)
def test_a_name_that_shows_another_image_by_now_is_refused(project, tmp_path, columns):
    asked = project.ask()
    one, other, moved, *_ = paths(project, asked)
    folder = project.images_folder
    (folder / one).rename(tmp_path / "aside.png")
    (folder / other).rename(folder / one)
    (tmp_path / "aside.png").rename(folder / other)
    (folder / moved).touch()  # looks changed and is not
    id_of = {item.path: item.id for item in project.store.items()}
    rows = [
        (name, truth(name), f"id:{id_of[name]}")[: len(columns)]
        for name in (one, other, moved)
    ]
    file, before = write(tmp_path / "a.csv", rows, columns), num_events(project)
    with pytest.raises(AnswersError, match="has 2 faults") as caught:
        project.tell(file, annotator="ann")
    assert [fault.line for fault in caught.value.faults] == [2, 3]
    assert num_events(project) == before
    assert project.tell(file, annotator="ann", partial=True).num_new == 1


def test_labels_are_taken_while_the_images_are_away(project, tmp_path):
    asked = project.ask()
    project.images_folder.rename(tmp_path / "elsewhere")
    assert answer(project, asked).num_new == 7


def test_the_card_owns_up_to_audit_images_without_a_label(project, tmp_path):
    asked = project.ask()
    names = dict(zip(paths(project, asked), asked.items, strict=True))
    audit = [name for name, one in names.items() if one.role == "audit"]
    rows = [
        (name, "", "skip") if name in audit else (name, truth(name)) for name in names
    ]
    project.tell(write(tmp_path / "a.csv", rows), annotator="ann")
    project.train()
    pictures(project.images_folder, [30, 31])  # the model never saw these

    def card():
        project.export(tmp_path / "out")
        return (tmp_path / "out/model/README.md").read_text("utf-8")

    assert "none of the 3 images drawn for an audit has a label" in card()
    assert "on 24 images, 4 of them labeled" in card()
    rows = [(audit[0], truth(audit[0]))]
    project.tell(write(tmp_path / "a.csv", rows), annotator="ann")
    assert "2 more were drawn and have no label" in card()
