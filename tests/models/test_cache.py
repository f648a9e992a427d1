"""Rows on disk belong to items: found again, taken up after a kill, never another's."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.models import toy

from fewlabels import files
from fewlabels.data.augment import StrongAugment
from fewlabels.data.derived import ChosenImages
from fewlabels.errors import StorageError
from fewlabels.files import add_checksum, verify_checksum
from fewlabels.models.cache import BLOCK, ENTRY, FeatureCache, StoredRows
from fewlabels.models.embedding import embedded, embedded_views

pytestmark = pytest.mark.usefixtures("untouched_randomness")

ROW = 8 * 2  # bytes of eight features in half precision


def kept(folder, images=None, encoder=None, **options):
    images = toy.images() if images is None else images
    encoder = toy.Means() if encoder is None else encoder
    return embedded(images, encoder, cache=FeatureCache(folder), **options)


def values(images=None, dtype=np.float16):
    """Rows by the definition."""
    images = toy.images() if images is None else images
    everything = images.read(torch.arange(len(images)))
    return toy.Means().embed(everything).numpy().astype(dtype)


def file_in(folder, ending):
    (found,) = folder.glob(f"*.{ending}")
    return found


def test_the_second_time_nothing_is_embedded(tmp_path):
    kept(tmp_path / "new" / "folder")
    again = toy.Means()
    second = kept(tmp_path / "new" / "folder", encoder=again)
    assert again.num_embedded == 0
    assert isinstance(second, StoredRows)
    assert isinstance(second.stored, np.memmap)
    assert not second.stored.flags.writeable
    assert (second.shape, second.dtype, len(second)) == ((600, 8), np.float16, 600)
    assert np.array_equal(second, values())


def test_no_more_than_a_block_is_embedded_at_a_time(tmp_path):
    class Noted(toy.Means):
        def embed(self, images):
            sizes.append(len(images))
            return super().embed(images)

    sizes = []
    kept(tmp_path, encoder=Noted())
    assert sizes == [BLOCK, BLOCK, 600 - 2 * BLOCK]


# --------------------------------------------------------------- which rows are whose


def test_parts_of_a_pool_read_the_rows_of_the_whole_in_any_order(tmp_path):
    kept(tmp_path)
    part = ChosenImages(toy.images(), torch.tensor([599, 3, 3, 0]))
    encoder = toy.Means()
    assert np.array_equal(kept(tmp_path, part, encoder), values()[[599, 3, 3, 0]])
    assert encoder.num_embedded == 0


def test_equal_items_are_embedded_once(tmp_path):
    copies = ChosenImages(toy.images(), torch.arange(900) % 300)
    encoder = toy.Means()
    assert np.array_equal(kept(tmp_path, copies, encoder), values(copies))
    assert encoder.num_embedded == 300


@pytest.mark.parametrize(
    "change",
    [
        {"encoder": toy.Means("other")},
        {"images": toy.images(seed=1)},
        {"images": toy.images(shape=(1, 8, 16))},
        {"images": toy.images(shape=(3, 8, 8))},
        {"dtype": "float32"},
    ],
)
def test_another_encoder_or_content_has_other_rows(tmp_path, change):
    kept(tmp_path)
    encoder = change.pop("encoder", toy.Means())
    before = encoder.num_embedded
    found = kept(tmp_path, encoder=encoder, **change)
    images = change.get("images", toy.images())
    assert encoder.num_embedded - before == len(images)
    assert np.array_equal(found, values(images, change.get("dtype", "float16")))


def test_equal_bytes_of_another_shape_have_other_rows(tmp_path):
    """An encoder may give rows of another length then."""
    wide = toy.CountedImages(toy.images().items.view(600, 1, 4, 16))

    class Wide(toy.Means):
        feature_size = 4

    kept(tmp_path)
    assert kept(tmp_path, wide, Wide()).shape == (600, 4)
    assert np.array_equal(kept(tmp_path), values())


def test_views_are_kept_one_by_one(tmp_path):
    images, cache = toy.images(), FeatureCache(tmp_path)
    counts = []
    for num_views in (1, 3, 2):
        encoder = toy.Means()
        embedded_views(
            images,
            encoder,
            settings=StrongAugment(),
            num_views=num_views,
            key=5,
            cache=cache,
        )
        counts.append(encoder.num_embedded)
    assert counts == [600, 1200, 0]


# ------------------------------------------------------------------------- damage


def test_a_description_of_something_else_is_not_believed(tmp_path):
    kept(tmp_path)
    path = file_in(tmp_path, "json")
    sound = path.read_text()
    told = json.loads(verify_checksum(sound))
    assert told == {
        "encoder": "means",
        "images": "1x8x8",
        "view": "clean",
        "dtype": "float16",
        "features": 8,
    }
    others = [
        add_checksum(json.dumps({**told, "encoder": "other"})),
        add_checksum(json.dumps({**told, "features": 7})),
        add_checksum(json.dumps({**told, "features": "8"})),
        add_checksum(json.dumps({**told, "features": 10**30})),
        add_checksum(json.dumps({**told, "features": -8})),
        sound.replace("1x8x8", "1x8x9"),
        100_000 * "[",
        "",
    ]
    for other in others:
        path.write_text(other)
        encoder = toy.Means()
        assert np.array_equal(kept(tmp_path, encoder=encoder), values())
        assert encoder.num_embedded == toy.NUM_ITEMS
        assert path.read_text() == sound


@pytest.mark.parametrize(
    ("ending", "position"),
    [("rows", at) for at in (0, 300 * ROW + 5, -1)]
    + [("index", at) for at in (0, 20, 300 * 24 + 3, -1)],
)
def test_a_damaged_row_is_found_out_and_made_again(tmp_path, ending, position):
    kept(tmp_path)
    path = file_in(tmp_path, ending)
    content = bytearray(path.read_bytes())
    assert len(content) == 600 * {"rows": ROW, "index": ENTRY.itemsize}[ending]
    content[position] ^= 1
    path.write_bytes(content)
    encoder = toy.Means()
    for _ in range(2):
        assert np.array_equal(kept(tmp_path, encoder=encoder), values())
        assert encoder.num_embedded == 1


@pytest.mark.parametrize(
    ("ending", "size", "step"), [("rows", ROW, ROW), ("index", 16, 24)]
)
def test_two_items_that_changed_places_are_found_out(tmp_path, ending, size, step):
    kept(tmp_path)
    path = file_in(tmp_path, ending)
    content = bytearray(path.read_bytes())
    first, second = content[:size], content[step : step + size]
    content[:size], content[step : step + size] = second, first
    path.write_bytes(content)
    encoder = toy.Means()
    assert np.array_equal(kept(tmp_path, encoder=encoder), values())
    assert encoder.num_embedded == 2


def test_files_of_another_encoder_are_found_out(tmp_path):
    kept(tmp_path / "other", encoder=toy.Means("other", scale=2.0))
    kept(tmp_path / "own")
    for ending in ("rows", "index"):
        other = file_in(tmp_path / "other", ending).read_bytes()
        file_in(tmp_path / "own", ending).write_bytes(other)
    assert np.array_equal(kept(tmp_path / "own"), values())


@pytest.mark.parametrize("ending", ["rows", "index", "json"])
@pytest.mark.parametrize("cut", [0, 70, 300, -1, None])
def test_a_file_that_is_cut_off_or_too_long_is_mended(tmp_path, ending, cut):
    kept(tmp_path)
    path = file_in(tmp_path, ending)
    content = path.read_bytes()
    path.write_bytes(content + b"xyz" if cut is None else content[:cut])
    assert np.array_equal(kept(tmp_path), values())
    kept(tmp_path, toy.images(seed=1))  # a torn end does not shift what comes later
    assert np.array_equal(kept(tmp_path), values())
    names = {file.suffix for file in tmp_path.iterdir()}
    assert names == {".rows", ".index", ".json", ".lock"}


@pytest.mark.parametrize("ending", ["rows", "index", "json"])
def test_a_file_that_is_gone_is_made_again(tmp_path, ending):
    kept(tmp_path)
    file_in(tmp_path, ending).unlink()
    assert np.array_equal(kept(tmp_path), values())


def test_rows_that_are_open_outlive_what_others_do(tmp_path):
    rows = kept(tmp_path)
    kept(tmp_path, toy.images(seed=1))
    for path in tmp_path.iterdir():
        path.unlink()
    kept(tmp_path, toy.images(seed=2))
    assert np.array_equal(rows, values())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("json", b""),
        ("json", b"{}"),
        ("index", b""),
        ("index", bytes(70)),
        ("rows", None),
    ],
)
def test_damage_that_somebody_mends_harms_no_reader(tmp_path, ending, content):
    """Memory that is mapped to a file which gets shorter ends the process."""
    rows = kept(tmp_path, toy.images(num_items=4096))
    path = file_in(tmp_path, ending)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    child = os.fork()
    if not child:
        kept(tmp_path, toy.images(seed=1))
        is_same = np.array_equal(rows, values(toy.images(num_items=4096)))
        os._exit(0 if is_same else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("name", ["rows", "index", "json"])
def test_rows_that_cannot_be_read_now_are_not_made_again(tmp_path, monkeypatch, name):
    """For want of memory, or of a right; the files are as good as they were."""
    kept(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    plain = Path.read_bytes

    def read_bytes(path):
        if path.suffix == f".{name}":
            raise PermissionError(13, "Permission denied")
        return plain(path)

    def memmap(*args, **options):
        raise OSError(12, "Cannot allocate memory")

    if name == "rows":
        monkeypatch.setattr(np, "memmap", memmap)
    else:
        monkeypatch.setattr(Path, "read_bytes", read_bytes)
    encoder = toy.Means()
    with pytest.raises(StorageError, match="cannot be read: "):
        kept(tmp_path, encoder=encoder)
    monkeypatch.undo()
    assert encoder.num_embedded == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_full_disk_is_told_and_what_was_written_stays(tmp_path, monkeypatch):
    plain, blocks = files.append, []

    def append(path, content):
        if path.suffix == ".rows":
            blocks.append(content)
            if len(blocks) == 2:
                plain(path, content[:100])
                with files.wrap_os_errors(path):
                    raise OSError(28, "No space left on device")
        plain(path, content)

    monkeypatch.setattr(files, "append", append)
    with pytest.raises(StorageError, match="disk is full"):
        kept(tmp_path)
    monkeypatch.undo()
    encoder = toy.Means()
    assert np.array_equal(kept(tmp_path, encoder=encoder), values())
    assert encoder.num_embedded == toy.NUM_ITEMS - BLOCK


def test_a_disk_that_forgets_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "append", lambda path, content: None)
    with pytest.raises(StorageError, match=r"just written.*cannot be read back"):
        kept(tmp_path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="could not be written"):
        kept(tmp_path / "file")


def test_the_cache_of_a_user_is_beside_the_downloads(tmp_path, monkeypatch):
    monkeypatch.setenv("FEWLABELS_CACHE", str(tmp_path))
    assert FeatureCache.of_this_user().folder == tmp_path / "features"
