"""Every figure in README and docs follows from a record under version control."""

from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest
from tests.figures import Figures, Pair, figures, regions, stated, unmarked

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

NOT_MEASURED = {
    "docs/exchange.md": {"6 %": "how alike two copies are"},
    "docs/experiments.md": {
        "20 times": "how uneven the long-tailed pools are made",
        "95 %": "level of an interval",
    },
    "docs/export.md": {"16 MB": "bound of a request"},
    "docs/features.md": {
        "40 MB": "size of packages",
        "2.6 GB": "1,000,000 rows of 1,280 numbers of two bytes",
    },
    "docs/labeling-page.md": {
        "20 MB": "limit of an uploaded file",
        "95 %": "level of an interval",
    },
    "docs/scale.md": {
        "28 MB": "1,024 images of 96 x 96 pixels, three bytes each",
        "154 MB": "the same at 224 x 224 pixels",
    },
    "docs/statistics.md": {
        "5 %": "level of a test",
        "99 %": "where random counts as done",
        "p = 0.048": "tests/experiments/bench/test_published.py",
    },
    "docs/study-tables.md": {"20 times": "how uneven a pool is made"},
    "docs/study.md": {"95 %": "level of an interval"},
    "docs/theory.md": {"95 %": "level of an interval"},
}
"""Numbers with a unit that nobody measured, by page, and what they are."""


@pytest.mark.parametrize(
    "path", sorted((ROOT / "benchmarks").glob("*.py")), ids=attrgetter("stem")
)
def test_what_measured_them_can_be_run_again(path):
    """A benchmark that nobody runs still imports what is there."""
    import_module(f"benchmarks.{path.stem}")


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_marked_figures_follow_from_their_records(page):
    for records, text in regions(page.read_text("utf-8")):
        known = [figures(name) for name in records]
        wrong = [
            figure
            for figure in stated(text, everything=True)
            if not any(one.holds(figure) for one in known)
        ]
        assert not wrong, f"not in {records}: {wrong}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_figure_without_a_mark_is_known_not_to_be_measured(page):
    text = unmarked(page.read_text("utf-8"))
    known = NOT_MEASURED.get(str(page.relative_to(ROOT)), {})
    assert all(words in " ".join(text.split()) for words in known)
    for words in known:
        text = text.replace(words, "")
    assert not list(stated(text))


def test_every_mark_is_closed_and_names_a_record():
    for page in PAGES:
        text = page.read_text("utf-8")
        marks = text.count("<!-- figures: ")
        assert marks == text.count("<!-- figures end -->") == len(list(regions(text)))


@pytest.mark.parametrize(
    ("figure", "follows"),
    [
        ("82.3 ± 3.7", True),  # digits, 30 labels, supervised
        ("82.3 ± 3.8", False),  # the deviation of another row
        ("82.4 ± 3.7", False),
        ("15.5 ± 3.0", True),  # FixMatch's gain with 10 labels
        ("102.7", False),
    ],
)
def test_a_wrong_digit_is_noticed(figure, follows):
    assert figures("ssl_study").holds(figure) is follows


@pytest.mark.parametrize(
    ("figure", "follows"),
    [
        ("33,400", True),
        ("33,446", True),
        ("33,500", False),
        ("33", False),
        ("4.0", True),
        ("4.1", False),
        ("12", True),  # a share of 0.12 in percent
        ("12.3 ± 0.4", True),
    ],
)
def test_rounding(figure, follows):
    known = Figures(pairs=[Pair(-12.34, 0.36)])
    known.add(33_446, 4.047, 0.12)
    assert known.holds(figure) is follows


def test_what_counts_as_a_figure():
    text = "It took 12 s (p = .03), 4.0 times as fast.\n`13 s` and version 3.11.\n"
    assert list(stated(text)) == ["12", ".03", "4.0"]
    table = "| labels | a |\n|---|---|\n| 30 | 5 of 7 |\n"
    assert list(stated(table, everything=True)) == ["5", "7"]
