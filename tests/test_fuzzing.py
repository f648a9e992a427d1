import json
import random
import subprocess
import sys

import pytest
from tests.harness import fuzz_mutations, fuzz_targets, fuzzing


def test_damaged_files_are_read_or_refused_with_a_sentence(tmp_path):
    found = fuzz_targets.targets(tmp_path)
    told = [fuzzing.told_of(found, seed=2026, case=case) for case in range(100)]
    here = {"bytes": 0}  # this process has held more, whatever the case did
    assert [one for one in told if fuzzing.is_failure(one | here)] == []
    assert {one["target"] for one in told} == {target.name for target in found}
    assert {one["outcome"] for one in told} == {"read", "refused"}


@pytest.mark.slow
def test_damaged_files_take_little_memory_in_a_process_of_their_own():
    told = list(fuzzing.cases(seed=2026, last=1000))
    assert [one for one in told if fuzzing.is_failure(one)] == []
    assert [one["case"] for one in told] == list(range(1000))


def test_what_breaks_a_promise_is_a_failure():
    good = {"outcome": "refused", "seconds": 0.1, "bytes": 10**8}
    assert not fuzzing.is_failure(good)
    for bad in ({"outcome": "failed"}, {"seconds": 11}, {"bytes": 3 * 10**9}):
        assert fuzzing.is_failure({**good, **bad})


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print('{\"case\": 4}', flush=True); input()", "it took too long"),
        ("print('{\"case\": 4}', flush=True); exit(3)", "the process died"),
    ],
)
def test_a_child_that_hangs_or_dies_is_a_failure(program, said, monkeypatch):
    monkeypatch.setattr(fuzzing, "MOST_WAITING", 0.2)
    command = [sys.executable, "-c", program]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe) as process:
        (told,) = fuzzing._watched(process)
        process.kill()
    assert told["case"] == 4
    assert told["said"] == said
    assert fuzzing.is_failure(told)


def test_the_same_seed_damages_in_the_same_way():
    content = json.dumps({"a": [1, 2, {"b": None}], "c": "d"}).encode()
    for damage in (fuzz_mutations.damaged_bytes, fuzz_mutations.damaged_json):
        made = [damage(content, random.Random(seed)) for seed in range(50)]
        again = [damage(content, random.Random(seed)) for seed in range(50)]
        assert made == again
        assert len(set(made)) > 20
