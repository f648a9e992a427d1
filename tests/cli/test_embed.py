"""``fewlabels embed`` from the shell: what it will cost, and what came out."""

import json

import pytest
from tests.models.bulk.here import pictures


@pytest.fixture
def images(tmp_path):
    return pictures(tmp_path / "images", 5)


WORDS = ("--encoder", "pixels", "--shard-size", 3, "--workers", 1)


@pytest.mark.usefixtures("forked_workers")
def test_images_become_shards(fewlabels, images):
    code, out, _ = fewlabels("embed", images, "out", *WORDS)
    assert code == 0
    assert out.startswith("5 rows in 2 shards: ")
    assert "1 image in unreadable.csv could not be read." in " ".join(out.split())
    code, out, _ = fewlabels("embed", images, "out", *WORDS, "--json")
    told = json.loads(out)
    assert (told["num_rows"], told["num_shards"], told["num_found"]) == (5, 2, 2)


def test_the_cost_is_told_and_nothing_is_written(fewlabels, images, tmp_path):
    code, out, _ = fewlabels("embed", images, "out", *WORDS, "--dry-run")
    assert code == 0
    assert "6 images on 1 worker: " in " ".join(out.split())
    assert not (tmp_path / "out").exists()
    code, out, _ = fewlabels("embed", images, "out", *WORDS, "--dry-run", "--json")
    told = json.loads(out)
    assert told["num_images"] == 6
    assert told["seconds"] > 0


def test_options_of_the_other_engine_are_refused(fewlabels, images):
    code, _, err = fewlabels("embed", images, "out", "--gpus", 0.5)
    assert (code, "--gpus" in err) == (2, True)
