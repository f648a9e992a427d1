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
    ],
)
def test_what_is_no_label_is_refused(labels, error, message):
    with pytest.raises(error, match=message):
        label_tensor(labels, ("cat", "dog"), 2)
