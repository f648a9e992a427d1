"""Each image draws for itself; settings say from what; bytes and floats go through."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2
from tests.data.augment.pillow import (
    LEVELLESS,
    SIGNED,
    as_pillow,
    as_tensors,
    draw_operations,
    operated,
    pictures,
)

from fewlabels.data.augment import OPERATIONS, RandAugment, preset, strong
from fewlabels.errors import UsageError
from fewlabels.rng import stream

ALONE = RandAugment(num_operations=1, probability=1, empty="black", shift=0, cutout=0)


def assert_frequencies(counts, probabilities):
    """Compare with what was expected; a right drawing fails once in a million times."""
    counts = torch.as_tensor(counts).double()
    expected = torch.as_tensor(probabilities).double() * counts.sum()
    assert expected.min() > 5
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < chi2.ppf(1 - 1e-6, len(counts) - 1)


# ---------------------------------------------------------------------- randomness


def outcomes(image):
    """Return what Pillow makes of an image by one operation, and how likely it is."""
    likely = Counter()
    for name in OPERATIONS:
        levels = (1,) if name in LEVELLESS else range(1, 10)
        signs = (1, -1) if name in SIGNED else (1,)
        for level in levels:
            for sign in signs:
                view = as_tensors([operated(as_pillow(image), name, level, sign)])
                share = 1 / len(OPERATIONS) / len(levels) / len(signs)
                likely[view.numpy().tobytes()] += share
    return likely


def test_operation_level_and_sign_are_drawn_for_each_image():
    """Copies of one image become all that Pillow can make of it, as often as due."""
    image = pictures("color")[-1]
    likely = outcomes(image)
    assert len(likely) > 130
    views = strong(image.expand(12_000, -1, -1, -1), stream(0, "views"), ALONE)
    seen = Counter(view.tobytes() for view in views.numpy())
    strangers = sum(count for view, count in seen.items() if view not in likely)
    assert strangers < 120  # none, unless Pillow was built to round otherwise
    assert_frequencies([seen[view] for view in likely], list(likely.values()))


@pytest.mark.parametrize("other", ["next image", "next round"])
def test_draws_of_images_and_rounds_do_not_go_together(other):
    draws = draw_operations(
        20_000, stream(0, "draws"), replace(ALONE, num_operations=2)
    )
    first = draws.operations[0, :-1]
    second = draws.operations[0, 1:] if other == "next image" else draws.operations[1]
    pairs = first * len(OPERATIONS) + second[: len(first)]
    counts = torch.bincount(pairs, minlength=len(OPERATIONS) ** 2)
    assert_frequencies(counts, torch.full((len(counts),), 1 / len(counts)))


@pytest.mark.parametrize("probability", [0.0, 0.2, 0.5, 1.0])
def test_as_many_operations_are_carried_out_as_asked(probability):
    settings = RandAugment(
        operations=("rotate", "color"), probability=probability, num_operations=3
    )
    operations = draw_operations(4000, stream(0, "draws"), settings).operations
    done = operations != OPERATIONS.index("identity")
    assert done.shape == (3, 4000)
    assert done.double().mean() == pytest.approx(probability, abs=0.03)


def test_continuous_levels_are_spread_evenly_and_whole_ones_are_whole():
    whole = draw_operations(9000, stream(0, "draws"), ALONE).levels[0]
    assert_frequencies(whole.unique(return_counts=True)[1], torch.full((9,), 1 / 9))
    assert whole.unique().tolist() == list(range(1, 10))
    any_level = draw_operations(
        9000, stream(0, "d"), replace(ALONE, levels="continuous")
    ).levels
    counts = any_level.histc(20, 0, 10)
    assert counts.sum() == 9000
    assert_frequencies(counts, torch.full((20,), 1 / 20))


def test_an_operation_named_twice_is_drawn_twice_as_often():
    settings = replace(ALONE, operations=("rotate", "solarize", "rotate"))
    white = torch.full((3000, 1, 8, 8), 255, dtype=torch.uint8)
    views = strong(white, stream(0, "views"), settings)
    is_inverted = (views == 0).flatten(1).all(dim=1)
    assert is_inverted.double().mean() == pytest.approx(1 / 3, abs=0.04)


def test_a_view_does_not_depend_on_the_other_images():
    images, settings = pictures("color")[:60], preset("official")
    views = strong(images, stream(0, "views"), settings)
    fewer = strong(images[:23], stream(0, "views"), settings)
    assert torch.equal(fewer, views[:23])
    among_others = torch.cat([images[:23], images[23:].flip(0)])
    assert torch.equal(strong(among_others, stream(0, "views"), settings)[:23], fewer)


@pytest.mark.parametrize("name", OPERATIONS)
def test_as_many_numbers_are_drawn_whatever_the_operations(name):
    images = pictures("color")[:7]
    one, all_of_them = stream(0, "views"), stream(0, "views")
    strong(images, one, RandAugment(operations=(name,)))
    strong(images, all_of_them, RandAugment(varies_cutout=True, levels="continuous"))
    assert torch.equal(one.get_state(), all_of_them.get_state())


# ------------------------------------------------------------------ types and shapes

settings_strategy = st.builds(
    RandAugment,
    operations=st.lists(st.sampled_from(OPERATIONS), min_size=1).map(tuple),
    num_operations=st.integers(0, 4),
    probability=st.floats(0, 1),
    levels=st.sampled_from(["whole", "continuous"]),
    ranges=st.sampled_from(["official", "paper-table"]),
    empty=st.sampled_from(["grey", "black"]),
    cutout=st.floats(0, 0.99),
    varies_cutout=st.booleans(),
    cutout_fill=st.one_of(st.integers(0, 255), st.tuples(*[st.integers(0, 255)] * 3)),
    shift=st.floats(0, 0.99),
    flip=st.booleans(),
)


@given(
    settings=settings_strategy,
    shape=st.tuples(
        st.integers(0, 6), st.integers(1, 5), st.integers(1, 17), st.integers(1, 17)
    ),
    dtype=st.sampled_from([torch.uint8, torch.float32, torch.float64, torch.float16]),
    seed=st.integers(0, 2**31),
)
def test_shape_type_and_range_stay(settings, shape, dtype, seed):
    images = torch.randint(256, shape, generator=stream(seed)).to(torch.uint8)
    if dtype != torch.uint8:
        images = images.to(dtype) / 127.5 - 1
    before = images.clone()
    views = strong(images, stream(seed, "views"), settings)
    assert views.shape == images.shape
    assert views.dtype == dtype
    assert torch.equal(images, before)
    if dtype != torch.uint8:
        assert ((views >= -1) & (views <= 1)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_floats_are_changed_as_their_bytes_are(dtype):
    images, settings = pictures("color")[:50], preset("official")
    floats = images.to(dtype) / 127.5 - 1
    views = strong(floats, stream(0, "views"), settings)
    of_bytes = strong(images, stream(0, "views"), settings)
    torch.testing.assert_close(views, of_bytes.to(dtype) / 127.5 - 1)


@given(value=st.floats(-1, 1, width=32))
def test_floats_are_rounded_by_less_than_half_a_level(value):
    settings = RandAugment(num_operations=0, shift=0, cutout=0)
    image = torch.full((1, 1, 2, 2), value, dtype=torch.float64)
    view = strong(image, stream(0, "views"), settings)
    assert (view - image).abs().max() <= 1 / 255 + 1e-6


# ------------------------------------------------------------------------ the parts


def test_the_weak_view_comes_first():
    ramp = torch.arange(32, dtype=torch.uint8).expand(3000, 1, 32, 32)
    settings = RandAugment(num_operations=0, cutout=0, flip=True)
    middle = strong(ramp, stream(0, "views"), settings)[:, 0, 0, 15:17].int()
    is_flipped = middle[:, 0] > middle[:, 1]
    assert is_flipped.double().mean() == pytest.approx(0.5, abs=0.05)
    shifts = torch.where(is_flipped, 16 - middle[:, 0], middle[:, 0] - 15)
    assert sorted(shifts.unique().tolist()) == list(range(-4, 5))


@pytest.mark.parametrize("num_channels", [1, 3])
def test_cutout_covers_a_clipped_square_of_the_given_color(num_channels):
    white = torch.full((5000, num_channels, 32, 32), 255, dtype=torch.uint8)
    settings = RandAugment(num_operations=0, cutout_fill=(125, 123, 114))
    views = strong(white, stream(0, "views"), settings)
    is_covered = (views != 255).all(dim=1)
    sizes = is_covered.sum(dim=(1, 2))
    assert (int(sizes.min()), int(sizes.max())) == (8 * 8, 16 * 16)
    color = [125, 123, 114] if num_channels == 3 else [121]
    assert (views[0][:, is_covered[0]].unique(dim=1)[:, 0]).tolist() == color


def test_nothing_needs_to_be_drawn_from_where_nothing_is_drawn():
    settings = RandAugment(operations=(), num_operations=0, shift=0, cutout=0)
    images = pictures("color")[:3]
    assert torch.equal(strong(images, stream(0, "views"), settings), images)


def test_cutout_may_vary_in_size():
    white = torch.full((4000, 1, 32, 32), 255, dtype=torch.uint8)
    settings = RandAugment(num_operations=0, varies_cutout=True)
    is_covered = (strong(white, stream(0, "views"), settings) != 255)[:, 0]
    heights = is_covered.any(dim=2).sum(dim=1)
    assert heights.unique().tolist() == list(range(1, 17))


def test_translation_grows_with_the_side():
    """The official nine pixels of 32 are two of 8."""
    ramp = torch.arange(8, dtype=torch.uint8).expand(600, 1, 8, 8) + 1
    settings = replace(ALONE, operations=("translate-x",))
    views = strong(ramp, stream(0, "views"), settings)
    assert views[:, 0, 0, 4].unique().tolist() == [3, 4, 5, 6, 7]


# -------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"operations": ("rotat",)}, "no operations called 'rotat'. Did you mean 'rot"),
        ({"levels": "hole"}, "no levels called 'hole'. Did you mean 'whole'"),
        ({"ranges": "paper"}, "no ranges called 'paper'. Did you mean 'paper-table'"),
        ({"empty": "white"}, "no empty called 'white'. Known: black"),
        ({"cutout": 1.0}, "cutout is 1.0; it must be at least 0 and below 1"),
        ({"shift": -0.1}, "shift is -0.1; it must be at least 0 and below 1"),
        ({"probability": 1.5}, "probability is 1.5; it must be at least 0 and at most"),
        ({"num_operations": -1}, "num_operations is -1; it must be at least 0"),
        ({"operations": ()}, "num_operations is 2"),
        ({"cutout_fill": 256}, "cutout_fill is 256; it must be .* at most 255"),
        ({"cutout_fill": (1, 2, -3)}, "cutout_fill is -3; it must be at least 0"),
    ],
)
def test_wrong_settings_are_explained(options, message):
    with pytest.raises(UsageError, match=message):
        RandAugment(**options)
