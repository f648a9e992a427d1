"""How many random labels reach the same accuracy."""

from fewlabels.evaluation import Saving, labels_saved
from fewlabels.integers import count
from fewlabels.report.bench.context import ConditionContext, Context, label_of
from fewlabels.report.bench.sections import Block, Section
from fewlabels.report.bench.tables import Column, Entry, Table

_FIELDS = ("num_labels", "accuracy", "needed_by_random", "low", "high", "reached")


def savings_section(context: Context) -> Section | None:
    """Return the section about labels saved; None where random has no curve."""
    random = label_of(context.experiment, "random")
    found = [one for one in context.conditions if one.comparable.has_curve]
    if random is None or len(context.contenders) < 2 or not found:
        return None
    return Section(
        anchor="savings",
        title="Labels saved",
        notes=(
            "How many random labels reach the mean accuracy of a strategy, read off "
            "random's mean curve, which is made monotone and interpolated over the "
            "logarithm of the labels. In parentheses the 95 % interval, by a bootstrap "
            "over the seeds, the same for both. Where random's curve begins above the "
            "accuracy or ends below it, only a bound is known.",
        ),
        blocks=tuple(
            Block(heading=one.heading, tables=(_table(context, one, random).turned,))
            for one in found
        ),
    )


def savings_of(one: ConditionContext, label: str) -> tuple[Saving, ...]:
    """Return what labels of a strategy were worth, past the start; none if unknown."""
    random = label_of(one.experiment, "random")
    found, accuracies = one.comparable, one.comparable.accuracies
    if random is None or label not in accuracies or not found.has_curve:
        return ()
    return labels_saved(found.num_labels, accuracies[label], accuracies[random])[1:]


def saving_sentences(context: Context) -> list[str]:
    """Say what labels of the experiment's subject were worth, and how it is known."""
    label = label_of(context.experiment, context.experiment.subject)
    for one in context.conditions:
        savings = savings_of(one, label) if label else ()
        if savings:
            # Further on random's curve ends below an end of the interval.
            last = max(savings, key=_certainty)
            learner = one.results.condition.settings.trainer.name
            interval = f" (95 % interval {last.interval})" if last.interval else ""
            return [
                f"{last.num_labels} labels chosen by {label} were worth {last.amount} "
                f"random ones{interval}.",
                f"This is with the learner {learner} and "
                f"{count(len(one.comparable.seeds), 'paired seed')}.",
            ]
    return []


def _certainty(saving: Saving) -> tuple[bool, bool, int]:
    is_known = saving.needed_by_random is not None
    return is_known and saving.high is not None, is_known, saving.num_labels


def _table(context: Context, one: ConditionContext, random: str) -> Table:
    numbers = one.comparable.num_labels
    found = {
        who.label: savings_of(one, who.label)
        for who in context.contenders
        if who.label != random
    }
    return Table(
        name=one.file_name("savings"),
        caption=one.caption("Random labels of the same mean accuracy."),
        columns=(
            Column("Strategy", is_text=True),
            *(Column(f"{amount:,}", "Labels") for amount in numbers[1:]),
        ),
        rows=tuple(
            (Entry(one.short_names[name]), *(Entry(saving.worth) for saving in savings))
            for name, savings in found.items()
        ),
        fields=("condition", "strategy", *_FIELDS),
        records=tuple(
            (
                one.results.condition.name,
                name,
                *(getattr(saving, field) for field in _FIELDS),
            )
            for name, savings in found.items()
            for saving in savings
        ),
    )
