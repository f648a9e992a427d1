"""Views change images one by one, within their type, from the generator alone."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewlabels import rng
from fewlabels.data.augment import (
    PRESETS,
    RandAugment,
    StrongAugment,
    WeakAugment,
    preset,
    strong,
    weak,
)
from fewlabels.errors import UsageError

SHAPES = [(1, 8, 8), (3, 32, 32), (3, 12, 20), (1, 1, 1)]
STILL = StrongAugment(
    rotation=0, shear=0, scale=0, shift=0, brightness=0, contrast=0, cutout=0
)


def images(num=40, shape=(1, 8, 8), seed=0, dtype=torch.uint8):
    draws = rng.stream(seed, "images")
    values = torch.randint(256, (num, *shape), generator=draws, dtype=torch.uint8)
    return values if dtype == torch.uint8 else values.to(dtype) / 127.5 - 1


def views(kind, values, seed=0, **settings):
    function, options = {
        "weak": (weak, WeakAugment),
        "strong": (strong, StrongAugment),
        "official": (strong, RandAugment),
    }[kind]
    return function(values, rng.stream(seed, "views"), options(**settings))


@pytest.mark.parametrize("kind", ["weak", "strong"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.usefixtures("untouched_randomness")
def test_shape_type_and_range_stay(kind, shape, dtype):
    values = images(shape=shape, dtype=dtype)
    before = values.clone()
    changed = views(kind, values, flip=True)
    assert changed.shape == values.shape
    assert changed.dtype == dtype
    assert torch.equal(values, before)
    if dtype == torch.float32:
        assert changed.min() >= -1
        assert changed.max() <= 1


@pytest.mark.parametrize("kind", ["weak", "strong", "official"])
@pytest.mark.usefixtures("untouched_randomness")
def test_same_stream_same_views(kind):
    values = images()
    assert torch.equal(views(kind, values), views(kind, values))
    assert not torch.equal(views(kind, values), views(kind, values, seed=1))


@pytest.mark.parametrize("kind", ["weak", "strong"])
def test_each_image_has_its_own_draws(kind):
    copies = images(1).expand(60, -1, -1, -1)
    changed = views(kind, copies)
    assert len(changed.flatten(1).unique(dim=0)) >= 9


def shifted_naive(image, down, right, *, is_flipped):
    """Pad by mirroring, cut out, flip: one image at a time."""
    padded = torch.nn.functional.pad(image.double(), (4, 4, 4, 4), mode="reflect")
    _, height, width = image.shape
    cut = padded[:, 4 + down : 4 + down + height, 4 + right : 4 + right + width]
    return (cut.flip(2) if is_flipped else cut).to(image.dtype)


@given(seed=st.integers(0, 2**31), flip=st.booleans())
def test_a_weak_view_is_a_mirrored_shift(seed, flip):
    values = images(3, (2, 16, 16), seed)
    changed = views("weak", values, seed, flip=flip)
    for image, view in zip(values, changed, strict=True):
        twins = [
            shifted_naive(image, down, right, is_flipped=is_flipped)
            for down in range(-2, 3)
            for right in range(-2, 3)
            for is_flipped in ([False, True] if flip else [False])
        ]
        assert any(torch.equal(view, twin) for twin in twins)


def test_all_weak_shifts_occur_equally_often():
    ramp = torch.arange(64, dtype=torch.uint8).view(1, 1, 8, 8).expand(9000, -1, -1, -1)
    corners = views("weak", ramp)[:, 0, 4, 4]
    counts = corners.unique(return_counts=True)[1]
    assert len(counts) == 9
    assert counts.min() > 850


def test_flip_happens_only_where_asked():
    ramp = torch.arange(8, dtype=torch.uint8).expand(400, 1, 8, 8)
    assert torch.equal(views("weak", ramp, shift=0.0), ramp)
    flipped = views("weak", ramp, shift=0.0, flip=True)[:, 0, 0, 0] == 7
    assert 0.4 < flipped.float().mean() < 0.6
    turned = strong(
        ramp.float() / 10,
        rng.stream(0, "s"),
        StrongAugment(**{**vars(STILL), "flip": True}),
    )
    assert 0.4 < (turned[:, 0, 0, 0] > 0.5).float().mean() < 0.6


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_a_strong_view_without_strength_is_the_image(shape, dtype):
    values = images(shape=shape, dtype=dtype)
    still = strong(values, rng.stream(0, "s"), STILL)
    torch.testing.assert_close(still, values, atol=1e-5, rtol=1e-5)


def test_rotation_turns_about_the_middle_of_an_oblong_image():
    """A dot stays at its distance, measured in pixels, and within the angle."""
    values = torch.full((200, 1, 21, 41), -1.0)
    values[:, :, 10, 30] = 1.0
    settings = StrongAugment(**{**vars(STILL), "rotation": 45.0})
    weights = strong(values, rng.stream(0, "s"), settings)[:, 0] + 1
    mass = weights.sum(dim=(1, 2))
    down = (weights.sum(2) * (torch.arange(21) - 10)).sum(1) / mass
    right = (weights.sum(1) * (torch.arange(41) - 20)).sum(1) / mass
    torch.testing.assert_close(
        (down**2 + right**2).sqrt(), torch.full((200,), 10.0), atol=0.3, rtol=0
    )
    angles = torch.atan2(down, right)
    assert angles.abs().max() <= math.radians(47)
    assert angles.min() < math.radians(-35)
    assert angles.max() > math.radians(35)


def test_cutout_covers_a_clipped_grey_square():
    white = torch.ones(500, 3, 32, 32)
    settings = StrongAugment(**{**vars(STILL), "cutout": 0.5})
    covered = strong(white, rng.stream(0, "s"), settings) == 0
    sizes = covered[:, 0].sum(dim=(1, 2))
    assert sizes.max() == 16 * 16
    assert sizes.min() >= 8 * 8
    assert torch.equal(covered[:, 0], covered[:, 2])


@given(seed=st.integers(0, 2**31))
def test_contrast_and_brightness_are_affine_in_the_values(seed):
    values = images(4, (3, 8, 8), seed, torch.float64) * 0.3
    settings = StrongAugment(**{**vars(STILL), "contrast": 0.5, "brightness": 0.2})
    lit = strong(values, rng.stream(seed, "s"), settings)
    for image, view in zip(values, lit, strict=True):
        gain = (view - view.mean()).norm() / (image - image.mean()).norm()
        assert 0.5 <= gain <= 1.5
        assert (view.mean() - image.mean()).abs() <= 0.2
        twin = (image - image.mean()) * gain + view.mean()
        torch.testing.assert_close(view, twin)


@pytest.mark.parametrize(("name", "value"), [("shift", 1.0), ("cutout", -0.1)])
def test_a_wrong_share_is_explained(name, value):
    with pytest.raises(UsageError, match=f"{name} is {value}; it must be"):
        StrongAugment(**{name: value})


@pytest.mark.parametrize("name", PRESETS)
def test_a_minibatch_without_images_is_fine(name):
    none = torch.empty(0, 3, 8, 8, dtype=torch.uint8)
    assert strong(none, rng.stream(0, "none"), preset(name)).shape == none.shape
