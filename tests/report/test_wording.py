"""Numbers as people read them."""

import pytest

from fewlabels.report.wording import MISSING, number, percent, seconds


def plain(text):
    return text.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("duration", "words"),
    [
        (None, MISSING),
        (0.0, "0.00 s"),
        (0.004, "< 0.01 s"),
        (0.42, "0.42 s"),
        (59.94, "59.9 s"),
        (59.97, "1 min 00 s"),
        (3599.7, "1 h 00 min"),
        (7325, "2 h 02 min"),
    ],
)
def test_durations(duration, words):
    assert plain(seconds(duration)) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, MISSING),
        (0.0, "0"),
        (-0.25, "−0.25"),
        (6.15804, "6.158"),
        (-1.5e-14, "−1.5 × 10⁻¹⁴"),
        (float("inf"), "∞"),
    ],
)
def test_numbers(value, words):
    assert plain(number(value)) == words


def test_percent():
    assert [plain(percent(share)) for share in (None, 0.0, 0.97249, 1.0)] == [
        MISSING,
        "0.0 %",
        "97.2 %",
        "100.0 %",
    ]
