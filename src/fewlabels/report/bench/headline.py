"""What came out in a sentence, what is missing, and what to keep in mind."""

from collections.abc import Iterable, Sequence

from fewlabels.evaluation import PairedTest
from fewlabels.report.bench.comparisons import LEVEL, at_the_end, tests_of
from fewlabels.report.bench.context import OTHER_SCALE, ConditionContext, Context
from fewlabels.report.wording import count, listed, percent, points

_MOST_FAILURES = 12
_ENOUGH_SEEDS = 10


def title(context: Context) -> str:
    """Return the heading of the page."""
    experiment = context.experiment
    says_scale = "scale" in experiment.title.lower()
    if experiment.scale == "paper" or says_scale:
        return experiment.title
    return f"{experiment.title} ({OTHER_SCALE[0].lower()}{OTHER_SCALE[1:]})"


def finding(context: Context) -> str:
    """Say in a sentence or two what came out, and no more than that."""
    total = len(context.results.cells)
    if not context.results.num_finished:
        return f"None of {count(total, 'run')} is finished yet."
    tested = [
        one
        for one in context.conditions
        if one.comparable.can_be_tested and context.references
    ]
    if not tested:
        return _untested(context)
    against = context.references[0]
    by = [(one, tests_of(at_the_end(one.comparable), against)) for one in tested]
    if len(by) == 1:
        one, tests = by[0]
        return _sentence(one, against, tests, _where(one))
    return _together(against, by)


def explanation(context: Context) -> list[str]:
    """Say how it came about, and what remains open."""
    experiment, results = context.experiment, context.results
    total = len(results.cells)
    sentences = [experiment.about.strip()] if experiment.about.strip() else []
    if experiment.scale == "cpu":
        sentences.append(
            f"{OTHER_SCALE}: the settings are made for two CPU cores, so the numbers "
            "say nothing about those of the paper."
            if not experiment.about
            else f"{OTHER_SCALE}."
        )
    sentences.append(
        f"All {count(total, 'run')} are finished: "
        if results.num_finished == total
        else f"{results.num_finished:,} of {count(total, 'planned run')} are finished: "
    )
    shape = [
        count(len(experiment.strategies), "strategy", "strategies"),
        count(len(experiment.seeds), "seed"),
    ]
    if len(experiment.conditions) > 1:
        shape.insert(1, count(len(experiment.conditions), "condition"))
    sentences[-1] += f"{listed(shape)}."
    return sentences


def warnings(context: Context) -> tuple[str, ...]:
    """Return what a reader must know before believing the numbers."""
    return (
        *_failures(context),
        *_unfinished(context),
        *_few_seeds(context),
        *_mixtures(context),
    )


def _sentence(
    one: ConditionContext, against: str, tests: Sequence[PairedTest], where: str
) -> str:
    pairs = count(len(one.comparable.seeds), "paired seed")
    better = [test for test in tests if test.t_holm < LEVEL and test.difference > 0]
    worse = [test for test in tests if test.t_holm < LEVEL and test.difference < 0]
    if not better and not worse:
        return (
            f"With {pairs}, no difference to {against} {where} is significant after "
            "Holm's correction."
        )
    parts = []
    if better:
        verb = "beats" if len(better) == 1 else "beat"
        parts.append(f"{_by(better)} {verb} {against}")
    if worse:
        verb = "falls" if len(worse) == 1 else "fall"
        parts.append(f"{_by(worse)} {verb} behind {against}")
    rest = len(tests) - len(better) - len(worse)
    end = f"; {count(rest, 'other difference is', 'other differences are')} not significant"
    return (
        f"{' and '.join(parts)} {where}, on {pairs} and after Holm's correction"
        f"{end if rest else ''}."
    )


def _together(
    against: str, by: Sequence[tuple[ConditionContext, tuple[PairedTest, ...]]]
) -> str:
    """Say it of several conditions."""
    found = []
    for one, tests in by:
        significant = [test for test in tests if test.t_holm < LEVEL]
        found.extend(
            f"{test.name} {'ahead of' if test.difference > 0 else 'behind'} {against} "
            f"by {points(test.difference)} ({one.heading})"
            for test in significant
        )
    pairs = sorted({len(one.comparable.seeds) for one, _ in by})
    seeds = count(pairs[0], "paired seed")
    if len(pairs) > 1:
        seeds = f"{pairs[0]} to {count(pairs[-1], 'paired seed')}"
    if not found:
        return (
            f"With {seeds}, no difference to {against} is significant after Holm's "
            f"correction under any of {count(len(by), 'condition')}."
        )
    return f"On {seeds} and after Holm's correction: {listed(found)}; nothing else."


def _by(tests: Sequence[PairedTest]) -> str:
    ranked = sorted(tests, key=lambda test: -abs(test.difference))
    return listed([f"{test.name} (by {points(test.difference)})" for test in ranked])


def _where(one: ConditionContext) -> str:
    return f"at {count(one.comparable.num_labels[-1], 'label')}"


def _untested(context: Context) -> str:
    """Say what was reached where nothing can be compared."""
    reached = []
    for one in context.conditions:
        last = {
            cell.strategy: cell.accuracies
            for cell in one.results.cells
            if cell.is_finished and cell.accuracies
        }
        reached.extend(
            (accuracies[max(accuracies)], name, max(accuracies))
            for name, accuracies in last.items()
        )
    known = [one for one in reached if one[0] == one[0]]
    if not known:
        return "Nothing was measured, so nothing can be compared."
    if len(context.contenders) == 1:
        accuracy, name, labels = max(known)
        return (
            f"{name} reaches {percent(accuracy)} at {count(labels, 'label')} in one run; "
            "there is nothing to compare it with."
        )
    if not context.references:
        return "Neither random nor npc is among the strategies, so none was tested."
    return (
        "No test is possible yet: it needs two seeds that every strategy has finished."
    )


def _failures(context: Context) -> Iterable[str]:
    failures = context.results.failures
    for failure in failures[:_MOST_FAILURES]:
        yield f"Failed: {failure.label}. {failure.error}"
    if len(failures) > _MOST_FAILURES:
        yield f"{len(failures) - _MOST_FAILURES:,} more runs failed."


def _unfinished(context: Context) -> Iterable[str]:
    cells = context.results.cells
    left = len(cells) - context.results.num_finished - len(context.results.failures)
    if left > 0:
        yield (
            f"{count(left, 'run is', 'runs are')} still to come. Means of strategies "
            "with different seeds compare badly until then; tests use only seeds that "
            "every strategy has finished."
        )


def _few_seeds(context: Context) -> Iterable[str]:
    pairs = min(len(one.comparable.seeds) for one in context.conditions)
    if 2 <= pairs < _ENOUGH_SEEDS:
        yield (
            f"{count(pairs, 'paired seed')} can show large differences only; at least "
            f"{_ENOUGH_SEEDS} should stand behind a claim."
        )


def _mixtures(context: Context) -> Iterable[str]:
    """Say so where runs were made in different places or on different data."""
    begun = [cell.description for cell in context.results.cells if cell.description]
    kinds = {
        "versions": {str(sorted(one.get("versions", {}).items())) for one in begun},
        "platforms": {str(one.get("platform", "")) for one in begun},
    }
    mixed = [name for name, values in kinds.items() if len(values) > 1]
    if mixed:
        yield (
            f"The runs were made with different {listed(mixed)} (see the last section)."
            " Results of one seed can differ between them, so that a part of the "
            "differences may come from there."
        )
    for one in context.conditions:
        hashes = {
            str(cell.description.get("data", {}).get("hash", ""))
            for cell in one.results.cells
            if cell.description
        }
        if len(hashes) > 1:
            where = f" under '{one.heading}'" if one.heading else ""
            yield (
                f"The runs{where} were made on {len(hashes)} different versions of the "
                "data, so they do not compare."
            )
