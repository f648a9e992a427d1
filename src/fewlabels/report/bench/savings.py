"""Labels saved against random at equal accuracy."""

from dataclasses import astuple

from fewlabels.evaluation import Saving, labels_saved
from fewlabels.report.bench.context import ConditionContext, Context, label_of
from fewlabels.report.bench.sections import Block, Section
from fewlabels.report.bench.tables import Column, Entry, Table
from fewlabels.report.bench.wording import signed


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
            "How many more labels random needs for the mean accuracy that a strategy "
            "reached, read off random's curve by linear interpolation; the curve is "
            "its best so far, so that a dip does not count against it. A minus means "
            "that random needs fewer. If random's curve ends before it reaches the "
            "accuracy, or begins above it, only a bound is known.",
        ),
        blocks=tuple(
            Block(heading=one.heading, tables=(_table(context, one, random),))
            for one in found
        ),
    )


def _table(context: Context, one: ConditionContext, random: str) -> Table:
    numbers = one.comparable.num_labels
    means = {
        name: array.mean(axis=0) for name, array in one.comparable.accuracies.items()
    }
    found = {
        who.label: labels_saved(numbers, means[who.label], means[random])
        for who in context.contenders
        if who.label != random
    }
    return Table(
        name=one.file_name("savings"),
        caption=one.caption("Labels saved versus random at equal mean accuracy."),
        columns=(
            Column("Strategy", is_text=True),
            *(Column(f"{amount:,} labels") for amount in numbers[1:]),
        ),
        rows=tuple(
            (
                Entry(name),
                *(Entry(saving_text(saving, numbers)) for saving in savings[1:]),
            )
            for name, savings in found.items()
        ),
        fields=(
            "condition", "strategy", "labels", "accuracy", "needed_by_random", "saved",
            "reached",
        ),
        records=tuple(
            (one.results.condition.name, name, *astuple(saving))
            for name, savings in found.items()
            for saving in savings
        ),
    )  # fmt: skip


def saving_text(saving: Saving, num_labels: tuple[int, ...]) -> str:
    """Return the labels saved, or the bound that is known, such as "> 20"."""
    if saving.saved is not None:
        return signed(saving.saved, 1)
    if saving.reached == "never":
        return f"> {num_labels[-1] - saving.num_labels:,}"
    return f"< {signed(num_labels[0] - saving.num_labels, 0)}"
