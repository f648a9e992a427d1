import numpy as np
import pytest
import torch

from fewlabels.data.labels import class_names, label_tensor
from fewlabels.errors import LabelError, NotFiniteError, ShapeError, UsageError


def test_numbers_and_names_give_the_same_labels():
    by_number = label_tensor([1, 0, -1], ("cat", "dog"), 3)
    assert by_number.tolist() == [1, 0, -1]
    assert by_number.dtype == torch.int64
    by_name = label_tensor(["dog", "cat"], ("cat", "dog"), 2)
    assert by_name.tolist() == [1, 0]


def test_no_labels_are_unknown_labels():
    assert label_tensor(None, (), 2).tolist() == [-1, -1]


def test_classes_are_made_up_from_all_labels():
    assert class_names(np.array([0, 2]), torch.tensor([3])) == ("0", "1", "2", "3")
    assert class_names(["b10", "b9"], ["a"]) == ("a", "b9", "b10")
    assert class_names(None) == ()
    assert len(class_names([999])) == 1000


def test_numbers_that_count_no_classes_are_refused():
    with pytest.raises(LabelError, match=r"1,001 classes for 3 labels.*name them"):
        class_names([0, 1, 1000])
    assert len(class_names(range(1500))) == 1500


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([0, 1, 2], ShapeError, r"2 images came with labels of shape \(3,\)"),
        ([0, 5], LabelError, "outside the 2 classes, the first is 5"),
        (["cat", "cow"], LabelError, "'cow' is not among the 2 classes"),
        ([0.0, np.nan], NotFiniteError, "1 of 2 labels are NaN"),
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
    assert class_names(labels) == ("0", "1")
    numbers = label_tensor(labels, ("cat", "dog"), 4)
    assert numbers.tolist() == [0, 1, 1, 0]
    assert numbers.dtype == torch.int64
    assert class_names(np.array([], dtype=dtype)) == ()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint64, torch.bool])
def test_tensors_without_a_sign_are_class_numbers(dtype):
    labels = torch.tensor([0, 1, 1]).to(dtype)
    assert class_names(labels) == ("0", "1")
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
        assert class_names(labels) == ("cat", "dog")
        assert label_tensor(labels, ("cat", "dog"), 3).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (np.array("dog"), ShapeError, r"Labels have the shape \(\); give exactly one"),
        (np.array(1), ShapeError, r"Labels have the shape \(\)"),
        ([["dog"], ["cat"]], ShapeError, r"Labels have the shape \(2, 1\)"),
        ([1, [2, 3]], UsageError, "list of lists"),
        (["dog", "\ud800"], LabelError, "A label is not valid text"),
        (np.array([2**21] * 2, np.uint32).view("U1"), LabelError, "not valid text"),
        (
            np.array(["dog", None], np.dtypes.StringDType(na_object=None)),
            UsageError,
            "the type text with missing values",
        ),
    ],
)
def test_labels_that_cannot_be_told_apart_or_written_are_refused(
    labels, error, message
):
    with pytest.raises(error, match=message):
        class_names(labels)
    with pytest.raises(error, match=message):
        label_tensor(labels, ("cat", "dog"), 2)


def test_few_of_many_classes_are_listed():
    names = [f"class {number}" for number in range(500)]
    with pytest.raises(LabelError, match=r"class 99 and 400 more\. Correct it"):
        label_tensor(["cow"], names, 1)
