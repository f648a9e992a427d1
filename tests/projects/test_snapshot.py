"""Images that move, change, come and go; labels belong to their content."""

import shutil
from collections import Counter
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.pictures import save
from tests.projects.toy import (
    QUICK,
    answer,
    begin,
    begun,
    changed,
    go_on,
    pictures,
)

from fewlabels.errors import (
    UnreadableFilesWarning,
)
from fewlabels.projects import Project, image_index
from fewlabels.projects.snapshot import limit_confirmed
from fewlabels.projects.store import Store, new_uuid


@pytest.fixture
def project(tmp_path):
    with begun(tmp_path) as opened:
        yield opened


def test_who_looked_earlier_and_writes_later_loses_no_new_picture(project, monkeypatch):
    scan, others = image_index.scan, []

    def overtaken(*given, **options):
        found = scan(*given, **options)
        if not others:  # somebody is quicker, and there is more by then
            others.append("bob")
            pictures(project.images_folder, range(40, 42))
            project.index()
        return found

    monkeypatch.setattr(image_index, "scan", overtaken)
    pictures(project.images_folder, range(30, 31))
    assert len(project.index().files) == 27
    assert len(project.snapshot().items) == 27


def test_an_unreadable_file_is_named(project, tmp_path):
    (project.images_folder / "broken.png").write_bytes(b"no image")
    with pytest.warns(UnreadableFilesWarning, match=r"broken\.png"):
        asked = project.ask()
    assert len(asked.items) == 7
    listed = project.folder / "unusable.txt"
    assert listed.read_text("utf-8").startswith("broken.png (not an image")
    project.ask(anew=True)  # warnings are errors: it is not named again
    (project.images_folder / "empty.png").touch()
    with pytest.warns(UnreadableFilesWarning, match=r"^1 file .*empty\.png"):
        project.expectation()
    go_on(project)
    project.train()
    (project.images_folder / "broken.png").unlink()
    project.export(tmp_path / "export")
    assert listed.read_text("utf-8").startswith("empty.png (")
    shutil.copytree(project.images_folder, tmp_path / "other/images")
    with pytest.warns(UnreadableFilesWarning, match=r"empty\.png"):
        other = begin(tmp_path / "other")
    with other:
        other.ask()


def test_a_project_inside_its_images_is_no_image(tmp_path):
    images = pictures(tmp_path / "images")
    place = images / "project"
    options = {"budget": 12, "trainer": QUICK}
    with Project.create(place, images, ["a", "b"], **options) as project:
        save(place / "models/picture.png", 90)
        project.ask()
        assert project.status().num_images == 24


def test_a_project_that_moved_together_with_its_images_opens(tmp_path):
    (tmp_path / "here").mkdir()
    with begin(tmp_path / "here") as project:
        asked = go_on(project)
        project.train()
        before = project.status()
    (tmp_path / "here").rename(tmp_path / "there")
    with Project.open(tmp_path / "there/project") as project:
        assert project.status().num_spent == before.num_spent
        assert not project.train().is_new
        later = project.ask()
        assert not {o.item for o in later.items} & {o.item for o in asked.items}


UNTRAINED = pytest.mark.filterwarnings("ignore:.*no model was trained")


@UNTRAINED
def test_a_slice_that_was_drawn_late_is_said_to_flatter(tmp_path):
    project = begin(tmp_path, audit=0)
    go_on(project)
    with changed(project, audit=3) as project:
        assert not any("drawn after others" in note for note in project.status().notes)
        go_on(project)
        notes = project.status().notes
    assert any("3 images that measure were drawn after" in note for note in notes)


@UNTRAINED
def test_labels_that_a_raised_overlap_disqualifies_are_counted(tmp_path):
    project = begin(tmp_path, audit=0)
    go_on(project)
    go_on(project)
    with changed(project, overlap=2) as project:
        notes = project.status().notes
    assert any("4 images of earlier rounds got fewer than 2" in note for note in notes)


@pytest.mark.parametrize("after", ["items", "rounds", "verdicts", "classes"])
def test_a_snapshot_is_of_one_moment(tmp_path, place, after, monkeypatch):
    """Somebody writes between any two of the things that a snapshot reads."""
    with begin(tmp_path, store=place) as project:
        asked = project.ask()
        read = getattr(Store, after)

        def overtaken(self, *arguments, **options):
            found = read(self, *arguments, **options)
            found = tuple(found) if after == "items" else found
            monkeypatch.setattr(Store, after, read)
            with Project.open(project.folder) as other:
                other.add_classes(["neither"])
                answer(other, asked)
                save(other.images_folder / "new.png", 99)
                other.index()
            return found

        monkeypatch.setattr(Store, after, overtaken)
        seen = project.snapshot()
        assert (seen.classes, len(seen.open)) == (("even", "odd"), 7)
        assert (len(seen.items), seen.verdicts) == (24, ())
        later = project.snapshot()
        assert (len(later.classes), len(later.open)) == (3, 0)
        assert (len(later.items), len(later.verdicts)) == (25, 7)


@given(
    labels=st.lists(st.none() | st.integers(0, 4), max_size=60),
    confirmed=st.sets(st.integers(0, 59)),
    seed=st.randoms(use_true_random=False),
)
def test_confirmed_labels_never_make_a_class_outweigh_the_others(
    labels, confirmed, seed
):
    order = sorted(place for place in confirmed if place < len(labels))
    seed.shuffle(order)
    kept = limit_confirmed(labels, order)
    counts = Counter(label for label in labels if label is not None)
    most = 2 * median(counts.values()) if counts else 0
    for number in counts:
        own = [place for place, label in enumerate(labels) if label == number]
        given_at_a_glance = [place for place in order if labels[place] == number]
        others = len(own) - len(given_at_a_glance)
        num_kept = min(len(given_at_a_glance), max(int(most) - others, 0))
        is_left = set(given_at_a_glance[num_kept:])
        assert [kept[p] for p in own] == [None if p in is_left else number for p in own]


def test_models_learn_from_the_first_confirmed_labels_and_all_others(project):
    go_on(project)
    snapshot = project.snapshot()
    free = [snapshot.items[place].id for place in snapshot.candidates]
    first, *_ = snapshot.classes
    project.revise(free[:6], first, uuid=new_uuid(), predicted=free[:6])
    after = project.snapshot()
    assert sum(label is not None for label in after.labels) == 4 + 6
    assert list(after.learned_labels) == limit_confirmed(
        after.labels, [after.positions[item] for item in free[:6]]
    )
    pool = after.pool(project.images(after))
    assert len(pool.labeled) == sum(label is not None for label in after.learned_labels)
