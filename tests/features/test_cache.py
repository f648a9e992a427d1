"""Rows on disk are found again, taken up after a kill, and never another's."""

import io
import json
import os
import random
import signal

import numpy as np
import pytest
from tests.features import toy

from fewlabels import files
from fewlabels.augment import StrongAugment
from fewlabels.errors import StorageError
from fewlabels.features import FeatureCache, embedded, embedded_views
from fewlabels.features.cache import BLOCK
from fewlabels.progress import reporting

pytestmark = pytest.mark.usefixtures("untouched_randomness")


def kept(folder, images=None, encoder=None, **options):
    images = toy.images() if images is None else images
    encoder = toy.Means() if encoder is None else encoder
    cache = FeatureCache(folder)
    return embedded(images, toy.ids_of(images), encoder, cache=cache, **options)


def file_in(folder, ending):
    (found,) = folder.glob(f"*{ending}")
    return found


def test_the_second_time_nothing_is_embedded(tmp_path):
    first = kept(tmp_path / "new" / "folder")
    again = toy.Means()
    second = kept(tmp_path / "new" / "folder", encoder=again)
    assert again.num_embedded == 0
    assert isinstance(second, np.memmap)
    assert not second.flags.writeable
    assert np.array_equal(first, second)
    expected = toy.Means().embed(toy.images().items).numpy().astype(np.float16)
    assert np.array_equal(second, expected)


def test_no_more_than_a_block_is_read_at_a_time(tmp_path):
    images = toy.images()
    kept(tmp_path, images)
    assert max(map(len, images.reads)) == BLOCK


@pytest.mark.parametrize(
    "change",
    [
        {"encoder": toy.Means("other")},
        {"images": toy.images(seed=1)},
        {"images": toy.images(num_items=599)},
        {"images": toy.images(shape=(1, 8, 16))},
        {"images": toy.images(shape=(3, 8, 8))},
        {"dtype": "float32"},
    ],
)
def test_another_encoder_or_content_has_another_file(tmp_path, change):
    kept(tmp_path)
    encoder = change.pop("encoder", toy.Means())
    before = encoder.num_embedded
    found = kept(tmp_path, encoder=encoder, **change)
    images = change.get("images", toy.images())
    assert encoder.num_embedded - before == len(images)
    dtype = change.get("dtype", "float16")
    assert np.array_equal(found, encoder.embed(images.items).numpy().astype(dtype))
    assert len(list(tmp_path.glob("*.npy"))) == 2


def test_equal_ids_with_other_pixels_have_another_file(tmp_path):
    """Ids know nothing of noise, or of the size that images are brought to."""
    images, noisy = toy.images(), toy.images(seed=1)
    cache, ids = FeatureCache(tmp_path), toy.ids_of(images)
    embedded(images, ids, toy.Means(), cache=cache)
    encoder = toy.Means()
    embedded(noisy, ids, encoder, cache=cache)
    assert encoder.num_embedded == toy.NUM_ITEMS


@pytest.mark.parametrize("names", [(), [str(n) for n in range(toy.NUM_ITEMS)]])
def test_without_hashes_in_ids_each_pixel_counts(tmp_path, names):
    images = toy.images()
    cache = FeatureCache(tmp_path)
    embedded(images, names, toy.Means(), cache=cache)
    changed = toy.images()
    changed.items[301, 0, 3, 3] ^= 1
    encoder = toy.Means()
    embedded(changed, names, encoder, cache=cache)
    assert encoder.num_embedded == toy.NUM_ITEMS
    embedded(toy.images(), names, encoder, cache=cache)
    assert encoder.num_embedded == toy.NUM_ITEMS


def test_a_journal_of_something_else_is_not_believed(tmp_path):
    kept(tmp_path)
    journal = file_in(tmp_path, ".jsonl")
    first, *others = journal.read_text().splitlines()
    told = json.loads(first)
    assert told["encoder"] == "means"
    assert told["shape"] == [toy.NUM_ITEMS, 8]
    for other in (json.dumps({**told, "encoder": "other"}), 100_000 * "["):
        journal.write_text("\n".join([other, *others, ""]))
        encoder = toy.Means()
        kept(tmp_path, encoder=encoder)
        assert encoder.num_embedded == toy.NUM_ITEMS


# ------------------------------------------------------------------------- damage


@pytest.mark.parametrize(
    ("position", "num_again"),
    [(0, 600), (130, 600), (128 + 256 * 16 + 5, 344), (-1, 88)],
)
def test_a_damaged_array_is_found_out_and_mended(tmp_path, position, num_again):
    sound = np.array(kept(tmp_path))
    path = file_in(tmp_path, ".npy")
    content = bytearray(path.read_bytes())
    assert len(content) == 128 + 600 * 16
    content[position] ^= 1
    path.write_bytes(content)
    encoder = toy.Means()
    assert np.array_equal(kept(tmp_path, encoder=encoder), sound)
    assert encoder.num_embedded == num_again
    kept(tmp_path, encoder=encoder)
    assert encoder.num_embedded == num_again


@pytest.mark.parametrize("first", ["[" * 5000, '{"shape": [1, 1e999]}'])
def test_a_journal_that_cannot_be_followed_is_no_journal(tmp_path, first):
    before = np.array(kept(tmp_path))
    file_in(tmp_path, ".jsonl").write_text(first + "\n")
    assert np.array_equal(kept(tmp_path), before)


@pytest.mark.parametrize("ending", [".npy", ".jsonl"])
@pytest.mark.parametrize("cut", [0, 70, 300, -1, None])
def test_a_file_that_is_cut_off_or_too_long_is_mended(tmp_path, ending, cut):
    sound = np.array(kept(tmp_path))
    path = file_in(tmp_path, ending)
    content = path.read_bytes()
    path.write_bytes(content + b"xyz" if cut is None else content[:cut])
    assert np.array_equal(kept(tmp_path), sound)
    names = {file.suffix for file in tmp_path.iterdir()}
    assert names == {".npy", ".jsonl", ".lock"}


@pytest.mark.parametrize("ending", [".npy", ".jsonl"])
def test_a_file_that_is_gone_is_made_again(tmp_path, ending):
    sound = np.array(kept(tmp_path))
    file_in(tmp_path, ending).unlink()
    assert np.array_equal(kept(tmp_path), sound)


def test_a_pickle_in_place_of_an_array_is_not_opened(tmp_path):
    sound = np.array(kept(tmp_path))
    path = file_in(tmp_path, ".npy")
    pickled = io.BytesIO()
    np.save(pickled, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    path.write_bytes(pickled.getvalue())
    assert np.array_equal(kept(tmp_path), sound)


def test_arrays_are_opened_with_pickling_switched_off(tmp_path, monkeypatch):
    seen = []
    plain = np.load

    def load(*arguments, **options):
        seen.append(options)
        return plain(*arguments, **options)

    monkeypatch.setattr(np, "load", load)
    kept(tmp_path)
    kept(tmp_path)
    assert seen == [{"mmap_mode": "r", "allow_pickle": False}] * 2


def test_a_full_disk_is_told_and_what_was_written_stays(tmp_path, monkeypatch):
    plain, blocks = files.append, []

    def append(path, content):
        if path.suffix == ".rows" and len(content) > 1000:
            blocks.append(content)
            if len(blocks) == 2:
                with files.explained(path):
                    raise OSError(28, "No space left on device")
        plain(path, content)

    monkeypatch.setattr(files, "append", append)
    with pytest.raises(StorageError, match="disk is full"):
        kept(tmp_path)
    monkeypatch.undo()
    encoder = toy.Means()
    kept(tmp_path, encoder=encoder)
    assert encoder.num_embedded == toy.NUM_ITEMS - BLOCK


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="could not be written"):
        kept(tmp_path / "file")


def test_the_cache_of_a_user_is_beside_the_downloads(tmp_path, monkeypatch):
    monkeypatch.setenv("FEWLABELS_CACHE", str(tmp_path))
    assert FeatureCache.of_this_user().folder == tmp_path / "features"


# -------------------------------------------------------------------------- kills


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
@pytest.mark.parametrize("torn_bytes", [0, 1, 20, 10**6])
def test_a_kill_at_any_writing_changes_no_byte(tmp_path, torn_bytes):
    whole = kept(tmp_path / "whole")
    expected = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    for moment in range(1, 8):  # a header, then rows and a line for each block
        folder = tmp_path / f"killed-at-{moment}"
        assert killed_at(moment, folder, torn_bytes)
        assert not list(folder.glob("*.npy"))
        assert np.array_equal(kept(folder), whole)
        found = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert found == expected
    assert not killed_at(8, tmp_path / "not-killed", torn_bytes)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
def test_many_kills_one_after_the_other(tmp_path):
    whole, chance = kept(tmp_path / "whole"), random.Random(0)
    kills = sum(
        killed_at(chance.randrange(1, 5), tmp_path / "killed", chance.randrange(40))
        for _ in range(6)
    )
    assert kills >= 2
    assert np.array_equal(kept(tmp_path / "killed"), whole)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
def test_two_processes_make_one_array(tmp_path):
    """Each block is embedded by one of them: the other waits and finds the array."""
    log = tmp_path / "embedded.txt"

    class Logged(toy.Means):
        def embed(self, images):
            files.append(log, b"%d\n" % len(images))
            return super().embed(images)

    children = []
    for _ in range(3):
        child = os.fork()
        if not child:
            kept(tmp_path / "cache", encoder=Logged())
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert sum(map(int, log.read_text().split())) == toy.NUM_ITEMS


def test_views_are_kept_one_by_one(tmp_path):
    images, cache = toy.images(), FeatureCache(tmp_path)
    counts = []
    for num_views in (1, 3, 2):
        encoder = toy.Means()
        embedded_views(
            images,
            toy.ids_of(images),
            encoder,
            settings=StrongAugment(),
            num_views=num_views,
            key=5,
            cache=cache,
        )
        counts.append(encoder.num_embedded)
    assert counts == [600, 1200, 0]
