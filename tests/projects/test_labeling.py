"""The verbs of labeling: each is one event, sent as often as one likes."""

import pytest
from tests.projects.toy import begin, begun, changed, num_events, write

from fewlabels.errors import ReplayError, StoreError, UnknownNameError, UsageError
from fewlabels.projects.store import Kind, new_uuid


@pytest.fixture
def project(tmp_path, place):
    with begin(tmp_path, store=place) as opened:
        yield opened


def words(project, annotator="ann"):
    """Return what an annotator says now, by item."""
    snapshot = project.snapshot()
    return {
        one.item: (
            one.kind.value
            if one.class_number is None
            else snapshot.classes[one.class_number]
        )
        for one in snapshot.verdicts
        if one.annotator == annotator
    }


def test_every_verb_is_one_event_that_says_who_and_why(project):
    one, two, three, *_ = (asked.item for asked in project.ask().items)
    before = num_events(project)
    given = project.label(one, "odd", annotator="ann", lead_time=2.5)
    assert (given.sequence, given.kind) == (before + 1, Kind.LABEL)
    assert (given.round, given.strategy) == (0, "random")
    assert given.payload == {"lead_time": 2.5}
    project.skip(two, annotator="ann")
    project.unsure(three, annotator="ann")
    assert words(project) == {one: "odd", two: "skip", three: "unsure"}
    changed = project.change(one, "even", annotator="ann")
    assert changed.kind is Kind.RELABEL
    project.change(two, "odd", annotator="ann")
    project.change(three, None, annotator="ann")
    assert words(project) == {one: "even", two: "odd", three: "skip"}
    assert [stored.sequence for stored in project.store.events(after=before)] == list(
        range(before + 1, before + 7)
    )
    assert words(project, "bob") == {}
    assert project.label(one, "odd", annotator="bob").annotator == "bob"


def test_a_change_to_the_same_answer_is_none(project):
    one, two, *_ = (asked.item for asked in project.ask().items)
    said = project.label(one, "odd", annotator="ann")
    skipped = project.skip(two, annotator="ann")
    before = num_events(project)
    assert project.change(one, "odd", annotator="ann") == said
    assert project.change(two, None, annotator="ann") == skipped
    assert num_events(project) == before
    again = project.change(one, "odd", annotator="ann", uuid=new_uuid())
    assert again.sequence == before + 1  # else it could not be sent twice


def test_a_call_that_is_sent_twice_counts_once(project):
    one, two, *_ = (a.item for a in project.ask().items if a.role == "query")
    uuids = [new_uuid() for _ in range(6)]
    calls = [
        lambda: project.label(one, "odd", annotator="ann", uuid=uuids[0]),
        lambda: project.change(one, "even", annotator="ann", uuid=uuids[1]),
        lambda: project.skip(two, annotator="ann", uuid=uuids[2]),
        lambda: project.undo(annotator="ann", uuid=uuids[3]),
        lambda: project.undo(annotator="ann", uuid=uuids[4], target=uuids[3]),
        lambda: project.change(two, "odd", annotator="ann", uuid=uuids[5]),
    ]
    first = [call() for call in calls]
    before = num_events(project)
    assert [call() for call in calls] == first
    project.rename_class("odd", "strange")  # the word is another, the class is not
    with pytest.warns(UserWarning, match="no model was trained"):
        project.ask(anew=True)  # and perhaps another round asks about the same image
    assert [call() for call in calls] == first
    assert num_events(project) == before + 1
    assert words(project) == {one: "even", two: "strange"}


def test_a_name_of_another_call_is_refused(project):
    one, two, *_ = (asked.item for asked in project.ask().items)
    uuid = new_uuid()
    project.label(one, "odd", annotator="ann", uuid=uuid)
    for wrong in (
        lambda: project.label(one, "even", annotator="ann", uuid=uuid),
        lambda: project.label(two, "odd", annotator="ann", uuid=uuid),
        lambda: project.label(one, "odd", annotator="bob", uuid=uuid),
        lambda: project.change(one, "odd", annotator="ann", uuid=uuid),
        lambda: project.skip(one, annotator="ann", uuid=uuid),
        lambda: project.undo(annotator="ann", uuid=uuid),
    ):
        with pytest.raises(ReplayError, match=f"The UUID {uuid} came again"):
            wrong()
    assert words(project) == {one: "odd"}


def test_what_does_not_fit_is_refused_in_a_sentence(project):
    asked = project.ask()
    item = asked.items[0].item
    unasked = next(
        one.id
        for one in project.store.items()
        if one.id not in {other.item for other in asked.items}
    )
    before = num_events(project)
    with pytest.raises(StoreError, match=f"^Nobody asked about the image '{unasked}'"):
        project.label(unasked, "odd", annotator="ann")
    with pytest.raises(UnknownNameError, match="Did you mean 'even'"):
        project.label(item, "evne", annotator="ann")
    with pytest.raises(StoreError, match="has not answered"):
        project.change(item, "odd", annotator="ann")
    with pytest.raises(UsageError, match="an empty name"):
        project.label(item, "odd", annotator="")
    with pytest.raises(UsageError, match="is not a UUID"):
        project.label(item, "odd", annotator="ann", uuid="1")
    assert num_events(project) == before
    project.label(item, "odd", annotator="ann")
    for again in (
        lambda: project.label(item, "odd", annotator="ann"),
        lambda: project.label(item, "even", annotator="ann"),
        lambda: project.skip(item, annotator="ann"),
        lambda: project.unsure(item, annotator="ann"),
    ):
        with pytest.raises(StoreError, match="already; change or undo that"):
            again()
    assert num_events(project) == before + 1


def test_a_file_that_is_told_is_the_same_verbs(project, tmp_path):
    asked = project.ask()
    path_of = {item.id: item.path for item in project.store.items()}
    one, two = (asked.items[place].item for place in (0, 1))
    project.label(one, "odd", annotator="ann")
    rows = [(path_of[one], "even"), (path_of[two], "", "skip")]
    told = project.tell(write(tmp_path / "a.csv", rows), annotator="ann")
    assert (told.num_changed, told.num_skipped) == (1, 1)
    assert words(project) == {one: "even", two: "skip"}
    project.undo(annotator="ann")
    project.undo(annotator="ann")
    assert words(project) == {one: "odd"}


def test_what_one_is_unsure_of_waits_for_the_others(project):
    items = [asked.item for asked in project.ask().items]
    for item in items:
        project.unsure(item, annotator="ann")
    assert project.status().num_open == 0  # ann is alone: nobody else could know
    offered = project.lease(10, annotator="bob")
    assert list(offered.items) == items  # bob has just joined
    project.label(items[0], "odd", annotator="bob")
    assert [one.item for one in project.snapshot().open] == items[1:]
    assert project.status().next_step == "tell"
    assert not project.ask().is_new
    assert project.lease(10, annotator="ann").items == ()
    for item in items[1:]:
        project.unsure(item, annotator="bob")
    assert project.snapshot().open == ()


def test_a_skip_closes_an_image_for_everybody(tmp_path):
    with changed(begun(tmp_path), overlap=2) as project:
        one, two, *rest = (asked.item for asked in project.ask().items)
        project.skip(one, annotator="ann")
        project.unsure(two, annotator="ann")
        for name in ("bob", "eve"):  # two may answer about each of the others
            offered = project.lease(10, annotator=name).items
            assert list(offered) == [two, *rest]
        assert [asked.item for asked in project.snapshot().open] == [two, *rest]
        project.undo(annotator="ann")
        project.undo(annotator="ann")
        assert project.lease(1, annotator="bob").items == (one,)
