"""The page of an experiment, and the figures and tables beside it."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

from fewlabels.errors import UnknownNameError, count
from fewlabels.experiments import bench
from fewlabels.experiments.bench.folder import BenchFolder, Results
from fewlabels.experiments.evaluation import retraining_noise
from fewlabels.files import wrap_os_errors
from fewlabels.report import bench_sections, wording
from fewlabels.report.bench_picks import overlap_section, redundancy_section
from fewlabels.report.bench_sections import AREA, END, OTHER_SCALE, Comparison, Context
from fewlabels.report.page import Block, Column, Page, Row, Section, Table

_ENDINGS = (".csv", ".tex", ".png", ".svg")
_NAMES = (
    "accuracy", "cost", "curves", "overlap", "redundancy", "savings", "shots", "tests",
)  # fmt: skip
"""How the names of all tables and figures begin; other files are not ours."""

_MOST_FAILURES = 12
_MOST_NOTES = 20
_ENOUGH_SEEDS = 10


def write_bench_report(
    folder: BenchFolder, name: str, *, out: Path | None = None
) -> Path:
    """Write the report of an experiment, as far as its runs are finished.

    It is a page that needs no script and no other file (``index.html``), figures for a
    paper (``figures/*.png`` and ``*.svg``) and tables (``tables/*.csv`` and ``*.tex``).
    The same results give the same bytes.

    Args:
        folder: The benchmark.
        name: The experiment, one that was asked for in it.
        out: Folder to write into; by default ``folder.report_folder(name)``.

    Returns:
        The path of the page.

    Raises:
        UnknownNameError: If no experiment of that name was asked for.
    """
    folder.check()
    experiment = folder.asked(name)  # another that is damaged must not matter
    if experiment is None:
        raise UnknownNameError("experiment", name, folder.experiments())
    path = out or folder.report_folder(name)
    results = bench.read_results(folder, experiment)
    page = bench_page(results, others=bench.outdated(experiment, folder))
    # Files of an earlier report would be mistaken for results of this page.
    for file in () if out else (*path.glob("tables/*"), *path.glob("figures/*")):
        if file.suffix in _ENDINGS and file.stem.partition("-")[0] in _NAMES:
            with wrap_os_errors(file):
                file.unlink(missing_ok=True)
    for block in [block for section in page.sections for block in section.blocks]:
        for table in block.tables:
            table.write(path / "tables")
        if block.drawing is not None:
            block.drawing.save(path / "figures")
    return page.write(path / "index.html")


def bench_page(results: Results, *, others: Sequence[str] = ()) -> Page:
    """Return the page of an experiment.

    ``others`` are further warnings, those of :func:`bench.outdated`.
    """
    context = bench_sections.context_of(results)
    experiment = context.experiment
    sections = [
        bench_sections.accuracy_section(context),
        bench_sections.comparison_section(context),
        bench_sections.savings_section(context),
        redundancy_section(context),
        overlap_section(context),
        Section("cost", "Time and memory", _cost(context)),
        Section("noise", "Noise of training", notes=_noise(context)),
        Section("noted", "What the runs noted", notes=_notes(context)),
    ]
    order: list[str] = [*experiment.figures, *(section.anchor for section in sections)]
    sections.sort(key=lambda section: order.index(section.anchor))
    title = experiment.title or experiment.name
    if experiment.scale == "cpu" and "scale" not in title.lower():
        title = f"{title} ({OTHER_SCALE[0].lower()}{OTHER_SCALE[1:]})"
    settings = [
        condition.settings.bare.model_dump(mode="json", exclude={"strategy", "seed"})
        for condition in experiment.conditions
    ]
    shared = {
        "Strategies": wording.join_words([who.label for who in context.contenders]),
        "Seeds": ", ".join(map(str, experiment.seeds)),
        "Scale": "the paper's" if experiment.scale == "paper" else "two cores",
    }
    begun = [
        [cell.description for cell in case.cells if cell.description]
        for case in context.conditions
    ]
    headings = [case.heading for case in context.conditions]
    return Page(
        kind="benchmark",
        title=title,
        headline=finding(context),
        explanation=_explanation(context),
        warnings=[*_warnings(context), *others],
        sections=sections,
        facts={
            "Experiment": [shared] * len(settings),
            "Settings": list(map(wording.as_facts, settings)),
            "Data": [
                wording.merged(wording.as_facts(run["data"]) for run in runs)
                for runs in begun
            ],
            "Created with": [
                wording.merged(map(wording.environment_facts, runs)) for runs in begun
            ],
        },
        columns=headings if len(headings) > 1 else (),
    )


def finding(context: Context) -> str:
    """Return the result in a sentence or two."""
    if not context.num_finished:
        return f"None of {count(len(context.cells), 'run')} is finished yet."
    return (bench_sections.saving_sentences(context) or [_outcome(context)])[0]


def _explanation(context: Context) -> list[str]:
    """Return how the result was obtained, and what is not finished."""
    experiment, finished = context.experiment, context.num_finished
    sentences = bench_sections.saving_sentences(context)[1:]
    if sentences:
        sentences.append(_outcome(context))
    if experiment.about.strip():
        sentences.append(experiment.about.strip())
    elif experiment.scale == "cpu":
        sentences.append(
            f"{OTHER_SCALE}: the settings are meant for two CPU cores, so the numbers "
            "are not comparable with the paper's."
        )
    total, num_all = count(len(context.cells), "run"), len(context.cells)
    done = f"All {total}" if finished == num_all else f"{finished:,} of {total}"
    seeds = {len(case.seeds): None for case in context.conditions}
    shape = [
        count(len(experiment.strategies), "strategy", "strategies"),
        count(len(experiment.conditions), "condition"),
        " or ".join(count(number, "seed") for number in seeds),
    ]
    return [*sentences, f"{done} are finished: {wording.join_words(shape)}."]


def _outcome(context: Context) -> str:
    """Return which strategies differ from the first reference, and by how much."""
    against = next(iter(context.references.values()), "")
    tests = [row for row in context.comparisons if row.test.against == against]
    if not tests:
        return (
            "Nothing can be compared: a test needs random or npc, another strategy, "
            "and two seeds that every strategy has finished and measured."
        )
    pairs = sorted({comparison.test.num_pairs for comparison in tests})
    seeds = wording.span([*map(str, pairs[:-1]), count(pairs[-1], "paired seed")])
    measures = {row.measure_text for row in tests if row.measure == END}
    where = measures.pop() if len(measures) == 1 else "at the end of the runs"
    clear, areas = (
        _clear(context, [row for row in tests if row.measure == measure])
        for measure in (END, AREA)
    )
    over = f" By the area under the curve, {areas}." if areas else ""
    if not clear:
        return (
            f"With {seeds}, no difference from {against} {where} is significant after "
            f"Holm's correction.{over}"
        )
    return f"On {seeds}, {clear} {where}.{over}"


def _clear(context: Context, tests: Sequence[Comparison]) -> str:
    """Return which strategies are significantly better or worse; empty: none."""
    total, parts = len(context.conditions), []
    significant = [comparison for comparison in tests if comparison.is_significant]
    for sign, verb in ((1, "beat"), (-1, "fell behind")):
        clear = [row for row in significant if sign * row.test.difference > 0]
        if clear:
            shares = sorted(abs(row.test.difference) for row in clear)
            by = wording.span(map(wording.in_percent, shares))
            against = clear[0].test.against
            names = []
            for who in context.contenders:
                places = [
                    row.case.heading for row in clear if row.test.name == who.label
                ]
                several = f"under {len(places)} of {total} conditions"
                where = places[0] if len(places) == 1 else several
                if places:
                    names.append(f"{who.short} ({where})" if total > 1 else who.short)
            parts.append(f"{wording.join_words(names)} {verb} {against} by {by} points")
    return wording.join_words(parts)


def _warnings(context: Context) -> Iterator[str]:
    """Yield what a reader must know before believing the numbers."""
    cells, failures = context.cells, context.failures
    for failure in failures[:_MOST_FAILURES]:
        yield f"Failed: {failure.label}. {failure.error}"
    if len(failures) > _MOST_FAILURES:
        yield f"{len(failures) - _MOST_FAILURES:,} more runs failed."
    left = len(cells) - context.num_finished - len(failures)
    if left > 0:
        yield (
            f"{count(left, 'run is', 'runs are')} still missing. Until they finish, "
            "means over different seeds are hard to compare; tests use only seeds that "
            "every strategy has finished."
        )
    seeds = {case.heading: len(case.complete_seeds) for case in context.conditions}
    fewest = min(seeds, key=seeds.__getitem__)
    if 2 <= seeds[fewest] < _ENOUGH_SEEDS:
        where = f"{fewest}: " if len({*seeds.values()}) > 1 else ""
        yield (
            f"{where}{count(seeds[fewest], 'paired seed')} can show only large "
            f"differences; a claim should be based on at least {_ENOUGH_SEEDS}."
        )
    begun = [cell.description for cell in cells if cell.description]
    mixed = [
        name
        for name, key in (("versions", "versions"), ("platforms", "platform"))
        if len({json.dumps(run.get(key), sort_keys=True) for run in begun}) > 1
    ]
    if mixed:
        yield (
            f"The runs were made with different {wording.join_words(mixed)} (see "
            "'Settings and versions'). Results of one seed can differ between them, "
            "which may explain part of the differences."
        )
    for case in context.conditions:
        drawn = {  # by the seed that the pool was drawn with, if any
            (cell.cell.settings.data.options.get("seed"), run["data"].get("hash"))
            for cell in case.cells
            if (run := cell.description)
        }
        most = max(Counter(seed for seed, _ in drawn).values(), default=0)
        if most > 1:
            where = f" under '{case.heading}'" if case.heading else ""
            yield (
                f"The runs{where} were made on {most} different versions of the data, "
                "so they are not comparable."
            )


def _noise(context: Context) -> Sequence[str]:
    """Return how far trainings on one label set differ, where that was measured."""
    known = [accuracy for accuracy in context.noise if isfinite(accuracy)]
    if len(known) < 2:
        return ()
    noise = retraining_noise(known)
    numbers = (noise.mean, noise.deviation, noise.low, noise.high)
    mean, deviation, low, high = (wording.in_percent(share, 2) for share in numbers)
    first = context.conditions[0].condition.settings
    return [
        f"{count(noise.num_trainings, 'training')} on the same "
        f"{count(first.budget, 'label')}, random and even over the classes, reach "
        f"{mean} ± {deviation} % (mean ± sample standard deviation). The true "
        f"deviation is between {low} and {high} points (95 % interval). A smaller "
        "difference between single runs may come from training alone, whatever was "
        "labeled."
    ]


def _notes(context: Context) -> Sequence[str]:
    """Return the notes of all runs, the most frequent first."""
    noted = Counter(note for cell in context.cells for note in cell.notes)
    ranked = sorted(noted.items(), key=lambda item: (-item[1], item[0]))
    notes = [f"{text} ({count(times, 'run')})" for text, times in ranked[:_MOST_NOTES]]
    if len(ranked) > _MOST_NOTES:
        notes.append(f"{len(ranked) - _MOST_NOTES:,} more notes.")
    return notes


def _known(timings: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    return [timing[key] for timing in timings if timing.get(key) is not None]


def _cost(context: Context) -> Sequence[Block]:
    """Return time and memory, where they were measured."""
    rows: list[Row] = []
    for case, who in product(context.conditions, context.contenders):
        timings = [timing for run in case.runs(who.label) for timing in run.timings]
        later = [timing for timing in timings if timing["step"] > 0] or timings
        queries, peaks = (
            _known(timings, "query_seconds"),
            _known(timings, "query_peak_mb"),
        )
        trainings = _known(later, "train_seconds")
        row = [
            who.short,
            wording.number(median(queries) if queries else None),
            wording.number(max(queries, default=None)),
            wording.number(max(peaks, default=None)),
            count(len(queries)),
            wording.number(median(trainings) if trainings else None),
        ]
        rows.append([case.heading, *row] if case.heading else row)
    query = ("Median (s)", "Longest (s)", "Peak memory (MB)", "Queries")
    table = Table(
        [
            *context.condition_column,
            Column("Strategy", is_text=True),
            *(Column(name, "Query") for name in query),
            Column("Median (s)", "Training"),
        ],
        rows,
        name="cost",
        caption=context.conditions[0].caption("Time and memory.", is_of_all=True),
        breaks=range(0, len(rows), len(context.contenders)),
    )
    is_measured = any(cell.timings for cell in context.cells)
    return [Block(tables=[table])] if is_measured else ()
