"""Four processes that label at random and are killed, against a simple twin."""

import os
from dataclasses import replace

import pytest
from tests.harness.labeling_twin import Notes, faults, token_of
from tests.harness.labeling_verbs import begin, survive, work

from fewlabels.projects import Project
from fewlabels.projects.store import Store, new_uuid

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")


def address(place):
    """A server's address; None for a file, which the project makes in its folder."""
    return place if "://" in place else None


def test_what_four_processes_say_is_what_a_twin_says(tmp_path, place):
    found = survive(tmp_path / "place", address(place), 400, 2, seed=1)
    assert found["faults"] == []
    assert (found["calls"], found["kills"]) == (400, 2)
    assert found["written as events"] > 35
    assert found["refused"] > 5


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_calls_and_thirty_kills(tmp_path, place):
    found = survive(tmp_path / "place", address(place), 10_000, 30, seed=2)
    assert found["faults"] == []
    assert (found["calls"], found["kills"]) == (10_000, 30)


@pytest.fixture(scope="module")
def labeled(tmp_path_factory):
    """A project that one process after the other has labeled, and their notes."""
    place = tmp_path_factory.mktemp("labeled")
    folder = begin(place / "place", None)
    files = [place / f"notes-{number}.jsonl" for number in range(3)]
    for number, file in enumerate(files):
        work(folder, file, number, 3, 40)
    return folder, files


def read(files):
    return [Notes.read(file) for file in files]


def test_the_comparison_sees_what_is_lost_or_doubled(labeled):
    folder, files = labeled
    assert faults(folder, read(files)) == []
    notes = read(files)
    uuid = next(u for u, told in notes[0].got.items() if "sequence" in told)
    notes[0].got[uuid]["sequence"] += 1000
    assert "is not there so" in faults(folder, notes)[0]
    notes = read(files)
    del notes[0].sent[uuid], notes[0].got[uuid]
    assert f"event {uuid} was never sent" in faults(folder, notes)
    notes = read(files)
    call = next(
        call
        for one in notes
        for call, told in one.pairs()
        if "refused" in told and call["verb"] in {"label", "skip", "unsure"}
    )
    call["verb"] = "change"  # which it would have been
    assert any("refused without a reason" in one for one in faults(folder, notes))


def test_the_comparison_sees_leases_that_are_lost_or_shared(labeled):
    folder, files = labeled
    notes = read(files)
    number, told = next(
        (number, told)
        for number, one in enumerate(notes)
        for told in reversed(one.got.values())
        if told.get("leases")
    )
    other = next(n for n in range(3) if n % 2 != number % 2)  # of another person
    call = {"uuid": new_uuid(), "begun": told["ended"], "after": 0, "count": 3}
    call |= {"verb": "heartbeat", "annotator": ("ann", "bob")[other % 2]}
    notes[other].sent[call["uuid"]] = call | {"token": token_of(other)}
    notes[other].got[call["uuid"]] = dict(told)
    said = " ".join(faults(folder, notes))
    assert "at once" in said or "lost" in said
    assert f"{token_of(other)}" in said


def play(folder, file):
    """Label from one tab, breaking off at the first error."""
    work(folder, file, 0, 5, 60)
    return faults(folder, [Notes.read(file)])


def test_the_comparison_sees_an_undo_out_of_order(tmp_path, monkeypatch):
    folder, undo = begin(tmp_path / "place", None), Store.undo
    assert play(folder, tmp_path / "right.jsonl") == []
    folder = begin(tmp_path / "again", None)

    def undo_first(store, annotator, *, target=None, uuid=None):
        """Take back the first verdict that holds, not the last."""
        held = sorted(store.verdicts(), key=lambda verdict: verdict.sequence)
        mine = [verdict.uuid for verdict in held if verdict.annotator == annotator]
        return undo(store, annotator, target=mine[0] if mine else target, uuid=uuid)

    monkeypatch.setattr(Store, "undo", undo_first)
    assert play(folder, tmp_path / "wrong.jsonl") != []


def test_the_comparison_sees_an_answer_that_was_out_of_turn(tmp_path):
    folder, file = begin(tmp_path / "place", None), tmp_path / "notes.jsonl"
    work(folder, file, 0, 5, 30)
    notes = Notes.read(file)
    with Project.open(folder) as project:
        held = {one.uuid for one in project.snapshot().verdicts}
        label = next(o for o in project.store.events() if o.uuid in held)
        again = replace(label, uuid=new_uuid())
        number = project.store.append([again])[0].sequence
    notes.sent[again.uuid] = notes.sent[label.uuid] | {"uuid": again.uuid}
    notes.got[again.uuid] = {"sequence": number, "seen": number, "ended": 1e9}
    (fault, *_) = faults(folder, [notes])
    assert "is written and should have been refused" in fault
