import pytest

from fewlabels import training
from fewlabels.errors import ShapeError
from fewlabels.evaluation import balance_note

CLASSES = ("cat", "dog", "owl", "fox")


@pytest.mark.parametrize(
    ("predicted", "labeled"),
    [
        ([25, 25, 25, 25], [1, 1, 1, 1]),
        ([40, 30, 20, 10], [1, 1, 1, 1]),  # 20 % would move
        ([97, 1, 1, 1], [4, 0, 1, 1]),  # a class without a label had no chance
        ([16, 1, 1, 1], [1, 1, 1, 1]),  # 19 images say nothing
        ([25, 25, 25, 25], [97, 1, 1, 1]),  # chosen labels say nothing of frequency
    ],
)
def test_no_note(predicted, labeled):
    assert balance_note(CLASSES, predicted, labeled) is None


@pytest.mark.parametrize(
    ("predicted", "words"),
    [
        ([51, 25, 14, 10], ["'cat' gets 51.0 %", "'fox' 10.0 %", "would move 26 %"]),
        ([32, 32, 32, 4], ["'fox' 4.0 %", "would move 21 %"]),  # one rare class
        ([0, 100, 0, 0], ["'dog' gets 100.0 %", "'cat' 0.0 %", "would move 75 %"]),
    ],
)
def test_a_note_gives_shares_and_remedy(predicted, words):
    note = balance_note(CLASSES, predicted, [1, 1, 1, 1])
    assert [word for word in words if word not in note] == []
    assert "in this order: cat, dog, owl, fox" in note


def test_the_remedies_are_options_of_the_trainers():
    note = balance_note(CLASSES, [97, 1, 1, 1], [1, 1, 1, 1])
    for target in ("estimated", "labeled"):
        assert f"target='{target}'" in note
        assert training.resolve("fixmatch-darp", {"target": target}).target == target
    shares = (0.7, 0.1, 0.1, 0.1)
    trainer = training.resolve("frozen-fixmatch-darp", {"target": list(shares)})
    assert trainer.target == shares
    assert "fixmatch" in training.names()


def test_one_number_per_class():
    with pytest.raises(ShapeError, match="4 classes, 2 numbers of predicted images"):
        balance_note(CLASSES, [1, 2], [1, 1, 1, 1])
