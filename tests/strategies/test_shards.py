"""Choices among the items of shards, by one process and by several."""

import pickle
import random

import numpy as np
import pytest
from tests.shards import clustered, write_shards

import fewlabels
from fewlabels.data.shards import Shards
from fewlabels.errors import DataError
from fewlabels.jobs.cluster import RayTasks
from fewlabels.progress import current_executor, each, shared
from fewlabels.strategies.shards import select_shards

ROWS, LOGITS = clustered(500)
LABELS = [number % 5 if number % 97 == 3 else None for number in range(500)]
LABELED = [number for number, label in enumerate(LABELS) if label is not None]

NAMED = [
    ("random", {}),
    ("margin", {}),
    ("npc", {}),
    ("npc", {"method": "greedy"}),
    ("badge", {}),
    ("coreset", {}),
    ("typiclust", {}),
    ("uherding", {}),
    ("probcover", {}),
    ("outward", {"rank": 20}),
]
"""What is chosen over shards by several, and its options."""

ALONE = {"random"}
"""Who has nothing to share."""


class Elsewhere:
    """Does parts in any order, each as another process would get it."""

    def __init__(self):
        self.num_parts = 0

    def map(self, function, parts):
        """Return what becomes of each part, in their order."""
        sent = [pickle.dumps((function, part)) for part in parts]
        order = list(range(len(sent)))
        random.Random(0).shuffle(order)
        done = {}
        for place in order:
            call, part = pickle.loads(sent[place])
            with shared(None):
                done[place] = pickle.dumps(call(part))
        self.num_parts += len(sent)
        return [pickle.loads(done[place]) for place in range(len(sent))]


@pytest.fixture
def small_parts(monkeypatch):
    """Cut work into parts of a hundred items or so."""
    monkeypatch.setattr("fewlabels.search.covering._SHARED_ROWS", 100)
    monkeypatch.setattr("fewlabels.search.refutation._SHARED_ROWS", 100)
    monkeypatch.setattr("fewlabels.search.coverage._CHUNK_ROWS", 100)
    monkeypatch.setattr("fewlabels.search.clusters._CHUNK_ENTRIES", 1000)
    monkeypatch.setattr("fewlabels.strategies.inputs._CHUNK_ENTRIES", 1000)
    monkeypatch.setattr("fewlabels.gram.nearest._BLOCK", 100)
    monkeypatch.setattr("fewlabels.gram.nearest._SHARED", 100)
    monkeypatch.setattr("fewlabels.search.refutation._LARGEST_CHUNK", 64)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Sixteen shards."""
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder, ROWS, 16, LOGITS, LABELS)
    return Shards.open(folder)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(("name", "options"), NAMED)
def test_several_choose_what_one_process_chooses(shards, name, options):
    helpers = Elsewhere()
    settings = {"size": 8, "seed": 3, "options": options}
    one = select_shards(name, shards, **settings)
    several = select_shards(name, shards, executor=helpers, **settings)
    whole = fewlabels.select(
        name,
        features=ROWS,
        logits=LOGITS,
        labeled=LABELED,
        labels=[LABELS[item] for item in LABELED],
        **settings,
    )
    assert several.indices.tolist() == one.indices.tolist() == whole.tolist()
    assert several.ids == [f"image-{item:06d}" for item in one.indices]
    assert (helpers.num_parts > 1) is (name not in ALONE)


def test_labels_may_come_in_a_table(tmp_path):
    ids = write_shards(tmp_path / "shards", ROWS[:50], 3, LOGITS[:50])
    file = tmp_path / "labels.csv"
    file.write_text("id,label\n" + "".join(f"{ids[k]},{k % 5}\n" for k in (4, 8, 30)))
    shards = Shards.open(tmp_path / "shards")
    found = select_shards("uherding", shards, labels=file, size=4, seed=0)
    expected = fewlabels.select(
        "uherding",
        features=ROWS[:50],
        logits=LOGITS[:50],
        labeled=[4, 8, 30],
        labels=[4, 3, 0],
        size=4,
        seed=0,
    )
    assert found.indices.tolist() == expected.tolist()
    file.write_text("id\n" + "".join(f"{ids[k]}\n" for k in (4, 8, 30)))
    withheld = select_shards("coreset", shards, labels=file, size=47, seed=0)
    assert not {4, 8, 30} & set(withheld.indices.tolist())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name\na\n", "columns name; add 'id'"),
        ("id,label\nimage-000001,cat\n", "'cat' of 'image-000001'"),
        ("id\nnobody\n", "'nobody' is there 0 times"),
        ("id,label\nimage-000003,1\n", "have labels in shards"),
        ("id\nimage-000001\nimage-000001\n", "id 'image-000001' is there 2 times"),
        (f"id,label\nimage-000001,{10**20}\n", "not class numbers"),
        (f"id\n{'x' * 2**18}\n", "cannot be read: field larger"),
    ],
)
def test_tables_that_do_not_belong(shards, tmp_path, text, words):
    file = tmp_path / "labels.csv"
    file.write_text(text)
    with pytest.raises(DataError, match=words):
        select_shards("random", shards, labels=file, size=1, seed=0)


def test_who_is_asked_to_help_asks_nobody_else():
    helpers = Elsewhere()
    with shared(helpers):
        assert current_executor() is helpers
        assert list(each(asks_for_help, [1, 2])) == [None, None]
    assert current_executor() is None


def asks_for_help(part):
    """Return who would help."""
    del part
    return current_executor()


@pytest.mark.slow  # processes of Ray
def test_tasks_of_ray_choose_the_same(tmp_path):
    from fewlabels.jobs.cluster import connected

    rows, logits = clustered(70_000)
    write_shards(tmp_path, rows, 16, logits)
    shards = Shards.open(tmp_path)
    with connected(None) as ray:
        for name in ("coreset", "badge", "npc", "typiclust"):
            options = {"draws": 20_000} if name == "npc" else {}
            settings = {"size": 5, "seed": 0, "options": options}
            one = select_shards(name, shards, **settings)
            several = select_shards(name, shards, executor=RayTasks(ray), **settings)
            np.testing.assert_array_equal(several.indices, one.indices)
