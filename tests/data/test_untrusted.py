import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewlabels.data.untrusted import left_out, natural_key


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Käse 猫.png", "Käse 猫.png"),
        ("a\nb.png", r"a\nb.png"),
        ("a\0b\u2028c\x85.png", r"a\x00b\u2028c\x85.png"),
        (os.fsdecode(b"bad\xff.png"), r"bad\xff.png"),
        ("half\ud800.png", r"half\ud800.png"),
    ],
)
def test_what_cannot_be_printed_is_escaped(name, shown):
    assert str(left_out(name, "odd")) == f"{shown} (odd)"


def test_numbers_are_compared_as_numbers():
    names = ["class10", "9", "cat", "10", "class9", "02"]
    assert sorted(names, key=natural_key) == [
        "02",
        "9",
        "10",
        "cat",
        "class9",
        "class10",
    ]


@given(st.sets(st.text(max_size=8), max_size=6))
def test_different_names_are_never_a_tie(names):
    assert len({natural_key(name) for name in names}) == len(names)


@given(st.lists(st.integers(0, 10**9)))
def test_plain_numbers_are_in_their_own_order(numbers):
    assert sorted(map(str, numbers), key=natural_key) == list(map(str, sorted(numbers)))


def test_numbers_may_be_longer_than_python_reads():
    long = ["2" * 5000, "1" * 5000, "3"]
    assert sorted(long, key=natural_key) == [long[2], long[1], long[0]]
