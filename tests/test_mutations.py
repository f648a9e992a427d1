"""Damage of files is noticed, or it changes nothing."""

import random
from collections import Counter

import pytest
from tests.harness.mutations import CRASHED, REFUSED, SILENT, mutated, outcomes


def unnoticed(place, number, seed):
    found = list(outcomes(place, number, seed))
    verdicts = Counter(one.verdict for one in found)
    assert len(found) > number // 2
    assert verdicts[REFUSED]
    return [one for one in found if one.verdict in {SILENT, CRASHED}]


def test_no_damage_goes_unnoticed(tmp_path):
    assert unnoticed(tmp_path, 10, seed=0) == []


@pytest.mark.slow
def test_none_of_three_hundred_damages_goes_unnoticed(tmp_path):
    assert unnoticed(tmp_path, 300, seed=1) == []


def test_mutations_change_something():
    chance = random.Random(0)
    content = b'{"step": 10,\n "ids": ["a.png@0f"]}\n'
    kinds = {mutated(content, chance)[0].split()[0] for _ in range(200)}
    assert {"bit", "byte", "cut", "another", "lines"} <= kinds
    assert any(mutated(content, chance)[1] != content for _ in range(5))
