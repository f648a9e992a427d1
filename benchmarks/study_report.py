"""What records of studies say: tables, tests and pictures of the pages about them.

``python -m benchmarks.study_report`` writes each part between its marks in README.md,
docs/study.md, docs/study-tables.md, docs/learners.md, docs/experiments.md and
docs/theory.md, writes tables that are too long for a page to docs/tables, and draws
the pictures; ``--check`` only compares.
"""

import argparse
import csv
import io
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks import (
    learner_tables,
    practical_tables,
    record_tables,
    study_tables,
    theory_tables,
    twins,
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
        for name in ("study", "study-tables", "learners", "experiments", "theory")
    ),
)
TABLES = DOCS / "tables"
LONG = {
    "practical saved": "practical-labels-saved-by-default",
    "practical saved by all": "practical-labels-saved",
    "practical accuracy confirmed": "practical-accuracy-confirmed",
    "practical accuracy screened": "practical-accuracy-screened",
    "practical with spreading": "practical-accuracy-spreading",
    "practical with linear": "practical-accuracy-linear",
    "blend accuracy": "blend-accuracy",
    "blend calibration": "blend-calibration",
    "practical screening": "practical-screening",
    "screen": "few-labels-screened",
    "confirm": "few-labels-confirmed",
    "npc": "few-labels-npc",
    "confirm by data": "few-labels-by-data",
    "win apart": "few-labels-outward-cifar100",
    "even": "few-labels-outward-without-doubt",
    "behind": "few-labels-behind-the-best-at-2",
    "behind at one": "few-labels-behind-the-best-at-1",
    "behind apart": "few-labels-behind-the-best-cifar100",
    "npc apart": "few-labels-npc-cifar100",
    "one or several": "few-labels-one-or-several-queries",
    "beside": "few-labels-worst-pool-and-seconds",
    "shots": "digits-shots",
    "twins 1": "twins-table-1",
    "twins 3": "twins-table-3",
    "claims": "twins-claims",
    "convergence": "theory-convergence",
    "draws": "theory-draws",
    "predicted errors": "theory-predicted-errors",
    "predicted lowered": "theory-predicted-errors-of-npc",
    **{
        f"learners on {source.name.replace('-', ' ')}": f"learners-{source.name}"
        for source in learner_tables.SOURCES
    },
}
"""Parts that are CSV files instead of tables on a page, and the names of the files."""
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
        **theory_tables.parts(),
        **twins.parts(),
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


def as_csv(text: str) -> str:
    """Return the tables of a part as CSV; the first column says which table it is."""
    lines, title, caption = io.StringIO(), "", ""
    header: list[str] | None = None
    writer = csv.writer(lines, lineterminator="\n")
    was_table = False
    for line in text.splitlines():
        is_table, starts = line.startswith("|"), not was_table
        was_table = is_table
        cells = [
            cell.replace("`", "").replace("**", "").strip(" *")
            for cell in line.strip("|").split("|")
        ]
        if not is_table:
            caption = "" if line.startswith("(") else line.rstrip(":") or caption
        elif starts:
            title, caption = caption or cells[0], ""
            if cells[1:] != header:
                header = cells[1:]
                writer.writerow(["table", "row", *header])
        elif set("".join(cells)) != {"-"}:
            writer.writerow([title, *cells])
    return lines.getvalue()


def table_path(name: str) -> Path:
    """Return the file of a part that is too long for a page."""
    return TABLES / f"{LONG[name]}.csv"


def main() -> int:
    """Write or compare the pages and tables; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    arguments = parser.parse_args()
    screen, confirm, later = (Study.read(stage) for stage in STAGES)
    made, outdated = parts(screen, confirm, later), []
    new = {page: filled(page.read_text("utf-8"), made) for page in PAGES}
    new |= {table_path(name): as_csv(made[name]()) for name in LONG}
    for path, text in new.items():
        if not path.exists() or path.read_text("utf-8") != text:
            outdated.append(path.name)
            if not arguments.check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, "utf-8")
    if arguments.check:
        for name in outdated:
            print(f"{name} does not say what the record says; run make study-report")
        return bool(outdated)
    practical_tables.picture(PRACTICAL)
    record_tables.draw_copies(COPIES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
