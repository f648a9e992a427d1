"""A folder of 2,000 photographs that changes: what is new is embedded, nothing else."""

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models import toy
from torch import nn

from fewlabels import models, rng
from fewlabels.data.augment import StrongAugment
from fewlabels.data.folder import folder_pool
from fewlabels.models import encoders
from fewlabels.models.cache import FeatureCache
from fewlabels.models.embedding import embedded, embedded_views
from fewlabels.models.module_encoder import ModuleEncoder

NUM_PHOTOGRAPHS = 2000


class Counting(ModuleEncoder):
    """Two small convolutions, whose sums round, and the number of images they saw."""

    def __init__(self):
        first, second = nn.Conv2d(3, 8, 3, stride=2), nn.Conv2d(8, 16, 3)
        network = nn.Sequential(first, nn.ReLU(), second)
        draws = rng.stream(0, "weights")
        for weights in network.parameters():
            weights.data.normal_(generator=draws)
        super().__init__(network)
        self.num_embedded = 0

    def embed(self, images):
        self.num_embedded += len(images)
        return super().embed(images)


def save(folder, numbers):
    """Save small photographs, by turns as JPEG and PNG."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        draws = np.random.default_rng(number)
        coarse = draws.integers(256, size=(3, 3, 3), dtype=np.uint8)
        picture = Image.fromarray(coarse).resize((12, 12), Image.Resampling.BICUBIC)
        picture.save(folder / f"{number:05}.{'jpg' if number % 2 else 'png'}")


def rows_of(folder, encoder, place):
    """Return rows of all photographs and of a strong view of each."""
    pool = folder_pool(folder, size=None, test_share=0.0, use_labels=False)
    kept = FeatureCache(place)
    options = {"settings": StrongAugment(), "num_views": 1, "key": 0, "cache": kept}
    clean = embedded(pool.images, encoder, cache=kept)
    return clean, embedded_views(pool.images, encoder, **options).arrays[0]


@pytest.mark.parametrize(
    "number", [300, pytest.param(NUM_PHOTOGRAPHS, marks=pytest.mark.slow)]
)
def test_ten_new_photographs_embed_ten(tmp_path, number):
    photographs = tmp_path / "photographs"
    save(photographs, range(number))
    first = Counting()
    rows_of(photographs, first, tmp_path / "kept")
    assert first.num_embedded == 2 * number

    save(photographs, range(number, number + 10))
    (photographs / "elsewhere").mkdir()
    for moved in range(0, 20, 4):
        path = photographs / f"{moved:05}.png"
        path.rename(photographs / "elsewhere" / f"z{moved}.png")
    for gone in range(100, 110, 2):
        (photographs / f"{gone:05}.png").unlink()
    later, fresh = Counting(), Counting()
    found = rows_of(photographs, later, tmp_path / "kept")
    assert later.num_embedded == 2 * 10
    expected = rows_of(photographs, fresh, tmp_path / "fresh")
    assert fresh.num_embedded == 2 * (number + 10 - 5)
    for one, other in zip(found, expected, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


# ------------------------------------------------------ a row is that of its item alone


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (3, 31, 45)])
@pytest.mark.parametrize("name", ["pixels", "wrn-10-1"])
def test_companions_change_no_bit_of_a_row(name, shape):
    network = models.build("wrn-10-1", shape, 3, rng.stream(0, "weights"))
    encoder = encoders.resolve(name if name == "pixels" else network)
    images = toy.images(70, shape).items
    together = encoder.embed(images)
    order = torch.randperm(70, generator=toy.draws())
    assert torch.equal(encoder.embed(images[order]), together[order])
    for number in (0, 31, 69):
        assert torch.equal(
            encoder.embed(images[number : number + 1])[0], together[number]
        )
