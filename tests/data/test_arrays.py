import numpy as np
import pytest
import torch
from tests.data.pictures import pixels

from fewlabels.data.arrays import array_pool, infer_classes, item_ids, label_tensor
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
        (
            np.zeros((2, 8, 8, 4), np.uint8),
            ShapeError,
            "1 or 3 channels in the last axis",
        ),
        (np.zeros((0, 8, 8), np.uint8), ShapeError, "nothing to label"),
        (np.array([[1.0, np.nan], [1, 2]]), NotFiniteError, "1 of 2 vectors are NaN"),
    ],
)
def test_other_arrays_are_refused(images, error, message):
    with pytest.raises(error, match=message):
        array_pool(images)


def test_a_class_is_named_once():
    with pytest.raises(UsageError, match="'a' is there 2 times"):
        array_pool(GREY, [0, 1, 2, 0, 1], classes=["a", "a", "b"])


def test_an_odd_test_split_is_refused():
    with pytest.raises(ShapeError, match="give shape"):
        array_pool(GREY, [0] * 5, test=(COLOUR, [0] * 5))
    with pytest.raises(LabelError, match="items without a label"):
        array_pool(GREY, [0] * 5, test=(GREY, [-1] * 5))


def test_numbers_and_names_give_the_same_labels():
    by_number = label_tensor([1, 0, -1], ("cat", "dog"), 3)
    assert by_number.tolist() == [1, 0, -1]
    assert by_number.dtype == torch.int64
    by_name = label_tensor(["dog", "cat"], ("cat", "dog"), 2)
    assert by_name.tolist() == [1, 0]


def test_no_labels_are_unknown_labels():
    assert label_tensor(None, (), 2).tolist() == [-1, -1]


def test_classes_are_made_up_from_all_labels():
    assert infer_classes(np.array([0, 2]), torch.tensor([3])) == ("0", "1", "2", "3")
    assert infer_classes(["b10", "b9"], ["a"]) == ("a", "b9", "b10")
    assert infer_classes(None) == ()
    assert len(infer_classes([999])) == 1000


def test_numbers_that_count_no_classes_are_refused():
    with pytest.raises(LabelError, match=r"3 labels is 1,000; pass classes"):
        infer_classes([0, 1, 1000])
    assert len(infer_classes(range(1500))) == 1500


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([0, 1, 2], ShapeError, r"2 images have labels of shape \(3,\)"),
        ([0, 5], LabelError, "outside the 2 classes, the first is 5"),
        (["cat", "cow"], LabelError, "'cow' is not among the 2 classes"),
        ([0.0, np.nan], UsageError, "type float64; pass class numbers"),
        ([0.0, 1.0], UsageError, "type float64; pass class numbers as integers"),
        (torch.zeros(2, dtype=torch.bfloat16), UsageError, "type float32; pass class"),
    ],
)
def test_what_is_no_label_is_refused(labels, error, message):
    with pytest.raises(error, match=message):
        label_tensor(labels, ("cat", "dog"), 2)


INTEGERS = [np.dtype(code) for code in np.typecodes["AllInteger"] + "?"]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_of_every_type_are_class_numbers(dtype, order):
    labels = np.array([0, 1, 1, 0]).astype(dtype.newbyteorder(order))
    assert infer_classes(labels) == ("0", "1")
    numbers = label_tensor(labels, ("cat", "dog"), 4)
    assert numbers.tolist() == [0, 1, 1, 0]
    assert numbers.dtype == torch.int64
    assert infer_classes(np.array([], dtype=dtype)) == ()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint64, torch.bool])
def test_tensors_without_a_sign_are_class_numbers(dtype):
    labels = torch.tensor([0, 1, 1]).to(dtype)
    assert infer_classes(labels) == ("0", "1")
    assert label_tensor(labels, ("cat", "dog"), 3).tolist() == [0, 1, 1]


def test_a_number_that_wraps_around_is_no_unknown_label():
    labels = np.array([0, 2**64 - 1], dtype=np.uint64)
    with pytest.raises(LabelError, match="largest label is 18,446,744,073,709,551,615"):
        label_tensor(labels, ("cat", "dog"), 2)


def test_text_of_every_type_is_a_class_name():
    words = ["dog", "cat", "dog"]
    for labels in (
        np.array(words, dtype=">U5"),
        np.array(words, dtype=np.dtypes.StringDType()),
        np.array(words)[::-1],
    ):
        assert infer_classes(labels) == ("cat", "dog")
        assert label_tensor(labels, ("cat", "dog"), 3).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (np.array("dog"), ShapeError, r"Labels have the shape \(\); give one"),
        (np.array(1), ShapeError, r"Labels have the shape \(\)"),
        ([["dog"], ["cat"]], ShapeError, r"Labels have the shape \(2, 1\)"),
        ([1, [2, 3]], ShapeError, "no row of numbers"),
        (["dog", "\ud800"], LabelError, "A label is not valid text"),
        (np.array([2**21] * 2, np.uint32).view("U1"), LabelError, "not valid text"),
        (
            np.array(["dog", None], np.dtypes.StringDType(na_object=None)),
            UsageError,
            "type StringDType",
        ),
    ],
)
def test_labels_that_cannot_be_told_apart_or_written_are_refused(
    labels, error, message
):
    with pytest.raises(error, match=message):
        infer_classes(labels)
    with pytest.raises(error, match=message):
        label_tensor(labels, ("cat", "dog"), 2)
