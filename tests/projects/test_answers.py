"""What people answer: taken whole or not at all, and never twice."""

import json
import os

import pytest
from tests.projects.exchange.annotators import fill_studio
from tests.projects.toy import (
    answer,
    begin,
    begun,
    go_on,
    num_events,
    paths,
    truth,
    write,
)

from fewlabels.cli.project import next_sentence
from fewlabels.errors import AnswersError, UsageError
from fewlabels.projects import NextStep, Project
from fewlabels.projects.store import Kind


@pytest.fixture
def project(tmp_path):
    with begun(tmp_path) as opened:
        yield opened


def labels(project):
    """Return the current word of everybody, by file and annotator."""
    snapshot = project.snapshot()
    path_of = {item.id: item.path for item in snapshot.items}
    return {
        (path_of[one.item], one.annotator): (
            one.kind.value
            if one.class_number is None
            else snapshot.classes[one.class_number]
        )
        for one in snapshot.verdicts
    }


def test_answers_are_written_with_who_and_why(project, tmp_path):
    asked = project.ask()
    rows = [
        (name, truth(name), "2026-01-31T12:00:00Z", "2.5")
        for name in paths(project, asked)
    ]
    columns = ("file_name", "label", "time", "lead_time")
    told = project.tell(write(tmp_path / "a.csv", rows, columns), annotator="ann")
    assert (told.num_new, told.num_changed, told.num_same) == (7, 0, 0)
    assert labels(project) == {
        (name, "ann"): truth(name) for name in paths(project, asked)
    }
    events = [one for one in project.store.events() if one.item]
    assert {event.round for event in events} == {0}
    assert {event.strategy for event in events} == {"random"}
    assert {event.payload["lead_time"] for event in events} == {2.5}
    assert {event.client_time.isoformat() for event in events} == {
        "2026-01-31T12:00:00+00:00"
    }


def test_telling_the_same_file_twice_changes_nothing(project):
    asked = project.ask()
    answer(project, asked)
    before = num_events(project)
    told = answer(project, asked)
    assert (told.num_new, told.num_changed, told.num_same) == (0, 0, 7)
    assert num_events(project) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_four_processes_that_tell_one_file_count_once(tmp_path, place):
    with begin(tmp_path, store=place) as project:
        rows = [(name, truth(name)) for name in paths(project, project.ask())]
        before = num_events(project)
    file = write(tmp_path / "answers.csv", rows)
    ready, go = os.pipe()
    children = []
    for _ in range(4):
        child = os.fork()
        if not child:
            try:
                with Project.open(tmp_path / "project") as own:
                    os.read(ready, 1)
                    own.tell(file, annotator="ann")
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    os.write(go, b"!!!!")
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    with Project.open(tmp_path / "project") as project:
        assert num_events(project) == before + len(rows)


def test_a_changed_mind_is_a_relabel(project, tmp_path):
    asked = project.ask()
    answer(project, asked)
    name = paths(project, asked)[0]
    other = "odd" if truth(name) == "even" else "even"
    told = project.tell(write(tmp_path / "b.csv", [(name, other)]), annotator="ann")
    assert (told.num_new, told.num_changed) == (0, 1)
    assert labels(project)[name, "ann"] == other
    events = (stored for stored in project.store.events())
    kinds = [event.kind for event in events if event.item == asked.items[0].item]
    assert kinds == [Kind.LABEL, Kind.RELABEL]
    assert project.status().num_spent == 7


def test_skipped_and_unsure(project, tmp_path):
    asked = project.ask()
    names = paths(project, asked)
    rows = [(names[0], "", "skip"), (names[1], "", "unsure"), (names[2],)]
    told = project.tell(write(tmp_path / "a.csv", rows), annotator="ann")
    assert (told.num_new, told.num_skipped, told.num_blank) == (0, 2, 1)
    assert labels(project) == {(names[0], "ann"): "skip", (names[1], "ann"): "unsure"}
    status = project.status()
    assert (status.num_spent, status.num_skipped) == (0, 1)
    assert project.ask().items == asked.items[2:]  # asked of nobody again
    before = num_events(project)
    assert project.tell(tmp_path / "a.csv", annotator="ann").num_same == 2
    assert num_events(project) == before


def test_unsure_with_a_label_is_a_label(project, tmp_path):
    name = paths(project, project.ask())[0]
    file = write(tmp_path / "a.csv", [(name, "odd", "unsure")])
    assert project.tell(file, annotator="ann").num_new == 1
    *_, last = project.store.events()
    assert last.payload == {"unsure": True}


def test_two_annotators_with_overlap_two(tmp_path):
    with begin(tmp_path, overlap=2, audit=0) as project:
        asked = project.ask()
        first, *others = paths(project, asked)
        answer(project, asked, annotator="ann")
        status = project.status()
        assert (status.num_open, sum(status.class_counts)) == (4, 0)
        assert status.next_step is NextStep.TELL
        assert "(2 people each, by --annotator)" in next_sentence(project, status)
        assert project.ask().items == asked.items  # the second person gets them too
        wrong = "odd" if truth(first) == "even" else "even"
        rows = [(first, wrong), *((name, truth(name)) for name in others)]
        project.tell(write(tmp_path / "bob.csv", rows), annotator="bob")
        status = project.status()
        assert (status.num_open, status.num_disputed) == (0, 1)
        assert sum(status.class_counts) == 3  # nobody knows the disputed one
        assert status.agreement.cohen.keys() == {("ann", "bob")}
        assert status.num_spent == 4
        project.tell(
            write(tmp_path / "eve.csv", [(first, truth(first))]), annotator="eve"
        )
        assert sum(project.status().class_counts) == 4  # two of three


# ------------------------------------------------------------------------ faults


def good(project):
    return [f"{name},{truth(name)}" for name in paths(project, project.ask())]


def unasked(project):
    asked = set(paths(project, project.ask()))
    return next(one.path for one in project.store.items() if one.path not in asked)


MALFORMED = {
    "unknown image": (lambda p: ["99.png,odd"], "line 9: there is no image '99.png'"),
    "unknown class": (
        lambda p: [f"{paths(p, p.ask())[0]},evne"],
        "line 9: there is no class 'evne'.",
    ),
    "duplicate rows": (lambda p: good(p)[:1], "line 9: "),
    "nobody asked": (
        lambda p: [f"{unasked(p)},odd"],
        "line 9: nobody asked about",
    ),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_file_is_refused_whole(project, tmp_path, kind):
    make, message = MALFORMED[kind]
    file = tmp_path / "answers.csv"
    file.write_text("\n".join(["file_name,label", *good(project), *make(project)]))
    before = num_events(project)
    with pytest.raises(AnswersError) as refused:
        project.tell(file, annotator="ann")
    assert message in str(refused.value)
    assert [fault.line for fault in refused.value.faults] == [9]
    assert num_events(project) == before
    assert not project.snapshot().verdicts


@pytest.mark.parametrize("kind", ["unknown image", "unknown class", "nobody asked"])
def test_partial_takes_the_good_rows_and_lists_the_rest(project, tmp_path, kind):
    make, message = MALFORMED[kind]
    file = tmp_path / "answers.csv"
    file.write_text("\n".join(["file_name,label", *make(project), *good(project)]))
    told = project.tell(file, annotator="ann", partial=True)
    assert told.num_new == 7
    assert [fault.line for fault in told.faults] == [2]
    assert message.partition(": ")[2] in str(told.faults[0])
    assert len(labels(project)) == 7


def test_nothing_was_asked(project, tmp_path):
    with pytest.raises(UsageError, match="Nothing was asked yet"):
        project.tell(write(tmp_path / "a.csv", [("00.png", "odd")]))


def test_labels_of_an_earlier_round_are_taken(project, tmp_path):
    first = project.ask()
    project.ask(anew=True)
    told = answer(project, first)
    assert told.num_new == 7


# -------------------------------------------------------------------- three formats


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_query_that_is_filled_in_comes_back(project, tmp_path, ending):
    asked = project.ask()
    file = project.write_query(asked, tmp_path / f"query{ending}")
    text = file.read_text("utf-8")
    for name in paths(project, asked):
        if ending == ".csv":
            assert f"{name},," in text
            text = text.replace(f"{name},,", f"{name},{truth(name)},")
    if ending == ".jsonl":
        rows = [json.loads(line) for line in text.splitlines()]
        filled = [row | {"label": truth(row["file_name"])} for row in rows]
        text = "\n".join(map(json.dumps, filled))
    file.write_text(text, "utf-8")
    assert project.tell(file, annotator="ann").num_new == 7
    assert len(labels(project)) == 7


def test_label_studio_there_and_back(project, tmp_path):
    asked = project.ask()
    file = project.write_query(asked, tmp_path / "tasks.json")
    tasks = json.loads(file.read_text("utf-8"))
    names = paths(project, asked)
    assert [task["data"]["file_name"] for task in tasks] == names
    assert [task["data"]["image"] for task in tasks] == [
        f"/data/local-files/?d=images/{name}" for name in names
    ]
    config = (tmp_path / "tasks.config.xml").read_text("utf-8")
    assert '<Choice value="even"' in config
    said = [(0, None, "skip", "ann@example.com")]
    said += [(i, truth(names[i]), None, "ann@example.com") for i in range(1, 6)]
    said += [(1, truth(names[1]), None, "bob@example.com")]
    fill_studio(file, said)  # and the last task is not annotated
    told = project.tell(file)
    assert (told.num_new, told.num_skipped, told.num_blank) == (6, 1, 1)
    expected = {(names[i], who): label or status for i, label, status, who in said}
    assert labels(project) == expected
    before = num_events(project)
    assert project.tell(file).num_same == 7
    assert num_events(project) == before
    assert project.ask().items == asked.items[6:]


def test_a_guess_stands_beside_the_image_unless_it_measures(project, tmp_path):
    first = project.write_query(project.ask(), tmp_path / "first.jsonl")
    assert all(
        not json.loads(x).get("suggestion") for x in first.read_text().split("\n")[:-1]
    )
    answer(project, project.ask())
    project.train()
    second = project.write_query(project.ask(), tmp_path / "second.jsonl")
    for line in second.read_text().splitlines():
        row = json.loads(line)
        assert row["suggestion"] in {"even", "odd"}
        assert row["model"] == "model-000"
        assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-3)


# ---------------------------------------------------------------- what was exported


def test_exported_labels_can_be_told_back(project, tmp_path):
    asked = go_on(project)
    export = project.export(tmp_path / "export", as_is=True)
    file = next(path for path in export.files if path.name == "labels.csv")
    before = num_events(project)
    told = project.tell(file)
    assert (told.num_new, told.num_changed, told.num_same) == (0, 0, 7)
    assert num_events(project) == before
    name = paths(project, asked)[0]
    right, wrong = (f"{name},{word}," for word in ("odd", "even"))
    if truth(name) == "even":
        right, wrong = wrong, right
    text = file.read_text("utf-8")
    assert right in text
    (tmp_path / "labels.csv").write_text(text.replace(right, wrong), "utf-8")
    told = project.tell(tmp_path / "labels.csv")
    assert (told.num_changed, told.num_same) == (1, 6)
