"""Rows and views are those of the definition, whatever the blocks and the cache."""

import numpy as np
import pytest
import torch
from tests.features import toy

from fewlabels import rng
from fewlabels.augment import StrongAugment, WeakAugment, strong, weak
from fewlabels.data.decode import inspect
from fewlabels.data.files import FileImages
from fewlabels.data.folder import folder_pool
from fewlabels.errors import DataError, NotFiniteError, ShapeError, UsageError
from fewlabels.features import (
    FeatureCache,
    StoredViews,
    content_key,
    embedded,
    embedded_views,
    read_rows,
)
from fewlabels.features.cache import BLOCK
from PIL import Image

pytestmark = pytest.mark.usefixtures("untouched_randomness")


@pytest.fixture(params=["memory", "cache"])
def cache(request, tmp_path):
    return FeatureCache(tmp_path) if request.param == "cache" else None


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("num_items", [1, BLOCK - 1, BLOCK, BLOCK + 1, 600])
def test_each_row_is_that_of_its_image_alone(cache, num_items, dtype):
    images = toy.images(num_items)
    rows = embedded(images, (), toy.Means(), cache=cache, dtype=dtype)
    alone = torch.cat([toy.Means().embed(image[None]) for image in images.items])
    assert rows.dtype == dtype
    assert np.array_equal(rows, alone.numpy().astype(dtype))


def test_no_items_give_no_rows(cache):
    assert embedded(toy.images(0), (), toy.Means(), cache=cache).shape == (0, 8)


def test_rows_are_read_as_single_precision(cache):
    rows = embedded(toy.images(), (), toy.Means(), cache=cache)
    some = torch.tensor([599, 3, 3])
    read = read_rows(rows, some)
    assert read.dtype == torch.float32
    assert torch.equal(read, torch.from_numpy(np.array(rows)).float()[some])
    read.zero_()  # a copy
    assert read_rows(rows, some).any()


def views_naive(images, settings, number, key):
    """Weak or strong views by the definition, a block after the other."""
    is_weak = isinstance(settings, WeakAugment)
    vary, name = (weak, "weak view") if is_weak else (strong, "strong view")
    blocks = [
        vary(block, rng.stream(key, name, number, i), settings)
        for i, block in enumerate(torch.split(images.items, 256))
    ]
    return torch.cat(blocks)


@pytest.mark.parametrize("settings", [WeakAugment(flip=True), StrongAugment()])
def test_views_are_named_by_key_number_and_block(cache, settings):
    images = toy.images()
    views = embedded_views(
        images,
        toy.ids_of(images),
        toy.Means(),
        settings=settings,
        num_views=2,
        key=7,
        cache=cache,
    )
    assert views.shape == (600, 2, 8)
    for number in range(2):
        expected = toy.Means().embed(views_naive(images, settings, number, 7))
        assert np.array_equal(views.arrays[number], expected.half().numpy())
    assert not np.array_equal(views.arrays[0], views.arrays[1])


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
            (),
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
        embedded_views(images, (), encoder, cache=FeatureCache(tmp_path), **options)
    assert encoder.num_embedded == 1200
    assert len(list(tmp_path.glob("*.npy"))) == 2


def test_views_of_other_code_have_other_files(tmp_path, monkeypatch):
    images, encoder = toy.images(), toy.Means()

    def views():
        return embedded_views(
            images,
            toy.ids_of(images),
            encoder,
            settings=StrongAugment(),
            num_views=1,
            key=0,
            cache=FeatureCache(tmp_path),
        )

    views()
    monkeypatch.setattr(
        "fewlabels.features.embedding.strong", lambda images, *_: images.flip(3)
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
            toy.images(1), (), toy.Means(), settings=WeakAugment(), num_views=0, key=0
        )


# ------------------------------------------------------------------------- errors


def test_too_large_numbers_are_told_before_they_are_lost(cache):
    large = toy.Means(scale=1e4)
    with pytest.raises(NotFiniteError, match=r"up to [\d.e+]+, and float16 ends at"):
        embedded(toy.images(), (), large, cache=cache)
    rows = embedded(toy.images(), (), large, cache=cache, dtype="float32")
    assert rows.max() > 65504


def test_an_encoder_that_gives_nan_is_told(cache):
    with pytest.raises(NotFiniteError, match="NaN or infinity for 256 of 256 images"):
        embedded(toy.images(), (), toy.Means(scale=float("nan")), cache=cache)


def test_an_encoder_of_another_length_is_told(cache):
    class Longer(toy.Means):
        feature_size = 9

    with pytest.raises(ShapeError, match=r"\(256, 8\) for 256 images.*9 features"):
        embedded(toy.images(), (), Longer(), cache=cache)


def test_ids_of_another_number_are_told(cache):
    with pytest.raises(ShapeError, match="600 images and 1 ids"):
        embedded(toy.images(), ["a"], toy.Means(), cache=cache)


def test_a_file_that_disappears_stops_the_work(tmp_path):
    for number in range(3):
        pixels = np.full((8, 8), 50 * number, np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    pool = folder_pool(tmp_path, size=None, test_share=0.0, use_labels=False)
    (tmp_path / "1.png").unlink()
    cache = FeatureCache(tmp_path / "cache")
    with pytest.raises(DataError, match=r"1.png was a good image .* left out"):
        embedded(pool.images, pool.ids, toy.Means(), cache=cache)
    after = folder_pool(tmp_path, size=None, test_share=0.0, use_labels=False)
    rows = embedded(after.images, after.ids, toy.Means(), cache=cache)
    assert rows[:, 0].tolist() == [0.0, 12.5]


def test_ids_spare_reading_all_files(tmp_path):
    pixels = np.zeros((8, 8), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    file = inspect("a.png", tmp_path / "a.png")
    read = []

    class Noted(FileImages):
        def read(self, indices):
            read.extend(indices.tolist())
            return super().read(indices)

    many = Noted((file,) * 1000, (1, 8, 8))
    ids = [f"{number}-{file.item_id}" for number in range(1000)]
    with_ids = content_key(many, ids)
    assert len(read) == len(set(read)) == 16
    assert {0, 999} <= set(read)
    assert content_key(many, ids) == with_ids
    assert content_key(many, [*ids[1:], ids[0]]) != with_ids
    read.clear()
    content_key(many)
    assert read == list(range(1000))
