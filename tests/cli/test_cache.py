"""``fewlabels cache``: what is kept is listed, and only that is removed."""

import io
import json
import os
import time

import pytest
import torch
from filelock import FileLock
from tests.models import toy

from fewlabels.data.augment import WeakAugment
from fewlabels.data.derived import ChosenImages
from fewlabels.models.cache import FeatureCache
from fewlabels.models.embedding import embedded, embedded_views

DAY = 24 * 3600


@pytest.fixture
def folder(tmp_path):
    """600 rows that were used today, 40 of two views ten days ago, and other files."""
    folder = tmp_path / "features"
    cache = FeatureCache(folder)
    some = ChosenImages(toy.images(), torch.arange(40))
    settings = WeakAugment()
    other = toy.Means("other")
    embedded_views(some, other, settings=settings, num_views=2, key=0, cache=cache)
    for path in folder.glob("other*.json"):
        os.utime(path, (time.time() - 10 * DAY,) * 2)
    embedded(toy.images(), toy.Means(), cache=cache)
    digits = 32 * "0"
    for name in ("notes.txt", "a.json", f"mine-{digits}.json", f"b-{digits}.lock"):
        (folder / name).write_text("{}")
    return folder


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_what_is_kept_is_listed_and_measured(fewlabels, folder):
    code, out, err = fewlabels("cache", "list", folder, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["folder"] == str(folder)
    seen = [(one["encoder"], one["view"], one["num_rows"]) for one in told["kept"]]
    assert seen[0] == ("means", "clean", 600)
    weak = [("other", f"weak view {number} of key 0", 40) for number in range(2)]
    assert sorted(seen[1:]) == weak
    assert told["kept"][0]["images"] == "1x8x8"
    measured = sum(path.stat().st_size for path in folder.glob("means-*"))
    assert told["kept"][0]["num_bytes"] == measured > 600 * 16
    code, out, _ = fewlabels("cache", "list", folder)
    assert "weak view 1" in " ".join(out.split())
    assert "600" in out
    assert str(folder) in out.replace("\n", "")


def test_a_look_at_rows_counts_as_use(fewlabels, folder):
    (some,) = folder.glob("means-*.json")
    os.utime(some, (time.time() - 99 * DAY,) * 2)
    embedded(toy.images(), toy.Means(), cache=FeatureCache(folder))
    code, _, _ = fewlabels("cache", "prune", folder, "--unused", 50, "--yes")
    assert code == 0
    assert some.exists()


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        (("--unused", "9"), "other-"),
        (("--unused", "11"), "nothing-"),
        (("--encoder", "eans"), "means-"),
        (("--encoder", "means", "--unused", "1"), "nothing-"),
        (("--down-to", "0.000025"), "other-"),
        (("--down-to", "1"), "nothing-"),
    ],
)
def test_what_was_chosen_goes_and_nothing_else(fewlabels, folder, words, gone):
    before = names(folder)
    code, out, err = fewlabels("cache", "prune", folder, *words, "--yes")
    assert (code, err) == (0, "")
    assert names(folder) == [name for name in before if not name.startswith(gone)]
    assert ("freed" in out) == (gone != "nothing-")


def test_nothing_goes_unasked(fewlabels, folder, monkeypatch):
    before = names(folder)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    code, out, err = fewlabels("cache", "prune", folder, "--all")
    assert code == 1
    assert "means" in out
    assert "Remove these rows?" in err
    assert names(folder) == before
    code, _, err = fewlabels("cache", "prune", folder)
    assert code == 2
    assert "Give --encoder, --unused" in err


def test_rows_that_are_being_made_stay(fewlabels, folder):
    (some,) = folder.glob("means-*.json")
    with FileLock(some.with_suffix(".lock")):
        code, _, err = fewlabels("cache", "prune", folder, "--encoder", "means", "-y")
    assert code == 1
    assert "Another process is embedding images with 'means'" in err
    assert some.exists()


def test_the_rest_goes_though_some_rows_are_being_made(fewlabels, folder):
    (some, *_) = folder.glob("other-*.json")  # the longest unused go first
    with FileLock(some.with_suffix(".lock")):
        code, _, err = fewlabels("cache", "prune", folder, "--all", "-y")
    assert code == 1
    assert "Another process is embedding images with 'other'" in err
    assert list(folder.glob("*.rows")) == [some.with_suffix(".rows")]
    assert some.with_suffix(".index").exists()


@pytest.mark.parametrize(
    "content",
    ["{}", "", "[1]", '{"encoder": "other"}', '{"encoder": 1}', "\0" * 99],
)
def test_files_of_others_stay_whatever_their_names(fewlabels, folder, content):
    theirs = [folder / f"photos-{32 * 'a'}.{ending}" for ending in ("json", "rows")]
    for path in theirs:
        path.write_text(content)
    assert "photos" not in fewlabels("cache", "list", folder)[1]
    assert fewlabels("cache", "prune", folder, "--all", "--yes")[0] == 0
    assert [path.read_text() for path in theirs] == [content, content]
    assert not list(folder.glob("means-*.rows"))


def test_rows_are_made_again_after_all_went(fewlabels, folder):
    assert fewlabels("cache", "prune", folder, "--all", "--yes")[0] == 0
    digits = 32 * "0"
    assert names(folder) == ["a.json", f"mine-{digits}.json", "notes.txt"]
    encoder = toy.Means()
    embedded(toy.images(), encoder, cache=FeatureCache(folder))
    assert encoder.num_embedded == 600


def test_the_cache_of_this_user_is_meant_where_none_is_named(
    fewlabels, tmp_path, monkeypatch
):
    monkeypatch.setenv("FEWLABELS_CACHE", str(tmp_path / "not there"))
    code, out, _ = fewlabels("cache", "list")
    assert code == 0
    assert out.startswith("No rows found in ")
    code, _, err = fewlabels("cache", "list", tmp_path / "typo")
    assert code == 2
    assert "There is no folder" in err
