"""The page about a run: accuracy, queries, classes, values, conditioning, time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from fewlabels.errors import UsageError, count
from fewlabels.experiments.diagnosis import Conditioning, diagnose
from fewlabels.experiments.evaluation import accuracy_interval
from fewlabels.experiments.runs import RoundLine, RunFolder, has_ended
from fewlabels.experiments.settings import RunSettings
from fewlabels.names import AllowCode
from fewlabels.pool import UNKNOWN, Pool
from fewlabels.report import pictures, wording
from fewlabels.report.figures import Curve, Point, draw_curves, draw_spectra, hues
from fewlabels.report.page import Block, Column, Entry, Page, Row, Section, Table

_MOST_IMAGES = 60
_MOST_CLASSES = 24
"""Classes that get a row each."""


def write_report(
    path: Path, folder: RunFolder, pool: Pool, *, allow_code: AllowCode = False
) -> Path:
    """Write a page about one run.

    The page is one file that needs no script and no other file. The same run gives the
    same bytes. For a comparison of strategies, see :func:`write_bench_report`.

    Args:
        path: Where to write the page, such as ``folder.report_file``.
        folder: The run; one that is not finished is shown as far as it is.
        pool: The data of the run, to show the images that were asked for.
        allow_code: Which import paths the trainer of the run may be; the spectra of
            others are left out.

    Returns:
        ``path``.
    """
    description, start = folder.description(), folder.start() or {}
    settings, data = folder.settings(), description["data"]
    lines = tuple(folder.lines())
    timings = {entry["step"]: entry for entry in folder.timings()}
    strategy = settings.strategy.name
    try:
        spectra = list(diagnose(folder, pool, whole_pool=False, allow_code=allow_code))
    except UsageError:  # a trainer from outside that is gone, or that is not allowed
        spectra = []
    sections = [
        Section("accuracy", "Accuracy", _accuracy(strategy, lines)),
        Section("images", "Queries", _queries(start, lines, data["classes"], pool)),
        Section("classes", "Labels per class", _classes(lines, data["classes"])),
        Section("values", "Value of the choices", _values(lines)),
        Section("conditioning", "Conditioning", conditioning(strategy, spectra)),
        Section("time", "Time", _time(lines, timings)),
    ]
    created = wording.environment_facts(description)
    for part, resolved in description.get("made", {}).items():
        for module, source in resolved["source"].items():
            created[f"Source hash of '{module}' ({part})"] = source
    finished = [entry["finished"] for entry in timings.values() if "finished" in entry]
    created |= {"Last round finished": str(finished[-1])} if finished else {}
    headline, explanation = _summary(settings, data, len(start), lines)
    page = Page(
        kind="report",
        title=f"{strategy} on {wording.data_name(settings.data.name)}",
        headline=headline,
        explanation=explanation,
        sections=sections,
        facts={
            "Settings": [wording.as_facts(description["settings"])],
            "Data": [wording.as_facts(data)],
            "Created with": [created],
        },
        image_size=pictures.image_size(pool.images),
    )
    return page.write(path)


def _points(lines: Sequence[RoundLine]) -> tuple[Point, ...]:
    """Return accuracies by number of labels; of two at one number, the later."""
    points = {
        line.num_labeled: Point(line.num_labeled, line.accuracy)
        for line in lines
        if line.accuracy is not None
    }
    return tuple(sorted(points.values()))


def _summary(
    settings: RunSettings,
    data: Mapping[str, Any],
    num_start: int,
    lines: Sequence[RoundLine],
) -> tuple[str, list[str]]:
    """Return the result in one sentence, and how it was obtained."""
    points, num_test, sentences = _points(lines), data["num_test"], []
    headline = "No round is finished yet."
    if lines:
        headline = (
            f"Trained on {count(lines[-1].num_labeled, 'label')}; without held-out "
            "images, there is no way to tell how good the result is."
        )
        sentences.append(
            f"The labels were chosen from the {count(data['num_items'], 'image')} of "
            f"{wording.data_name(settings.data.name)} by {settings.strategy.name}; the "
            f"classifier was trained by {settings.trainer.name}."
        )
    if points:
        accuracy, after = points[-1].accuracy, count(points[-1].num_labels, "label")
        images = count(num_test, "held-out image")
        headline = f"{wording.percent(accuracy)} of {images} right after {after}."
        num_right = round(accuracy * num_test)
        interval = accuracy_interval(num_right, num_test)
        sentences.append(
            f"{num_test - num_right:,} of {count(num_test, 'image')} are wrong; with a "
            f"test split of this size, the true accuracy is between "
            f"{100 * interval.low:.1f} and {wording.percent(interval.high)} (95 % "
            "interval)."
        )
    if not has_ended(lines):
        reached = lines[-1].num_labeled if lines else num_start
        planned = count(settings.budget, "label")
        sentences.append(f"This run is not finished: {reached:,} of {planned}.")
    return headline, sentences


def _accuracy(strategy: str, lines: Sequence[RoundLine]) -> Sequence[Block]:
    """Return the accuracy of each round as a curve and a table."""
    points, notes = _points(lines), []
    if not points:
        note = (
            "Accuracy was not measured, since the data have no test split. Hold out "
            "some labeled images to find out how good the classifier is."
        )
        return [Block(notes=[note])] if lines else ()
    medians = {line.num_labeled: line.median_accuracy for line in lines}
    columns = ["Labels", *(f"{point.num_labels:,}" for point in points)]
    rows = [["Accuracy", *(wording.percent(point.accuracy) for point in points)]]
    if any(median is not None for median in medians.values()):
        known = [wording.percent(medians[point.num_labels]) for point in points]
        rows.append(["Median at the end", *known])
        notes.append(
            "The median is that of the evaluations in the last fifth of each training, "
            "which depends less on a lucky last step."
        )
    curve = Curve(strategy, hues([strategy])[strategy], points)
    drawing = draw_curves("accuracy", [curve])
    return [Block(drawing=drawing, tables=[Table(columns, rows)], notes=notes)]


def _queries(
    start: Mapping[str, int],
    lines: Sequence[RoundLine],
    known: Sequence[str],
    pool: Pool,
) -> Sequence[Block]:
    """Return the images that were labeled, each with its answer."""
    unlabeled: dict[int | None, str] = {None: "open", UNKNOWN: "skipped"}
    captions = dict(enumerate(known)) | unlabeled

    def gallery(
        heading: str, detail: str, labels: Mapping[str, int | None]
    ) -> pictures.Gallery:
        first = dict(islice(labels.items(), _MOST_IMAGES))
        images = pictures.pictures_of(pool, first)
        items = [
            pictures.GalleryItem(
                pictures.readable_name(name),
                images.get(name),
                captions.get(label, str(label)),
                unlabeled.get(label, "labeled"),
            )
            for name, label in first.items()
        ]
        return pictures.Gallery(heading, detail, items, len(labels) - len(items))

    galleries = []
    if start:
        detail = f"{count(len(start), 'label')} to start with"
        galleries.append(gallery("Starting set", detail, start))
    for line in lines:
        kinds = Counter(unlabeled.get(label, "answered") for label in line.labels)
        parts = [f"{len(line.ids):,} asked for"]
        if kinds["answered"] < len(line.ids):
            parts.append(f"{kinds['answered']:,} answered")
            words = {"skipped": "skipped", "open": "left open"}
            parts += [f"{kinds[k]:,} {words[k]}" for k in words if kinds[k]]
        if line.ids:
            after = count(line.num_labeled + kinds["answered"], "label")
            answers = dict(zip(line.ids, line.labels, strict=True))
            heading = f"{line.num_labeled:,} → {after}"
            galleries.append(gallery(heading, ", ".join(parts), answers))
    return [Block(galleries=galleries)] if galleries else ()


def _classes(lines: Sequence[RoundLine], known: Sequence[str]) -> Sequence[Block]:
    rounds = {line.num_labeled: line.class_counts for line in lines}
    if not any(rounds.values()):
        return ()
    amounts, last = [f"{amount:,}" for amount in rounds], lines[-1].class_counts
    if len(known) > _MOST_CLASSES:
        covered = [f"{sum(map(bool, counts)):,}" for counts in rounds.values()]
        table = Table(["Labels", *amounts], [["Classes with a label", *covered]])
    else:
        largest = max(1, *map(max, rounds.values()))
        rows = [
            [name, *(Entry(str(n), share=n / largest) for n in counts)]
            for name, *counts in zip(known, *rounds.values(), strict=True)
        ]
        table = Table(["Class", *amounts], rows)
    uncovered = [name for name, n in zip(known, last, strict=True) if not n]
    missing = f"Not covered yet: {wording.first_of(uncovered, most=40)}."
    notes = [missing if uncovered else "Every class has a label."]
    return [Block(tables=[table], notes=notes)]


def _values(lines: Sequence[RoundLine]) -> Sequence[Block]:
    """Return the value of each query, beside the largest that it could have."""
    rows: list[Row] = []
    for line in lines:
        if line.value is not None:
            part = line.value / line.ceiling if line.ceiling else None
            share = None if part is None else min(1.0, max(0.0, part))
            labels, ceiling = f"{line.num_labeled:,}", wording.number(line.ceiling)
            value = wording.number(line.value) + (" (tie)" if line.tie else "")
            of_ceiling = Entry(wording.percent(share), share=share)
            kernel = line.kernel or wording.MISSING
            rows.append([labels, kernel, value, ceiling, of_ceiling])
    numbers = ("Value", "Ceiling", "Of the ceiling")
    table = Table(["Labels", Column("Kernel", is_text=True), *numbers], rows)
    return [Block(tables=[table])] if rows else ()


def conditioning(strategy: str, rounds: Sequence[Conditioning]) -> Sequence[Block]:
    """Return the blocks about spectra of labeled items; none if none is known."""
    spectra, rows, words, notes = [], list[Row](), [], dict[str, None]()
    for row in rounds:
        if row.spectrum is not None:
            smallest, rank = wording.number(row.spectrum.smallest), row.spectrum.rank
            largest, condition = (
                row.spectrum.largest,
                wording.number(row.spectrum.condition),
            )
            labels, limit = f"{row.num_labeled:,}", wording.number(row.step_limit)
            rows.append([labels, smallest, f"{rank:,}", condition, limit])
            words.append(
                f"{wording.number(largest)} down to {smallest} with {labels} labels"
            )
            notes[f"Kernel: {row.kernel}."] = None
            if rank:
                spectra.append((row.num_labeled, row.eigenvalues[::-1][:rank]))
    if not spectra:
        return ()
    if any(row.is_stand_in for row in rounds):
        stand_in = "rounds that asked for nothing or did not use a kernel"
        notes[f"It is also shown for {stand_in}."] = None
    text = f"Eigenvalues of the Gram matrix of the labeled items: {', '.join(words)}."
    drawing = draw_spectra("spectra", spectra, hues([strategy])[strategy], text)
    table = Table(["Labels", "Smallest", "Rank", "Condition", "Step limit"], rows)
    return [Block(drawing=drawing, tables=[table], notes=[" ".join(notes)])]


def _time(
    lines: Sequence[RoundLine], timings: Mapping[int, Mapping[str, Any]]
) -> Sequence[Block]:
    keys = ("train_seconds", "query_seconds")
    taken = [[timings.get(line.step, {}).get(key) for key in keys] for line in lines]
    rows: list[Row] = [
        [f"{line.num_labeled:,}", *map(wording.seconds, own)]
        for line, own in zip(lines, taken, strict=True)
    ]
    if len(rows) > 1:
        known = [[s for s in own if s is not None] for own in zip(*taken, strict=True)]
        totals = [wording.seconds(sum(own) if own else None) for own in known]
        rows.append(["Total", *(Entry(total, is_best=True) for total in totals)])
    table = Table(["Labels", "Training", "Choosing"], rows)
    return [Block(tables=[table])] if rows else ()
