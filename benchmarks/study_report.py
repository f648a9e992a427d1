"""What records of studies say: tables, tests and pictures of the pages about them.

``python -m benchmarks.study_report`` writes each part between its marks in README.md,
docs/study.md, docs/study-tables.md, docs/learners.md and docs/experiments.md, and draws
their pictures; ``--check`` only compares.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks import (
    learner_tables,
    practical_tables,
    record_tables,
    study_tables,
)
from benchmarks.study import SOURCES, STAGES
from benchmarks.study_data import Study
from benchmarks.study_measures import predictors
from benchmarks.study_tables import RIVALS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = (
    ROOT / "README.md",
    *(
        DOCS / f"{name}.md"
        for name in ("study", "study-tables", "learners", "experiments")
    ),
)
PRACTICAL = DOCS / "images" / "practical.png"
COPIES = DOCS / "images" / "repeated_mnist.png"


def parts(screen: Study, confirm: Study, later: Study) -> dict[str, Callable[[], str]]:
    """Return what makes each part of the pages, by the name in its mark."""
    chosen = study_tables.best_of_family(screen)
    apart = replace(confirm, names=[one.name for one in SOURCES if one.is_slow])
    return {
        "screen": lambda: study_tables.ranking(screen),
        "confirm": lambda: study_tables.ranking(confirm),
        "confirm by data": lambda: study_tables.by_data(confirm),
        "win": lambda: study_tables.tests(confirm, chosen, RIVALS),
        "win apart": lambda: study_tables.tests(apart, chosen, RIVALS),
        "npc": lambda: study_tables.tests(confirm, "npc", RIVALS[:2]),
        "npc apart": lambda: study_tables.tests(apart, "npc", RIVALS[:2]),
        "even": lambda: study_tables.even(confirm, later),
        "agreement": lambda: study_tables.agreement(confirm),
        "predictors": predictors,
        "one or several": lambda: study_tables.one_or_several(screen),
        "behind": lambda: study_tables.behind_the_best(confirm, 2),
        "behind at one": lambda: study_tables.behind_the_best(confirm, 1),
        "behind apart": lambda: study_tables.behind_the_best(apart, 2),
        "supervised": lambda: study_tables.supervised_too(confirm),
        "noise": lambda: study_tables.noise(confirm),
        "beside": lambda: study_tables.beside(confirm),
        "copies": record_tables.copies,
        "shots": record_tables.shots,
        **practical_tables.parts(),
        **learner_tables.parts(),
    }


def filled(text: str, made: Mapping[str, Callable[[], str]]) -> str:
    """Return a page with its marked parts made anew."""
    for name, make in made.items():
        mark, end = f"<!-- study: {name} -->\n", "<!-- study end -->"
        if mark in text:
            before, _, rest = text.partition(mark)
            _, _, after = rest.partition(end)
            text = f"{before}{mark}\n{make()}\n{end}{after}"
    return text


def main() -> int:
    """Write or compare the pages; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    arguments = parser.parse_args()
    screen, confirm, later = (Study.read(stage) for stage in STAGES)
    made, outdated = parts(screen, confirm, later), []
    for page in PAGES:
        text = page.read_text("utf-8")
        new = filled(text, made)
        if new != text:
            outdated.append(page.name)
            if not arguments.check:
                page.write_text(new, "utf-8")
    if arguments.check:
        for name in outdated:
            print(f"{name} does not say what the record says; run make study-report")
        return bool(outdated)
    practical_tables.picture(PRACTICAL)
    record_tables.draw_copies(COPIES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
