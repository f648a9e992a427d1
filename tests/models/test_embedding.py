"""Rows and views are those of the definition, whatever the blocks and the cache."""

from hashlib import blake2b

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models import toy

from fewlabels import rng
from fewlabels.data import augment
from fewlabels.data.augment import StrongAugment, WeakAugment
from fewlabels.data.decode import inspect
from fewlabels.data.derived import ChosenImages
from fewlabels.data.files import FileImages
from fewlabels.data.folder import folder_pool
from fewlabels.errors import DataError, NotFiniteError, ShapeError, UsageError
from fewlabels.models.cache import BLOCK, FeatureCache
from fewlabels.models.embedding import StoredViews, embedded, embedded_views
from fewlabels.pool import read_rows

pytestmark = pytest.mark.usefixtures("untouched_randomness")


def save_grey(path, level):
    Image.fromarray(np.full((8, 8), level, np.uint8)).save(path)


@pytest.fixture(params=["memory", "cache"])
def cache(request, tmp_path):
    return FeatureCache(tmp_path) if request.param == "cache" else None


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("num_items", [1, BLOCK - 1, BLOCK, BLOCK + 1, 600])
def test_each_row_is_that_of_its_image_alone(cache, num_items, dtype):
    images = toy.images(num_items)
    rows = embedded(images, toy.Means(), cache=cache, dtype=dtype)
    alone = torch.cat([toy.Means().embed(image[None]) for image in images.items])
    assert rows.dtype == dtype
    assert np.array_equal(rows, alone.numpy().astype(dtype))


def test_no_items_give_no_rows(cache):
    assert embedded(toy.images(0), toy.Means(), cache=cache).shape == (0, 8)


def test_rows_are_read_as_single_precision(cache):
    rows = embedded(toy.images(), toy.Means(), cache=cache)
    some = torch.tensor([599, 3, 3])
    read = read_rows(rows, some)
    assert read.dtype == torch.float32
    assert torch.equal(read, torch.from_numpy(np.array(rows)).float()[some])
    read.zero_()  # a copy
    assert read_rows(rows, some).any()


def view_naive(image, settings, number, key):
    """One weak or strong view by the definition: the item is all that names it."""
    kind = "weak" if isinstance(settings, WeakAugment) else "strong"
    name = f"{kind} view {number} of key {key}"
    pixels = blake2b(image.numpy().tobytes(), digest_size=16).hexdigest()
    item = blake2b(pixels.encode(), digest_size=16).digest()[:8]
    draws = rng.keyed_uniforms(
        rng.fork(rng.stream(key, name)),
        np.array([int.from_bytes(item, "little", signed=True)]),
        augment.num_draws(settings),
    )
    return augment.view(image[None], torch.from_numpy(draws), settings)


@pytest.mark.parametrize(
    "settings",
    [WeakAugment(flip=True), StrongAugment(), augment.preset("official")],
    ids=["weak", "strong", "randaugment"],
)
def test_views_are_named_by_key_number_and_item(cache, settings):
    images = toy.images(300)
    views = embedded_views(
        images,
        toy.Means(),
        settings=settings,
        num_views=2,
        key=7,
        cache=cache,
    )
    assert views.shape == (300, 2, 8)
    for number in range(2):
        made = [view_naive(image, settings, number, 7) for image in images.items]
        expected = toy.Means().embed(torch.cat(made)).half().numpy()
        assert np.array_equal(views.arrays[number], expected)
    assert not np.array_equal(views.arrays[0], views.arrays[1])


@pytest.mark.parametrize("settings", [WeakAugment(), StrongAugment()])
def test_views_depend_on_no_other_item(settings):
    images = toy.images(300)
    order = torch.randperm(300, generator=toy.draws())[:77]
    options = {"settings": settings, "num_views": 1, "key": 0}
    some = embedded_views(ChosenImages(images, order), toy.Means(), **options)
    every = embedded_views(images, toy.Means(), **options)
    assert np.array_equal(some.arrays[0], every.arrays[0][order])


def test_as_many_views_are_made_at_a_time_however_many_are_wanted(monkeypatch):
    """With several threads, the mean over an image rounds differently when alone."""
    plain, sizes = augment.view, set()

    def noted(images, draws, settings):
        sizes.add((len(images), len(draws)))
        return plain(images, draws, settings)

    monkeypatch.setattr(augment, "view", noted)
    options = {"settings": StrongAugment(), "num_views": 1, "key": 0}
    for num_items in (1, 32, 33, 300):
        embedded_views(toy.images(num_items), toy.Means(), **options)
    assert sizes == {(32, 32)}


def test_an_interrupted_embedding_makes_the_same_views(tmp_path):
    images = toy.images()

    class Tired(toy.Means):
        def embed(self, images):
            if self.num_embedded:
                raise KeyboardInterrupt
            return super().embed(images)

    def views(encoder, folder):
        return embedded_views(
            images,
            encoder,
            settings=StrongAugment(),
            num_views=1,
            key=0,
            cache=FeatureCache(folder),
        )

    with pytest.raises(KeyboardInterrupt):
        views(Tired(), tmp_path / "interrupted")
    again = toy.Means()
    resumed = views(again, tmp_path / "interrupted").arrays[0]
    assert again.num_embedded == 600 - BLOCK
    assert np.array_equal(resumed, views(toy.Means(), tmp_path / "whole").arrays[0])


@pytest.mark.parametrize(
    "change",
    [{"key": 1}, {"settings": StrongAugment(rotation=16)}, {"settings": WeakAugment()}],
)
def test_other_views_have_other_files(tmp_path, change):
    images, encoder = toy.images(), toy.Means()
    given = {"settings": StrongAugment(), "num_views": 1, "key": 0}
    for options in (given, {**given, **change}):
        embedded_views(images, encoder, cache=FeatureCache(tmp_path), **options)
    assert encoder.num_embedded == 1200
    assert len(list(tmp_path.glob("*.rows"))) == 2


def test_views_of_other_code_have_other_files(tmp_path, monkeypatch):
    images, encoder = toy.images(), toy.Means()

    def views():
        return embedded_views(
            images,
            encoder,
            settings=StrongAugment(),
            num_views=1,
            key=0,
            cache=FeatureCache(tmp_path),
        )

    views()
    monkeypatch.setattr(
        "fewlabels.data.augment.view", lambda images, *_: images.flip(3)
    )
    views()
    assert encoder.num_embedded == 1200


def test_a_view_of_each_item_is_read():
    arrays = tuple(np.arange(12.0).reshape(4, 3) + 100 * v for v in range(3))
    views = StoredViews(arrays)
    rows = views.read(torch.tensor([3, 0, 3]), torch.tensor([2, 0, 1]))
    assert rows.dtype == torch.float32
    assert rows.tolist() == [[209, 210, 211], [0, 1, 2], [109, 110, 111]]


def test_no_views_are_refused():
    with pytest.raises(UsageError, match="num_views is 0"):
        embedded_views(
            toy.images(1), toy.Means(), settings=WeakAugment(), num_views=0, key=0
        )


# ------------------------------------------------------------------------- errors


def test_too_large_numbers_are_told_before_they_are_lost(cache):
    large = toy.Means(scale=1e4)
    with pytest.raises(NotFiniteError, match=r"beyond the range of float16 for"):
        embedded(toy.images(), large, cache=cache)
    rows = embedded(toy.images(), large, cache=cache, dtype="float32")
    assert np.asarray(rows).max() > 65504


def test_an_encoder_that_gives_nan_is_told(cache):
    with pytest.raises(NotFiniteError, match=r"NaN, infin.* for 256 of 256 images"):
        embedded(toy.images(), toy.Means(scale=float("nan")), cache=cache)


def test_an_encoder_of_another_length_is_told(cache):
    class Longer(toy.Means):
        feature_size = 9

    with pytest.raises(ShapeError, match=r"\(256, 8\), not \(256, 9\)"):
        embedded(toy.images(), Longer(), cache=cache)


def test_a_file_that_disappears_stops_the_work(tmp_path):
    for number in range(3):
        save_grey(tmp_path / f"{number}.png", 50 * number)
    pool = folder_pool(tmp_path, size=None, test_share=0.0, use_labels=False)
    (tmp_path / "1.png").unlink()
    cache = FeatureCache(tmp_path / "cache")
    with pytest.raises(DataError, match=r"1.png has changed .* Load it again"):
        embedded(pool.images, toy.Means(), cache=cache)
    after = folder_pool(tmp_path, size=None, test_share=0.0, use_labels=False)
    rows = embedded(after.images, toy.Means(), cache=cache)
    assert np.asarray(rows)[:, 0].tolist() == [0.0, 12.5]


def test_a_file_that_has_changed_gives_no_row_in_the_name_of_the_old_one(tmp_path):
    path, cache = tmp_path / "a.png", FeatureCache(tmp_path / "cache")
    save_grey(path, 100)
    pool = folder_pool(tmp_path, size=None, test_share=0.0, use_labels=False)
    save_grey(path, 200)
    with pytest.raises(DataError, match=r"a.png.*its content has changed.*again"):
        embedded(pool.images, toy.Means(), cache=cache)
    save_grey(path, 100)
    assert embedded(pool.images, toy.Means(), cache=cache)[[0]].tolist() == [[12.5] * 8]


def test_files_spare_reading_all_pixels(tmp_path):
    """What was embedded once is found without decoding a file."""
    for number in range(3):
        save_grey(tmp_path / f"{number}.png", 50 * number)
    read = []

    class Noted(FileImages):
        def read(self, indices):
            read.extend(indices.tolist())
            return super().read(indices)

    def noted(*names):
        found = (inspect(name, tmp_path / name) for name in names)
        return Noted(tuple(found), (1, 8, 8))

    cache = FeatureCache(tmp_path / "cache")
    images = noted("0.png", "1.png", "2.png")
    embedded(images, toy.Means(), cache=cache)
    assert read == [0, 1, 2]
    (tmp_path / "1.png").rename(tmp_path / "moved.png")
    others = noted("moved.png", "0.png")
    found = embedded(others, toy.Means(), cache=cache)
    assert np.asarray(found)[:, 0].tolist() == [6.25, 0]
    assert read == [0, 1, 2]
