"""A writer that is killed without warning loses nothing that was acknowledged."""

import random

import pytest
from tests.harness import killed_writer
from tests.harness.killed_writer import KEPT, SENT, Notes


def survive(place, file, kills, rate, longest, items=20_000):
    """Kill a writer some times; return what is wrong and how many were acknowledged."""
    killed_writer.prepare(place, items)
    moments = random.Random(0)
    wrong = []
    for _ in range(kills):
        seconds = moments.uniform(0, longest)
        killed_writer.killed(place, file, rate, seconds)
        found, in_flight, _ = killed_writer.faults(place, file)
        wrong += found
        assert in_flight <= 1
    return wrong, len(Notes.read(file).kept)


def test_a_killed_writer_loses_nothing(place, tmp_path):
    wrong, kept = survive(place, tmp_path / "notes.txt", 2, 0, 0.3, items=2_000)
    assert wrong == []
    assert kept  # how many depends on how busy the machine is


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_writer_killed_fifty_times_loses_nothing(place, tmp_path):
    wrong, kept = survive(place, tmp_path / "notes.txt", 50, rate=10, longest=2)
    assert wrong == []
    assert kept >= 200


def test_the_comparison_sees_what_is_missing_and_what_is_twice(place, tmp_path):
    file = tmp_path / "notes.txt"
    killed_writer.prepare(place, 10)
    with killed_writer.Store.open(place) as store:
        uuids = [killed_writer.new_uuid() for _ in range(3)]
        written = store.append(killed_writer.label(uuids[i], i) for i in range(2))
    sent = [f"{SENT} {uuid} {i}\n" for i, uuid in enumerate(uuids)]
    kept = [f"{KEPT} {uuids[0]} {written[0].sequence}\n"]
    file.write_text("".join([*sent, *kept]))
    assert killed_writer.faults(place, file) == ([], 2, 1)
    file.write_text("".join([*sent, *kept, f"{KEPT} {uuids[2]} 99\n"]))
    ((fault,), *_) = killed_writer.faults(place, file)
    assert "missing" in fault
    with killed_writer.Store.open(place) as store:
        store.append([killed_writer.label(uuids[2], 1)])
    file.write_text("".join(sent))
    assert "an item was labeled twice" in killed_writer.faults(place, file)[0]
