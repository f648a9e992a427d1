"""Every operation does what Pillow does, pixel by pixel."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw
from tests.data.augment.pillow import (
    ENHANCERS,
    LEVELLESS,
    NUM_IMAGES,
    OPAQUE,
    SIGNED,
    as_pillow,
    as_tensors,
    draw_operations,
    operated,
    pictures,
)

from fewlabels.data.augment import (
    OPERATIONS,
    DrawnOperations,
    RandAugment,
    apply_draws,
    preset,
    shift_and_flip,
    strong,
)
from fewlabels.rng import stream

OFFICIAL_LEVELS = tuple(range(1, 10))
TABLE_LEVELS = (0, 0.37, 1.9, 2.6, 5, 7.77, 9.99)
SIDES = st.integers(1, 20)


def ours(images, name, level, sign, ranges="official"):
    """Carry out one operation at one level with one sign, nothing before or after."""
    num_images = len(images)
    settings = RandAugment(ranges=ranges, empty="black", shift=0, cutout=0)
    draws = DrawnOperations(
        weak=torch.zeros(3, num_images),
        operations=torch.full((1, num_images), OPERATIONS.index(name)),
        levels=torch.full((1, num_images), level, dtype=torch.float64),
        signs=torch.full((1, num_images), sign, dtype=torch.float64),
        centers=torch.zeros(2, num_images),
        sides=torch.zeros(num_images),
    )
    return apply_draws(images, draws, settings)


def assert_alike(name, got, wanted):
    """Demand the same bytes; where Pillow rounds floats, at most one level beside.

    A blend is computed in float32 and cut, so a compiler that fuses multiplication and
    addition may end a level away, but seldom.
    """
    difference = (got.int() - wanted.int()).abs()
    if name in ENHANCERS:
        assert difference.max() <= 1
        assert (difference == 0).double().mean() > 0.98
    else:
        assert difference.max() == 0


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(
    ("kind", "ranges", "levels"),
    [
        pytest.param("digits", "official", OFFICIAL_LEVELS, id="digits"),
        pytest.param("color", "official", OFFICIAL_LEVELS, id="color"),
        pytest.param(
            "cifar10",
            "official",
            OFFICIAL_LEVELS,
            id="cifar10",
            marks=pytest.mark.slow,
        ),
        pytest.param("color", "paper-table", TABLE_LEVELS, id="color, paper's table"),
    ],
)
def test_an_operation_is_pillows(name, kind, ranges, levels):
    images = pictures(kind)
    originals = [as_pillow(image) for image in images]
    assert len(images) == NUM_IMAGES
    for level in levels[:1] if name in LEVELLESS else levels:
        for sign in (1, -1) if name in SIGNED else (1,):
            wanted = [operated(o, name, level, sign, ranges) for o in originals]
            got = ours(images, name, level, sign, ranges)
            assert_alike(name, got, as_tensors(wanted))


@pytest.mark.parametrize("name", [n for n in OPERATIONS if n != "identity"])
def test_an_operation_changes_most_pictures(name):
    """Else the comparison with Pillow would show nothing."""
    images = pictures("color")
    at_nine = ours(images, name, 9, 1)
    assert (at_nine != images).flatten(1).any(dim=1).double().mean() > 0.6
    if name not in LEVELLESS:
        assert not torch.equal(at_nine, ours(images, name, 3, 1))
    if name in SIGNED:
        assert not torch.equal(at_nine, ours(images, name, 9, -1))


@given(data=st.data())
def test_an_operation_is_pillows_on_images_of_any_size(data):
    shape = (data.draw(st.sampled_from([1, 3])), *data.draw(st.tuples(*[SIDES] * 2)))
    seed = data.draw(st.integers(0, 2**31))
    image = torch.randint(256, shape, generator=stream(seed), dtype=torch.uint8)
    name = data.draw(st.sampled_from(OPERATIONS))
    level = data.draw(st.integers(1, 9))
    sign = data.draw(st.sampled_from([1, -1]))
    wanted = as_tensors([operated(as_pillow(image), name, level, sign)])
    difference = ours(image[None], name, level, sign).int() - wanted.int()
    assert difference.abs().max() <= (name in ENHANCERS)


def test_color_leaves_one_channel_alone():
    images = pictures("digits")
    assert torch.equal(ours(images, "color", 9, 1), images)


@pytest.mark.parametrize("num_channels", [2, 4, 7])
def test_other_numbers_of_channels_have_their_mean_as_grey(num_channels):
    draws = stream(0, "channels")
    images = torch.randint(256, (20, num_channels, 9, 9), generator=draws).byte()
    grey = (images.double().mean(dim=1, keepdim=True) + 0.5).floor()
    blended = (grey + 0.64 * (images - grey)).clamp(0, 255).floor()
    difference = ours(images, "color", 3, 1) - blended
    assert difference.abs().max() <= 1
    assert (difference == 0).double().mean() > 0.98


def test_equalize_leaves_small_images_alone_as_pillow_does():
    images = pictures("digits")
    assert torch.equal(ours(images, "equalize", 1, 1), images)


# ------------------------------------------------------------------ the whole recipe


def recipe(image, draws, number, settings):
    """Carry out what one image drew, by Pillow; transparent where it is empty."""
    transparent = settings.empty == "grey"
    picture = as_pillow(image).convert("RGBA" if transparent else "RGB")
    for operation, level, sign in zip(
        draws.operations[:, number].tolist(),
        draws.levels[:, number].tolist(),
        draws.signs[:, number].tolist(),
        strict=True,
    ):
        name = OPERATIONS[operation]
        picture = operated(picture, name, level, sign, settings.ranges)
    array = np.array(picture)
    if transparent:
        array[array[:, :, 3] == 0] = 127
    return covered(array[:, :, :3], draws, number, settings)


def covered(array, draws, number, settings):
    """Put the square of Cutout on an array (h, w, 3)."""
    sides = array.shape[:2]
    if settings.varies_cutout:
        return usb_covered(array, draws, number, settings)
    row, column = (draws.centers[:, number] * torch.tensor(sides)).long().tolist()
    down, right = (round(float(draws.sides[number]) * side) for side in sides)
    top, left = row - down // 2, column - right // 2
    clipped = (
        slice(max(top, 0), max(top + down, 0)),
        slice(max(left, 0), max(left + right, 0)),
    )
    array[clipped] = settings.cutout_fill
    return torch.from_numpy(array).permute(2, 0, 1)


def usb_covered(array, draws, number, settings):
    """Draw the square between USB's corners, by Pillow."""
    corners = []
    share = float(draws.sides[number])
    for center, side in zip(
        draws.centers[:, number].tolist(), array.shape[:2], strict=True
    ):
        first = int(max(0, 1 + center * (side - 1) - share * side / 2))
        corners.append((first, min(side, first + share * side)))
    (top, bottom), (left, right) = corners
    image = Image.fromarray(array)
    ImageDraw.Draw(image).rectangle((left, top, right, bottom), settings.cutout_fill)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def test_usb_covers_as_many_pixels_as_its_program():
    white = torch.full((20_000, 1, 32, 32), 255, dtype=torch.uint8)
    settings = replace(preset("usb"), num_operations=0)
    views = strong(white, stream(0, "views"), settings)
    is_covered = (views != 255)[:, 0]
    draws = np.random.RandomState(0)
    lengths = 16 * draws.uniform(size=20_000)
    wanted = 1.0
    for _ in range(2):
        first = np.floor(np.maximum(0, draws.uniform(32, 1, 20_000) - lengths / 2))
        # Pillow draws both ends, as far as they are in the image.
        wanted *= np.floor(np.minimum(31, first + lengths)) - first + 1
    assert wanted.mean() == pytest.approx(85, abs=2)
    assert is_covered.double().sum(dim=(1, 2)).mean() == pytest.approx(85, abs=2)
    assert int(is_covered.any(dim=2).sum(dim=1).min()) == 1


@pytest.mark.parametrize("kind", ["color", "oblong", "cifar10"])
@pytest.mark.parametrize("name", ["official", "paper-table", "usb"])
def test_a_preset_is_its_recipe_in_pillow(name, kind):
    images, settings = pictures(kind), preset(name)
    views = strong(images, stream(0, "views"), settings)
    draws = draw_operations(NUM_IMAGES, stream(0, "views"), settings)
    weak = shift_and_flip(images, draws.weak, settings)
    wanted = [recipe(image, draws, i, settings) for i, image in enumerate(weak)]
    equal = (views == torch.stack(wanted)).flatten(1).all(dim=1)
    # An enhancer's level beside may be blown up by what follows it.
    assert equal.double().mean() > 0.98


@pytest.mark.parametrize("second", OPERATIONS)
def test_empty_places_end_grey_unless_an_operation_made_black_of_them(second):
    images = pictures("color")[-1:]
    settings = RandAugment(shift=0, cutout=0)
    draws = DrawnOperations(
        weak=torch.zeros(3, 1),
        operations=torch.tensor(
            [[OPERATIONS.index(n)] for n in ("translate-x", second)]
        ),
        levels=torch.full((2, 1), 8.0, dtype=torch.float64),
        signs=torch.ones(2, 1, dtype=torch.float64),
        centers=torch.zeros(2, 1),
        sides=torch.zeros(1),
    )
    corner = apply_draws(images, draws, settings)[0, :, 16, -1].tolist()
    assert corner == ([0, 0, 0] if second in OPAQUE else [127, 127, 127])
