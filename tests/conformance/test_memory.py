import sys

import pytest

from fewlabels import strategies
from fewlabels.conformance import Memory, check
from fewlabels.errors import UsageError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux")

SMALL = Memory(rows=30_000, limit_gb=1.5, seconds=120)


def judged(name, memory=SMALL, **options):
    return memory.judge(f"tests.conformance.broken:{name}", options)


def test_a_strategy_that_needs_little_passes_with_its_peak():
    outcome, detail = judged("NeedsAnOption", must="be given")
    assert outcome == "passed", detail
    assert " MB at 30,000 rows, " in detail


def test_a_full_matrix_is_told_by_what_it_asked_for():
    outcome, detail = judged("FullMatrix")
    assert outcome == "failed"
    assert "more than 1.5 GB at 30,000 rows: it tried to allocate 3.6 GB" in detail
    assert "3.99 bytes for each of 30,000 x 30,000 pairs" in detail
    assert "full distance matrix" in detail


def test_a_full_matrix_in_pieces_is_told_by_its_growth():
    outcome, detail = judged("FullMatrixByRows")
    assert outcome == "failed"
    assert "grows with the square of the pool" in detail


def test_what_takes_too_long_is_not_judged():
    memory = Memory(rows=2_000, limit_gb=1.5, seconds=0.05)
    assert judged("Sleeps", memory) == (
        "not run",
        "took longer than 0.05 s at 2,000 rows",
    )


def test_a_process_that_breaks_down_is_a_finding():
    outcome, detail = judged("Falls", Memory(rows=2_000, limit_gb=1.5))
    assert outcome == "failed"
    assert "its process broke down" in detail


def test_an_object_cannot_be_measured():
    *_, last = check(strategies.Random(), memory=SMALL)
    assert (last.name, last.outcome) == ("memory", "not run")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rows": 99}, "rows is 99; give at least 100"),
        ({"rows": 10**12}, "at most 13,333,333, which alone fill 4 GB"),
        ({"limit_gb": float("nan")}, "limit_gb is nan"),
        ({"seconds": 0}, "seconds is 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, said):
    with pytest.raises(UsageError, match=said):
        Memory(**settings)


@pytest.mark.slow
@pytest.mark.timeout(700)
@pytest.mark.parametrize("name", strategies.names())
def test_every_built_in_name_copes_with_a_million_rows(name):
    outcome, detail = Memory(seconds=600).judge(name, {})
    assert outcome == "passed", detail
