"""How many random labels reach the same accuracy."""

from fewlabels.evaluation import labels_saved
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
            Block(heading=one.heading, tables=(_table(context, one, random),))
            for one in found
        ),
    )


def _table(context: Context, one: ConditionContext, random: str) -> Table:
    numbers = one.comparable.num_labels
    accuracies = one.comparable.accuracies
    found = {
        who.label: labels_saved(numbers, accuracies[who.label], accuracies[random])
        for who in context.contenders
        if who.label != random
    }
    return Table(
        name=one.file_name("savings"),
        caption=one.caption("Random labels of the same mean accuracy."),
        columns=(
            Column("Strategy", is_text=True),
            *(Column(f"{amount:,} labels") for amount in numbers[1:]),
        ),
        rows=tuple(
            (Entry(name), *(Entry(saving.worth) for saving in savings[1:]))
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
