"""A cache that is killed while it is written to, or written to by several processes."""

import os
import random
import signal

import numpy as np
import pytest
import torch
from tests.models import toy
from tests.models.test_cache import kept, values

from fewlabels import files
from fewlabels.data.derived import ChosenImages
from fewlabels.models.cache import FeatureCache
from fewlabels.models.embedding import num_missing
from fewlabels.progress import reporting

pytestmark = [
    pytest.mark.usefixtures("untouched_randomness"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork"),
]


class Heard:
    """Notes what is told of progress."""

    def __init__(self):
        self.started, self.amounts = [], []

    def start(self, task, total, done):
        self.started.append((task, total, done))
        return 0

    def advance(self, handle, amount):
        self.amounts.append(amount)

    def tell(self, step, figures):
        pass

    def finish(self, handle):
        pass


def test_progress_begins_where_the_work_stopped(tmp_path):
    class Tired(toy.Means):
        def embed(self, images):
            if self.num_embedded:
                raise KeyboardInterrupt
            return super().embed(images)

    with pytest.raises(KeyboardInterrupt):
        kept(tmp_path, encoder=Tired())
    heard = Heard()
    with reporting(heard):
        kept(tmp_path)
        kept(tmp_path)
    assert heard.started == [("Embedding", 600, 256)]
    assert heard.amounts == [256, 88]


def killed_at(moment, folder, torn_bytes):
    """Fork, embed, and die at some writing, having written a part of it."""
    child = os.fork()
    if not child:
        plain, moments = files.append, []

        def append(path, content):
            moments.append(path)
            if len(moments) == moment:
                plain(path, content[:torn_bytes])
                os.kill(os.getpid(), signal.SIGKILL)
            plain(path, content)

        files.append = append
        kept(folder)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize(
    "torn_bytes", [0, pytest.param(1, marks=pytest.mark.slow), 20, 50, 10**6]
)
def test_a_kill_at_any_writing_changes_no_byte(tmp_path, torn_bytes):
    """Five times six moments: rows and entries of each block."""
    kept(tmp_path / "whole")
    expected = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    for moment in range(1, 7):
        folder = tmp_path / f"killed-at-{moment}"
        assert killed_at(moment, folder, torn_bytes)
        missing = num_missing(toy.images(), toy.Means(), FeatureCache(folder))
        encoder = toy.Means()
        assert np.array_equal(kept(folder, encoder=encoder), values())
        assert encoder.num_embedded == missing
        found = {path.name: path.read_bytes() for path in folder.iterdir()}
        if torn_bytes in {0, 1, 20, 10**6}:  # else a part of a block was kept
            assert found == expected
    assert not killed_at(7, tmp_path / "not-killed", torn_bytes)


def test_many_kills_one_after_the_other(tmp_path):
    chance = random.Random(0)
    kills = sum(
        killed_at(chance.randrange(1, 5), tmp_path / "killed", chance.randrange(400))
        for _ in range(6)
    )
    assert kills >= 2
    assert np.array_equal(kept(tmp_path / "killed"), values())


class Logged(toy.Means):
    """Notes in a file which images it embeds."""

    def __init__(self, log):
        super().__init__()
        self.log = log

    def embed(self, images):
        files.append(self.log, images.numpy().tobytes())
        return super().embed(images)


def test_processes_at_once_embed_each_image_once(tmp_path):
    """They begin at different items and share half of them."""
    log, children = tmp_path / "embedded", []
    some = [torch.arange(600), torch.arange(599, 299, -1), torch.arange(200, 500)]
    for items in some:
        child = os.fork()
        if not child:
            part = ChosenImages(toy.images(), items)
            right = np.array_equal(
                kept(tmp_path / "cache", part, Logged(log)), values(part)
            )
            os._exit(0 if right else 1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    seen = np.frombuffer(log.read_bytes(), dtype="V64")
    assert len(seen) == len(set(seen.tolist())) == toy.NUM_ITEMS
