import pytest

from fewlabels.errors import ShapeError
from fewlabels.experiments.evaluation import balance_note

CLASSES = ("cat", "dog", "owl", "fox")
EVEN = (0.25,) * 4


@pytest.mark.parametrize(
    ("assumed", "counts"),
    [
        (EVEN, [10, 10, 10, 10]),
        (EVEN, [15, 10, 9, 6]),  # may well be chance
        (EVEN, [16, 1, 1, 1]),  # 19 labels say nothing
        ((0.7, 0.1, 0.1, 0.1), [28, 4, 4, 4]),
    ],
)
def test_no_note(assumed, counts):
    assert balance_note(CLASSES, assumed, counts) is None


@pytest.mark.parametrize(
    ("assumed", "counts", "words"),
    [
        (
            EVEN,
            [24, 8, 5, 3],
            "Of 40 images drawn at random, 24 are 'cat', but training",
        ),
        (EVEN, [40, 40, 40, 5], "5 are 'fox', but training assumes 25.0 %"),
        ((0.7, 0.1, 0.1, 0.1), [20, 3, 3, 14], "14 are 'fox', but training"),
    ],
)
def test_a_note_names_what_fits_worst(assumed, counts, words):
    assert words in balance_note(CLASSES, assumed, counts)


def test_one_number_per_class():
    with pytest.raises(ShapeError, match="counts has 2 entries; give 4"):
        balance_note(CLASSES, EVEN, [1, 2])
