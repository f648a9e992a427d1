import sys

import pytest

from fewlabels import strategies
from fewlabels.conformance import Memory, check
from fewlabels.errors import UsageError
from fewlabels.jobs import Job, Worker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux")

LATE = object()
SMALL = Memory(rows=30_000, limit_gb=1.5, seconds=250)


def judged(name, memory=SMALL, **options):
    return memory.judge(f"tests.conformance.broken:{name}", options)


def test_a_strategy_that_needs_little_passes_with_its_peak():
    outcome, detail = judged("NeedsAnOption", must="be given")
    assert outcome == "passed", detail
    assert " MB at 30,000 rows, " in detail


@pytest.fixture
def answering(monkeypatch):
    """Stand in for the process: a function of the rows says what it holds."""

    def install(seen):
        def start(self, call, arguments):
            job, answer = Job(self, 1), seen(arguments["rows"])
            if answer is not LATE:
                died = {"event": "died", "code": 1, "reason": "", "printed": answer}
                done = {"event": "done", "result": answer}
                job.hear(died if isinstance(answer, str) else done)
            job.wait = lambda seconds: job.end
            return job

        monkeypatch.setattr(Worker, "start", start)

    return install


def holding(per_pair, *, most=1e9):
    def seen(rows):
        held = int(per_pair * rows**2)
        fails = held > most
        error = "MemoryError (mine.py, line 3, in select)" if fails else ""
        figures = {"before": 10**8, "peak": 10**8 + held, "seconds": 1.0}
        return {**figures, "error": error, "is_memory": fails}

    return seen


def test_memory_that_grows_with_the_square_is_told_from_small_pools(answering):
    answering(holding(8))
    outcome, detail = judged("AnyName")
    assert outcome == "failed"
    assert "grows with the square of the pool: 72 MB for 3,000 rows, 288 MB" in detail
    assert "(MemoryError (mine.py, line 3, in select))" in detail


def test_small_pools_that_are_too_many_already_are_told(answering):
    answering(holding(1000))
    assert "3,000 rows are too many already" in judged("AnyName")[1]


def test_memory_that_grows_with_the_pool_is_not_called_a_matrix(answering):
    answering(lambda rows: holding(100_000 / rows)(rows))
    outcome, detail = judged("AnyName")
    assert outcome == "failed"
    assert "square" not in detail
    assert "matrix" not in detail


def test_a_slow_strategy_fails_only_where_memory_grows_with_the_square(answering):
    answering(lambda rows: LATE if rows == SMALL.rows else holding(8)(rows))
    outcome, detail = judged("AnyName")
    assert outcome == "failed"
    assert "took longer than 250 s at 30,000 rows. Memory grows with the sq" in detail
    answering(lambda rows: LATE if rows == SMALL.rows else holding(8 / rows)(rows))
    assert judged("AnyName") == ("not run", "took longer than 250 s at 30,000 rows")


@pytest.mark.slow
def test_a_full_matrix_in_pieces_is_told_by_its_growth():
    memory = Memory(rows=16_000, limit_gb=1.1, seconds=250)
    outcome, detail = judged("FullMatrixByRows", memory)
    assert outcome == "failed"
    assert "grows with the square of the pool" in detail


def test_what_takes_too_long_is_not_judged():
    memory = Memory(rows=2_000, limit_gb=1.5, seconds=0.05)
    assert judged("Sleeps", memory) == (
        "not run",
        "took longer than 0.05 s at 2,000 rows",
    )


def test_a_process_that_breaks_down_is_a_finding(answering):
    answering(lambda rows: "Falling\nIt fell")
    outcome, detail = judged("AnyName")
    assert outcome == "failed"
    assert "its process broke down: It fell. " in detail


@pytest.mark.slow
def test_a_process_that_really_breaks_down_is_a_finding():
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
