import numpy as np
import pytest
import torch
from tests.data.pictures import pixels

from fewlabels.data.arrays import array_pool, item_ids
from fewlabels.errors import LabelError, NotFiniteError, ShapeError, UsageError

GREY = np.stack([pixels(number) for number in range(5)])
COLOUR = np.stack([pixels(number, channels=3) for number in range(5)])


@pytest.mark.parametrize("images", [GREY, GREY[..., None], torch.from_numpy(GREY)])
def test_grey_images_have_one_channel(images):
    pool = array_pool(images, [0, 1, 2, 0, 1])
    assert pool.images.shape == (1, 8, 8)
    assert pool.classes == ("0", "1", "2")
    assert (pool.images.read(torch.tensor([3]))[0, 0].numpy() == GREY[3]).all()


def test_color_comes_first():
    pool = array_pool(COLOUR)
    assert pool.images.shape == (3, 8, 8)
    assert pool.labels.tolist() == [-1] * 5
    assert pool.candidates.tolist() == [0, 1, 2, 3, 4]
    seen = pool.images.read(torch.tensor([2]))[0].numpy()
    assert (seen == COLOUR[2].transpose(2, 0, 1)).all()


def test_read_only_arrays_are_fine():
    frozen = GREY.copy()
    frozen.setflags(write=False)
    assert len(array_pool(frozen)) == 5


def test_ids_hold_position_and_content():
    changed = GREY.copy()
    changed[1] += 1
    before, after = array_pool(GREY, name="mine").ids, array_pool(changed).ids
    assert before[0].startswith("mine/train/0@")
    assert before[2].partition("@")[2] == after[2].partition("@")[2]
    assert before[1].partition("@")[2] != after[1].partition("@")[2]


def test_equal_images_have_different_ids():
    same = torch.zeros((3, 1, 2, 2), dtype=torch.uint8)
    assert len(set(item_ids("x", same))) == 3


def test_vectors_pass_as_they_are():
    features = np.arange(6, dtype=np.float32).reshape(3, 2)
    pool = array_pool(features)
    assert pool.images.shape == (2,)
    assert pool.images.read(torch.tensor([1])).tolist() == [[2.0, 3.0]]


def test_the_test_split_is_measured_on():
    pool = array_pool(GREY, ["a"] * 5, test=(GREY[:2], ["b", "a"]))
    assert pool.classes == ("a", "b")
    assert pool.test.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("images", "error", "message"),
    [
        (GREY / 255, UsageError, "type float64.*Pass uint8"),
        (GREY[0], ShapeError, r"shape \(8, 8\); pass \(N, H, W\)"),
        (COLOUR.transpose(0, 3, 1, 2), ShapeError, "channels seem to come first"),
        (np.zeros((2, 8, 8, 4), np.uint8), ShapeError, "4 channels.*alpha"),
        (np.zeros((0, 8, 8), np.uint8), ShapeError, "nothing to label"),
        (np.array([[1.0, np.nan], [1, 2]]), NotFiniteError, "1 of 2 vectors hold NaN"),
    ],
)
def test_other_arrays_are_refused(images, error, message):
    with pytest.raises(error, match=message):
        array_pool(images)


def test_a_class_is_named_once():
    with pytest.raises(UsageError, match="3 names, and 2 of them are 'a'"):
        array_pool(GREY, [0, 1, 2, 0, 1], classes=["a", "a", "b"])


def test_an_odd_test_split_is_refused():
    with pytest.raises(ShapeError, match="one network cannot read both"):
        array_pool(GREY, [0] * 5, test=(COLOUR, [0] * 5))
    with pytest.raises(LabelError, match="items without a label"):
        array_pool(GREY, [0] * 5, test=(GREY, [-1] * 5))
