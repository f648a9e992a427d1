"""What came out, in a sentence, and how far it can be trusted."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from fewlabels.integers import count
from fewlabels.report.recorded import RecordedRun, chosen_name, data_name
from fewlabels.report.wording import listed, percent, points

_Z = 1.96


@dataclass(frozen=True)
class Tile:
    """The last measurement of a run, in large letters."""

    name: str
    hue: int
    accuracy: float | None
    details: tuple[str, ...]
    """What it rests on, a line each."""


def default_title(runs: Sequence[RecordedRun]) -> str:
    """Name the strategies and the data sets that the page is about."""
    data = dict.fromkeys(data_name(run.settings) for run in runs)
    return f"{_chosen(runs, 'strategy')} on {listed(list(data))}"


def headline(runs: Sequence[RecordedRun]) -> str:
    """Say in one sentence what came out."""
    measured = [run for run in runs if run.measured]
    if not measured:
        return _unmeasured(runs)
    if len(measured) == 1:
        num_labels, accuracy = measured[0].measured[-1]
        whose = f"{measured[0].name} gets " if len(runs) > 1 else ""
        return (
            f"{whose}{percent(accuracy)} of {_held_out(measured)} right after "
            f"{count(num_labels, 'label')}."
        )
    return _comparison(measured)


def explanation(runs: Sequence[RecordedRun]) -> list[str]:
    """Say how it came about and what remains open."""
    first = runs[0]
    sentences = []
    if any(run.lines for run in runs):
        items = first.data.get("num_items")
        source = f"the {count(items, 'image')} of " if items is not None else ""
        sentences.append(
            f"The labels were chosen from {source}{data_name(first.settings)} by "
            f"{_chosen(runs, 'strategy')}; the classifier was trained by "
            f"{_chosen(runs, 'trainer')}."
        )
    if len(runs) == 1 and first.measured and first.num_test:
        sentences.append(_interval_sentence(first))
    for run in runs:
        if not run.is_finished and "budget" in run.settings:
            which = run.name if len(runs) > 1 else "This run"
            planned = count(run.settings["budget"], "label")
            sentences.append(
                f"{which} is not finished: {_num_labels(run):,} of {planned}."
            )
    return sentences


def tiles(runs: Sequence[RecordedRun]) -> tuple[Tile, ...]:
    """Return the last measurement of each run."""
    return tuple(_tile(run) for run in runs)


def interval(accuracy: float, num_test: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share that was counted on some items.

    Example:
        >>> low, high = interval(0.972, 500)
        >>> f"{low:.3f} {high:.3f}"
        '0.954 0.983'
    """
    spread = _Z * sqrt(accuracy * (1 - accuracy) / num_test + (_Z / num_test / 2) ** 2)
    middle = accuracy + _Z**2 / num_test / 2
    scale = 1 + _Z**2 / num_test
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def _tile(run: RecordedRun) -> Tile:
    if not run.measured:
        reason = "not measured" if run.lines else "no round finished yet"
        detail = f"{count(_num_labels(run), 'label')}, {reason}"
        return Tile(run.name, run.hue, None, (detail,))
    num_labels, accuracy = run.measured[-1]
    after = f"after {count(num_labels, 'label')}"
    if not run.num_test:
        return Tile(run.name, run.hue, accuracy, (after,))
    low, high = interval(accuracy, run.num_test)
    right = round(accuracy * run.num_test)
    details = (
        after,
        f"{right:,} of {run.num_test:,} right",
        f"95 % interval {100 * low:.1f}–{percent(high)}",
    )
    return Tile(run.name, run.hue, accuracy, details)


def _comparison(runs: Sequence[RecordedRun]) -> str:
    """Compare the best and the worst run by their last measurements."""
    ranked = sorted(runs, key=lambda run: run.measured[-1][1], reverse=True)
    best, worst = ranked[0], ranked[-1]
    (num_labels, high), (num_labels_worst, low) = best.measured[-1], worst.measured[-1]
    right = f"{percent(high)} of {_held_out(runs)} right"
    after = f"after {count(num_labels, 'label')}"
    if len({run.measured[-1][0] for run in runs}) > 1:
        return (
            f"{best.name} is highest: {right} {after}; {worst.name} has {percent(low)} "
            f"after {count(num_labels_worst, 'label')}."
        )
    if high == low:
        return f"{listed([run.name for run in runs])} are tied: {right} {after}."
    if len(runs) == 2:
        return (
            f"{best.name} gets {right} {after}, {worst.name} {percent(low)}: "
            f"{points(high - low)} apart."
        )
    return (
        f"{best.name} comes first of {len(runs)} runs with {right} {after}, "
        f"{worst.name} last with {percent(low)}."
    )


def _unmeasured(runs: Sequence[RecordedRun]) -> str:
    if not any(run.lines for run in runs):
        return "No round is finished yet."
    labeled = listed([count(_num_labels(run), "label") for run in runs])
    return (
        f"Trained on {labeled}; without held-out images, there is no way to tell how "
        "good the result is."
    )


def _interval_sentence(run: RecordedRun) -> str:
    accuracy = run.measured[-1][1]
    low, high = interval(accuracy, run.num_test)
    wrong = run.num_test - round(accuracy * run.num_test)
    return (
        f"{wrong:,} of {count(run.num_test, 'image')} are wrong; with a test split of "
        f"this size, the true accuracy is between {100 * low:.1f} and {percent(high)} "
        "(95 % interval)."
    )


def _chosen(runs: Sequence[RecordedRun], key: str) -> str:
    """Return the different strategies or trainers of the runs, as in a sentence."""
    return listed(list(dict.fromkeys(chosen_name(run.settings, key) for run in runs)))


def _held_out(runs: Sequence[RecordedRun]) -> str:
    amounts = {run.num_test for run in runs}
    if len(amounts) == 1 and amounts != {0}:
        return count(amounts.pop(), "held-out image")
    return "the held-out images"


def _num_labels(run: RecordedRun) -> int:
    return run.lines[-1].num_labeled if run.lines else len(run.start)
