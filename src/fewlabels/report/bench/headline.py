"""What came out in a sentence, what is missing, and what to keep in mind."""

from collections.abc import Iterable, Sequence

from fewlabels.integers import count
from fewlabels.report.bench.comparisons import END, Comparison, compared
from fewlabels.report.bench.context import OTHER_SCALE, Context
from fewlabels.report.bench.savings import saving_sentences
from fewlabels.report.wording import listed, percent, points

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
    return (saving_sentences(context) or [_test_outcome(context)])[0]


def _test_outcome(context: Context) -> str:
    tests = _tests(context)
    return _outcome(context, tests) if tests else _untested(context)


def _outcome(context: Context, tests: Sequence[Comparison]) -> str:
    against = context.references[0]
    if not any(one.is_significant for one in tests):
        return (
            f"With {_pairs(tests)}, no difference from {against} {_where(tests)} is "
            "significant after Holm's correction."
        )
    if len(context.conditions) > 1:
        return _under_conditions(context, tests)
    better = [one for one in tests if one.is_significant and one.test.difference > 0]
    worse = [one for one in tests if one.is_significant and one.test.difference < 0]
    parts = []
    if better:
        verb = "beats" if len(better) == 1 else "beat"
        parts.append(f"{_by(better)} {verb} {against}")
    if worse:
        verb = "falls" if len(worse) == 1 else "fall"
        parts.append(f"{_by(worse)} {verb} behind {against}")
    return f"{_few(tests)}{' and '.join(parts)} {_where(tests)}."


def explanation(context: Context) -> list[str]:
    """Say how it came about, and what remains open."""
    experiment, results = context.experiment, context.results
    total = len(results.cells)
    sentences = saving_sentences(context)[1:]
    if sentences:
        sentences.append(_test_outcome(context))
    sentences += _basis(context)
    if experiment.about.strip():
        sentences.append(experiment.about.strip())
    elif experiment.scale == "cpu":
        sentences.append(
            f"{OTHER_SCALE}: the settings are meant for two CPU cores, so the numbers "
            "are not comparable with the paper's."
        )
    sentences.append(
        f"All {count(total, 'run')} are finished: "
        if results.num_finished == total
        else f"{results.num_finished:,} of {count(total, 'planned run')} are finished: "
    )
    seeds = " or ".join({str(len(one.results.seeds)): 0 for one in context.conditions})
    shape = [
        count(len(experiment.strategies), "strategy", "strategies"),
        f"{seeds} seeds" if len(experiment.seeds) > 1 else "1 seed",
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
        *_unchecked(context),
    )


def _tests(context: Context) -> tuple[Comparison, ...]:
    """Return the tests that the finding is about."""
    if not context.references:
        return ()
    return compared(context, context.references[0], END)


def _basis(context: Context) -> list[str]:
    """Say what the finding rests on, where it is one about tests."""
    tests = _tests(context)
    rest = sum(not one.is_significant for one in tests)
    if rest == len(tests):
        return []
    others = count(rest, "other difference is", "other differences are")
    end = f"; {others} not significant." if rest else "."
    return [
        f"This is based on {_pairs(tests)}, by t-tests at 5 % after Holm's "
        f"correction{end}"
    ]


def _under_conditions(context: Context, tests: Sequence[Comparison]) -> str:
    """Say of each strategy under how many conditions it is better or worse."""
    total, against = len(context.conditions), context.references[0]
    parts = []
    for who in context.contenders:
        for sign, verb in ((1, "beats"), (-1, "falls behind")):
            differences = [
                abs(one.test.difference)
                for one in tests
                if one.test.name == who.label
                and one.is_significant
                and sign * one.test.difference > 0
            ]
            if differences:
                least, most = 100 * min(differences), 100 * max(differences)
                by = (
                    f"{least:.1f} to {most:.1f}"
                    if len(differences) > 1
                    else f"{most:.1f}"
                )
                parts.append(
                    f"{who.label} {verb} {against} under {len(differences)} of "
                    f"{total} conditions (by {by} points)"
                )
    return f"{_few(tests)}{listed(parts)}."


def _by(tests: Sequence[Comparison]) -> str:
    """Return names with their differences, the largest one first with its unit."""
    ranked = sorted((one.test for one in tests), key=lambda one: -abs(one.difference))
    first = f"{ranked[0].name} (by {points(ranked[0].difference)})"
    rest = [f"{one.name} ({100 * abs(one.difference):.1f})" for one in ranked[1:]]
    return listed([first, *rest])


def _pairs(tests: Sequence[Comparison]) -> str:
    amounts = sorted({one.test.num_pairs for one in tests})
    last = count(amounts[-1], "paired seed")
    return last if len(amounts) == 1 else f"{amounts[0]} to {last}"


def _few(tests: Sequence[Comparison]) -> str:
    """Begin with the number of seeds where it is too small for a claim."""
    is_few = min(one.test.num_pairs for one in tests) < _ENOUGH_SEEDS
    return f"On {_pairs(tests)}, " if is_few else ""


def _where(tests: Sequence[Comparison]) -> str:
    places = {one.measure_text for one in tests}
    return places.pop() if len(places) == 1 else "at the end of any run"


def _untested(context: Context) -> str:
    """Say what was reached where nothing can be compared."""
    reached: list[tuple[float, str, int]] = []
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
            f"{name} reaches {percent(accuracy)} at {count(labels, 'label')} in one "
            "run; there is nothing to compare it with."
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
            f"{count(left, 'run is', 'runs are')} still missing. Until they finish, "
            "means over different seeds are hard to compare; tests use only seeds that "
            "every strategy has finished."
        )


def _few_seeds(context: Context) -> Iterable[str]:
    pairs = min(len(one.comparable.seeds) for one in context.conditions)
    if 2 <= pairs < _ENOUGH_SEEDS:
        yield (
            f"{count(pairs, 'paired seed')} can show only large differences; a claim "
            f"should be based on at least {_ENOUGH_SEEDS}."
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
            f"The runs were made with different {listed(mixed)} (see "
            "'Settings and versions'). Results of one seed can differ between them, "
            "which may explain part of the differences."
        )
    for one in context.conditions:
        by_seed: dict[int, set[str]] = {}
        for cell in one.results.cells:
            if cell.description:
                seed = cell.seed if one.results.condition.own_pools else 0
                name = str(cell.description.get("data", {}).get("hash", ""))
                by_seed.setdefault(seed, set()).add(name)
        versions = max(map(len, by_seed.values()), default=0)
        if versions > 1:
            where = f" under '{one.heading}'" if one.heading else ""
            yield (
                f"The runs{where} were made on {versions} different versions of the "
                "data, so they are not comparable."
            )


def _unchecked(context: Context) -> list[str]:
    number = sum(not cell.is_checked for cell in context.results.cells)
    if not number:
        return []
    return [
        f"{count(number, 'run was', 'runs were')} written by a version without "
        "checksums: damage to their files would go undetected."
    ]
