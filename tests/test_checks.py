"""Options that are checked by the types of their fields."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from fewlabels.errors import Count, Limits, Settings, Share, UsageError, Weight, count


@dataclass(frozen=True, kw_only=True)
class Options(Settings):
    number: Count = 1
    weight: Weight = 0.0
    share: Share = 0.5
    least: Annotated[float | None, Limits(at_least=1, at_most=3)] = None
    word: Literal["one", "two"] = "one"
    either: int | Literal["auto"] = 5
    shares: Annotated[Literal["even"] | tuple[float, ...], Limits(above=0)] = "even"
    words: tuple[Literal["a", "b"], ...] = ("a", "a")
    text: str = "anything"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"number": 0}, "number is 0; it must be at least 1"),
        ({"number": None}, "number is None, of type NoneType"),
        ({"number": True}, "number is True, of type bool"),
        ({"weight": -1}, "weight is -1; it must be at least 0"),
        ({"weight": float("inf")}, "weight is inf; it must be at least 0 and finite"),
        ({"share": 1}, "share is 1; it must be at least 0 and below 1"),
        ({"share": "half"}, "share is 'half', of type str"),
        ({"least": 4}, "least is 4; it must be at least 1 and at most 3"),
        ({"word": "three"}, "There is no word called 'three'.*Known: one, two"),
        ({"word": 3}, "There is no word called '3'"),
        ({"either": "own"}, "There is no either called 'own'"),
        ({"shares": "odd"}, "There is no shares called 'odd'"),
        ({"shares": (1.0, 0.0)}, r"shares is 0\.0; it must be above 0"),
        ({"words": ("a", "c")}, "There is no words called 'c'"),
    ],
)
def test_wrong_options_are_explained(options, message):
    with pytest.raises(UsageError, match=message):
        Options(**options)


def test_right_options_pass():
    Options()
    right = {"either": "auto", "shares": (1.0, 2.0), "words": (), "text": ""}
    assert Options(least=3, word="two", **right).either == "auto"


def test_a_type_that_is_not_known_here_is_not_checked():
    @dataclass(frozen=True)
    class Own(Settings):
        value: "Nowhere"  # noqa: F821

    assert Own(3).value == 3


def test_amounts():
    assert count(1000) == "1,000"
