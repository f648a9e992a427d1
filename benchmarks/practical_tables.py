"""Tables, sentences and the picture of the study of practical budgets.

Strategies are compared pool by pool. Only pools on which all compared strategies have
run count, and a strategy with fewer than half as many pools as another is left out.
:mod:`benchmarks.study_report` writes the results into the pages.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, combinations
from pathlib import Path

import numpy as np
from benchmarks import heads
from benchmarks.practical import LEARNERS, NUM_SCREENING, RECORD, SOURCES, STRATEGIES
from benchmarks.study import recorded
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray
from scipy.stats import t

from fewlabels.experiments.evaluation import Saving, area_under_curve, labels_saved
from fewlabels.names import DEFAULT_STRATEGY

LABELS = (20, 40, 80, 120, 160, 240, 320)
"""Numbers of labels over which the plan averages accuracy."""
ALL_LABELS = (*LABELS, 480, 640)
NUM_CONFIRMED = 4
"""Strategies that the plan confirms, beside random."""
SAVED_AT = (40, 80, 120, 160, 240, 320)
IN_FOCUS = 120
"""Labels of which the plan's question asks what they are worth."""

PROGRAM_NAMES = {"npc": "npc, as printed", "v-opt, joint": "variance-reduction"}
"""Names of recorded strategies on the pages, where they differ from the record's."""
TITLES = {
    "cifar10": "CIFAR-10",
    "20 groups": "20 groups",
    "cifar10, uneven": "CIFAR-10, uneven",
    "20 groups, uneven": "20 groups, uneven",
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "digits": "digits",
}
AIMS = {
    "cifar10": (79, 82),
    "20 groups": (62, 66),
    "cifar10, uneven": None,
    "20 groups, uneven": None,
}
"""Accuracies that 120 and 320 labels were to reach, where there was such an aim."""
AIM_WORTH, AIM_LOW = 240, 200
"""Random labels that 120 were to be worth, and the lower end of the interval."""

LEAST_POOLS = 4
"""Pools that a data set needs to count in a ranking."""

NOTHING = "(Nothing recorded yet.)\n"
DATA = [source.name for source in SOURCES]
Scores = dict[int, NDArray[np.float64]]
"""Accuracies in percent, one per pool, by number of labels."""


@dataclass(frozen=True)
class Comparison:
    """Runs of several strategies on the same pools of one data set."""

    num_pools: int
    scores: dict[str, Scores]
    """By strategy, in the order of the plan."""
    seconds: dict[str, float]
    """Median of a query, by strategy."""
    left_out: dict[str, int]
    """Strategies with too few pools, and how many they have."""

    def area(self, name: str) -> NDArray[np.float64]:
        """Return the area under the curve from 20 to 320 labels on each pool."""
        curves = np.stack([self.scores[name][number] for number in LABELS], axis=1)
        return area_under_curve(LABELS, curves)

    def mean_over_random(self, name: str) -> NDArray[np.float64]:
        """Return points over random from 20 to 320 labels on each pool."""
        return self.mean_accuracy(name) - self.mean_accuracy("random")

    def over_random(self, name: str, num_labels: int) -> NDArray[np.float64]:
        """Return points over random on each pool."""
        return self.scores[name][num_labels] - self.scores["random"][num_labels]

    def mean_accuracy(self, name: str) -> NDArray[np.float64]:
        """Return the mean accuracy from 20 to 320 labels on each pool."""
        return np.mean([self.scores[name][number] for number in LABELS], axis=0)

    def ranked(self) -> list[str]:
        """Return the strategies, best mean accuracy first."""
        return sorted(self.scores, key=lambda name: -self.mean_accuracy(name).mean())


def shown(name: str) -> str:
    """Return how pages call a recorded strategy."""
    return PROGRAM_NAMES.get(name, name)


def default() -> str:
    """Return the name in the record of the program's default strategy."""
    for name in STRATEGIES:
        if DEFAULT_STRATEGY in (name, shown(name)):
            return name
    raise LookupError(f"{DEFAULT_STRATEGY} is not in the study")


@cache
def compared(
    stage: str,
    data: str,
    learner: str = LEARNERS[0],
    only: str | None = None,
) -> Comparison | None:
    """Return what can be compared on a data set; None if there is nothing.

    Args:
        stage: ``"screen"`` or ``"confirm"``.
        data: Name of the data set.
        learner: Name of the learner.
        only: Compare this strategy with random labels, on all pools that both have;
            by default all strategies that have enough pools.
    """
    runs = defaultdict[str, dict[int, dict]](dict)
    for line in recorded(RECORD):
        if (line["stage"], line["data"], line["learner"]) == (stage, data, learner):
            runs[line["strategy"]][line["pool"]] = line
    least = max(map(len, runs.values()), default=0) / 2
    names = [name for name in STRATEGIES if len(runs[name]) >= least > 0]
    if only:
        names = [name for name in STRATEGIES if name in ("random", only)]
    pools = sorted(set(runs["random"]).intersection(*(runs[name] for name in names)))
    if "random" not in names or not pools:
        return None
    scores, seconds = {}, {}
    for name in names:
        own = [runs[name][pool] for pool in pools]
        curves = [
            dict(zip(line["labels"], line["accuracy"], strict=True)) for line in own
        ]
        scores[name] = {
            number: 100 * np.array([curve[number] for curve in curves])
            for number in ALL_LABELS
            if all(number in curve for curve in curves)
        }
        queries = chain(*(line["seconds"][:-1] for line in own))
        seconds[name] = float(np.median(list(queries)))
    left_out = {
        name: len(runs[name]) for name in runs if name not in names and runs[name]
    }
    return Comparison(len(pools), scores, seconds, left_out)


def half_width(values: NDArray[np.float64]) -> float:
    """Return half the width of the 95 % interval of a mean; nan of a single value."""
    if len(values) < 2:
        return float("nan")
    error = values.std(ddof=1) / len(values) ** 0.5
    return float(t.ppf(0.975, len(values) - 1) * error)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (header, *rows)]
    lines.insert(1, "|---" * len(header) + "|")
    return "\n".join([*lines, *(["", f"({note})"] if note else []), ""])


# ---------------------------------------------------------------------- accuracies


def accuracies(stage: str, learner: str = LEARNERS[0]) -> str:
    """Return mean accuracies and points over random on each data set in Markdown."""
    texts = []
    for data in DATA:
        comparison = compared(stage, data, learner)
        if comparison is None:
            continue
        numbers = [n for n in ALL_LABELS if n in comparison.scores["random"]]
        rows = [
            [shown(name), *(_accuracy(comparison, name, n, stage) for n in numbers)]
            for name in comparison.ranked()
        ]
        note = f"{_pools(comparison.num_pools)}{_left_out(comparison)}."
        title = TITLES[data]
        if learner != LEARNERS[0]:
            title += f", `{learner}`"
        header = [title, *map(str, numbers)]
        texts.append(_table(header, rows, note))
    return "\n".join(texts) or NOTHING


def _accuracy(comparison: Comparison, name: str, number: int, stage: str) -> str:
    if number not in comparison.scores[name]:
        return ""
    accuracy = f"{comparison.scores[name][number].mean():.1f}"
    if name == "random":
        return accuracy
    points = comparison.over_random(name, number)
    width = f" ± {half_width(points):.1f}" if stage == "confirm" else ""
    return f"{accuracy} ({points.mean():+.1f}{width})"


def _pools(number: int) -> str:
    return f"{number} pool{'s' * (number > 1)}"


def _left_out(comparison: Comparison) -> str:
    names = [f"{shown(n)} ({_pools(k)})" for n, k in comparison.left_out.items()]
    return f"; left out: {', '.join(names)}" if names else ""


# ------------------------------------------------------------------------- ranking


@dataclass(frozen=True)
class Ranking:
    """Strategies by the rule of the plan."""

    comparisons: dict[str, Comparison]
    """All data sets with runs of the stage."""
    data: list[str]
    """Data sets that count: all ranked strategies have run on each."""
    names: list[str]
    """Ranked strategies, best first."""

    def points(self, name: str) -> float:
        """Return points over random, from 20 to 320 labels, mean over data sets."""
        return self.difference(name, "random")[0]

    def difference(self, name: str, other: str) -> tuple[float, float]:
        """Return the mean difference of two strategies and half its 95 % interval.

        Pools of different data sets are independent, and there may be more of some
        than of others: errors add up as in Welch's test.
        """
        used = [self.comparisons[data] for data in self.data]
        gaps = [own.mean_accuracy(name) - own.mean_accuracy(other) for own in used]
        middle = float(np.mean([gap.mean() for gap in gaps]))
        if name == other or any(len(gap) < 2 for gap in gaps):
            return middle, float("nan")
        errors = np.array([gap.var(ddof=1) / len(gap) for gap in gaps])
        if not errors.sum():
            return middle, 0.0
        freedom = errors.sum() ** 2 / sum(
            error**2 / (len(gap) - 1) for error, gap in zip(errors, gaps, strict=True)
        )
        return middle, float(t.ppf(0.975, freedom) * errors.sum() ** 0.5 / len(gaps))


def ranking_of(stage: str) -> Ranking | None:
    """Return the ranking of a stage over the largest block of runs without a gap."""
    comparisons = {
        data: comparison
        for data in DATA
        if (comparison := compared(stage, data)) and comparison.num_pools >= LEAST_POOLS
    }
    if not comparisons:
        return None

    def shared(block: Iterable[str]) -> list[str]:
        scores = [comparisons[data].scores for data in block]
        return [name for name in STRATEGIES if all(name in own for own in scores)]

    sizes = range(1, len(comparisons) + 1)
    blocks = chain(*(combinations(comparisons, size) for size in sizes))
    block = max(blocks, key=lambda block: len(block) * (len(shared(block)) - 1))
    result = Ranking(comparisons, list(block), shared(block))
    return replace(result, names=sorted(result.names, key=result.points, reverse=True))


def ranking(stage: str) -> str:
    """Return strategies by points over random from 20 to 320 labels in Markdown."""
    result = ranking_of(stage)
    if result is None:
        return NOTHING
    comparisons = result.comparisons
    tried = dict.fromkeys(chain(*(own.scores for own in comparisons.values())))
    rows = []
    for name in [*result.names, *(name for name in tried if name not in result.names)]:
        is_ranked = name in result.names
        row = [shown(name), f"{result.points(name):+.2f}" if is_ranked else ""]
        for own in comparisons.values():
            has_run = name in own.scores
            row.append(f"{own.mean_over_random(name).mean():+.1f}" if has_run else "")
        if stage == "confirm":
            middle, half = (
                result.difference(name, result.names[0]) if is_ranked else (0, 0)
            )
            row.append(f"{middle:+.2f} ± {half:.2f}" if middle else "")
        seconds = [
            own.seconds[name] for own in comparisons.values() if name in own.seconds
        ]
        areas = [
            (own.area(name) - own.area("random")).mean()
            for data, own in comparisons.items()
            if data in result.data and is_ranked
        ]
        row.append(f"{np.mean(areas):+.2f}" if areas else "")
        rows.append([*row, f"{np.median(seconds):.2f}"])
    header = ["strategy", "mean", *(TITLES[data] for data in comparisons)]
    header += ["against the first"] * (stage == "confirm")
    header += ["by area", "seconds of a query"]
    pools = ", ".join(
        f"{own.num_pools} of {TITLES[data]}" for data, own in comparisons.items()
    )
    note = f"Pools: {pools}."
    if uncounted := [TITLES[data] for data in comparisons if data not in result.data]:
        names = " and ".join(uncounted)
        note += f" The mean leaves out {names}, where strategies are missing."
    return _table(header, rows, note)


# -------------------------------------------------------------------- labels saved


def stage_of(data: str, name: str) -> str | None:
    """Return the stage to judge a strategy by: the confirmation, once it is there."""
    for stage, least in (("confirm", NUM_SCREENING), ("screen", 2)):
        comparison = compared(stage, data, only=name)
        if comparison and comparison.num_pools >= least:
            return stage
    return None


@cache
def savings(stage: str, data: str, name: str) -> dict[int, Saving]:
    """Return what labels of a strategy are worth, by their number."""
    comparison = compared(stage, data, only=name)
    assert comparison is not None
    own, random = comparison.scores[name], comparison.scores["random"]
    results = labels_saved(
        SAVED_AT,
        np.stack([own[number] for number in SAVED_AT], axis=1),
        np.stack(list(random.values()), axis=1),
        random_labels=list(random),
    )
    return {saving.num_labels: saving for saving in results}


def saved_by_default() -> str:
    """Return how many random labels those of the default are worth in Markdown."""
    rows = []
    for data, judgment in judgments().items():
        worth = savings(judgment.stage, data, default())
        title = f"{TITLES[data]} ({judgment.pools})"
        rows.append([title, *(worth[number].worth for number in SAVED_AT)])
    return _table(["data", *map(str, SAVED_AT)], rows) if rows else NOTHING


def saved() -> str:
    """Return how many random labels those of confirmed strategies are worth."""
    rows = []
    for data in DATA:
        comparison = compared("confirm", data)
        for name in comparison.ranked() if comparison else ():
            own = compared("confirm", data, only=name)
            if name != "random" and own and own.num_pools > 1:
                worth = savings("confirm", data, name)
                cells = (worth[number].worth for number in SAVED_AT)
                rows.append([TITLES[data], shown(name), str(own.num_pools), *cells])
    header = ["data", "strategy", "pools", *map(str, SAVED_AT)]
    return _table(header, rows) if rows else NOTHING


@dataclass(frozen=True)
class Judgment:
    """By what the default strategy is judged on a data set."""

    stage: str
    comparison: Comparison
    worth: Saving
    """Of its first 120 labels."""

    @property
    def pools(self) -> str:
        """How many pools of which kind."""
        return _pools_of(self.stage, self.comparison)

    def accuracy(self, name: str, num_labels: int) -> float:
        """Return a mean accuracy."""
        return float(self.comparison.scores[name][num_labels].mean())


def _pools_of(stage: str, comparison: Comparison) -> str:
    kind = "fresh" if stage == "confirm" else "screening"
    return f"{comparison.num_pools} {kind} pools"


def _joined(pools: Sequence[str]) -> str:
    """Return such as "37 and 50 fresh pools"."""
    different = list(dict.fromkeys(pools))
    words = [text.partition(" ") for text in different]
    if len({kind for _, _, kind in words}) == 1:
        return f"{' and '.join(number for number, *_ in words)} {words[0][2]}"
    return " and ".join(different)


def judgments() -> dict[str, Judgment]:
    """Return by what the default is judged, by data set."""
    results = {}
    for data in DATA:
        stage = stage_of(data, default())
        comparison = stage and compared(stage, data, only=default())
        if stage and comparison:
            worth = savings(stage, data, default())[IN_FOCUS]
            results[data] = Judgment(stage, comparison, worth)
    return results


def aims() -> str:
    """Return what was aimed at with the default strategy and reached, in Markdown."""
    rows = []
    for data, judgment in judgments().items():
        if data not in AIMS:
            continue
        worth = judgment.worth
        is_worth_it = (
            worth.reached == "never" or (worth.needed_by_random or 0) >= AIM_WORTH
        )
        reached = [is_worth_it and (worth.low or 0) > AIM_LOW]
        row = [TITLES[data], worth.worth]
        for number, aim in zip((120, 320), AIMS[data] or (None, None), strict=True):
            accuracy = judgment.accuracy(default(), number)
            row.append(f"{accuracy:.1f}" + (f" (aim: {aim})" if aim else ""))
            reached += [accuracy >= aim] if aim else []
        rows.append(
            [*row, "yes" if all(reached) else "in part" if any(reached) else "no"]
        )
    header = [
        "data",
        f"worth of {IN_FOCUS} labels",
        "accuracy at 120",
        "at 320",
        "reached",
    ]
    return _table(header, rows) if rows else NOTHING


# ----------------------------------------------------------------------- sentences


def coverage() -> str:
    """Return how much of the plan was run on each data set in Markdown."""
    rows = []
    for source in SOURCES:
        row = [TITLES[source.name]]
        for stage, num_names, num_pools in (
            ("screen", len(STRATEGIES), NUM_SCREENING),
            ("confirm", 1 + NUM_CONFIRMED, source.num_confirming),
        ):
            own = compared(stage, source.name)
            row.append(f"{len(own.scores) if own else 0} ({num_names})")
            row.append(f"{own.num_pools if own else 0} ({num_pools})")
        rows.append(row)
    header = ["data", "screening: strategies", "pools", "confirmation: strategies"]
    tried = {line["strategy"] for line in recorded(RECORD)}
    missing = [f"`{name}`" for name in STRATEGIES if name not in tried]
    note = f" Never run: {', '.join(missing)}." if missing else ""
    return _table([*header, "pools"], rows, f"In parentheses: planned.{note}")


def worth() -> str:
    """Return what the default's labels are worth on even photographs, in a sentence."""
    results = [judgments().get(data) for data in DATA[:2]]
    if None in results:
        return NOTHING
    numbers = [result.worth.worth for result in results if result]
    pools = _joined([result.pools for result in results if result])
    return (
        f"**With the default strategy, `{DEFAULT_STRATEGY}`, {IN_FOCUS} labels are "
        f"worth as much as {numbers[0]} random ones on CIFAR-10, and {numbers[1]} on "
        f"CIFAR-100 in 20 groups** (95 % intervals over {pools}; the same learner for "
        "all, over features of EfficientNet-Lite0).\n"
    )


def picture_note() -> str:
    """Return how many pools are behind each curve of the picture, in a sentence."""
    curves = defaultdict[str, list[str]](list)
    for name in reversed(_drawn()):
        pools = []
        for data in DATA[:2]:
            judged = default() if name == "random" else name
            stage = stage_of(data, judged)
            comparison = stage and compared(stage, data, only=judged)
            if stage and comparison:
                pools.append(_pools_of(stage, comparison))
        curves[_joined(pools)].append(f"`{shown(name)}`")
    told = "; ".join(f"{', '.join(names)}: {pools}" for pools, names in curves.items())
    text = f"Bands are 95 % intervals of the mean over pools ({told})."
    if len(curves) > 1:
        text += (
            " Of a strategy that was screened only, its difference from random labels "
            "there is added to the curve of random labels."
        )
    return f"{text}\n"


def in_short() -> str:
    """Return the answer of the study in five sentences."""
    results, confirmed, screened = (
        judgments(),
        ranking_of("confirm"),
        ranking_of("screen"),
    )
    if not set(DATA[:2]) <= set(results) or screened is None:
        return NOTHING

    def at(number: int) -> str:
        return " and ".join(
            f"{results[data].accuracy(default(), number):.1f} % instead of "
            f"{results[data].accuracy('random', number):.1f} % on {TITLES[data]}"
            for data in DATA[:2]
        )

    sentences = [
        worth().strip(),
        f"With {IN_FOCUS} labels, accuracy is {at(IN_FOCUS)}; with 320, {at(320)}.",
    ]
    others = [
        f"{result.worth.worth} on {TITLES[data]}"
        for data, result in results.items()
        if data not in DATA[:2]
    ]
    if others:
        sentences.append(
            f"Elsewhere, its {IN_FOCUS} labels are worth this many random ones: "
            f"{'; '.join(others)}."
        )
    judged = screened
    if confirmed and len(confirmed.names) > 2 and set(DATA[:2]) <= set(confirmed.data):
        judged = confirmed
    first, second = [name for name in judged.names if name != "random"][:2]
    middle, half = judged.difference(first, second)
    lead = f"{middle:.1f} ± {half:.1f} points ahead of"
    if middle <= half:
        lead = "not distinguishable from"
    kind = "fresh" if judged is confirmed else "screening"
    sentences.append(
        f"Of {len(screened.names)} strategies, `{shown(first)}` is first on the {kind} "
        f"pools: {judged.points(first):.1f} points above random labels in the mean "
        f"from 20 to 320 labels, {lead} `{shown(second)}`."
    )
    for judged in (confirmed, screened):
        if judged and "npc" in judged.names:
            middle, half = judged.difference("npc", "random")
            points = round(middle, 1) + 0.0  # not -0.0
            sentences.append(
                "NPC as its paper prints it differs from random labels by "
                f"{points:.1f} ± {half:.1f} points, by the same measure."
            )
            break
    return "\n".join(f"{n}. {text}" for n, text in enumerate(sentences, 1)) + "\n"


# ------------------------------------------------------------------------ learners


@cache
def _learners() -> dict[str, dict[str, NDArray[np.float64]]]:
    """Return measures by data set and measure, of learners and numbers of labels.

    Arrays have the shape (pools, learners, numbers of labels).
    """
    lines = defaultdict[str, list](list)
    for line in recorded(heads.RECORD):
        lines[line["data"]].append(line)
    return {
        data: {
            measure: np.array(
                [
                    [[one[measure] for one in line[head]] for head in heads.HEADS]
                    for line in lines[data]
                ]
            )
            for measure in ("accuracy", "log_loss", "calibration_error")
        }
        for data in DATA
        if data in lines
    }


def learners() -> str:
    """Return accuracies of learners on random labels in Markdown."""
    rows = []
    for data, measures in _learners().items():
        means = 100 * measures["accuracy"].mean(axis=0)
        title = f"{TITLES[data]} ({len(measures['accuracy'])} pools)"
        for head, row in zip(heads.HEADS, means, strict=True):
            rows.append([title, head, *(f"{value:.1f}" for value in row)])
        gains = means[-1] - means[:-1].max(axis=0)
        rows.append(["", "*blend − better*", *(f"*{gain:+.1f}*" for gain in gains)])
    header = ["data", "learner", *map(str, heads.LABELS)]
    return _table(header, rows) if rows else NOTHING


def calibration() -> str:
    """Return log losses and calibration errors of learners in Markdown."""
    rows = []
    for data, measures in _learners().items():
        losses = measures["log_loss"].mean(axis=0)
        errors = 100 * measures["calibration_error"].mean(axis=0)
        for number, head in enumerate(heads.HEADS):
            pairs = zip(losses[number], errors[number], strict=True)
            cells = (f"{loss:.2f} / {error:.1f}" for loss, error in pairs)
            rows.append([TITLES[data], head, *cells])
    header = ["data", "learner", *map(str, heads.LABELS)]
    return _table(header, rows) if rows else NOTHING


def blend_in_short() -> str:
    """Return how the default learner compares with its parts, in sentences."""
    gains, over_spreading = {}, {}
    for data, measures in _learners().items():
        means = 100 * measures["accuracy"].mean(axis=0)
        for place, number in enumerate(heads.LABELS):
            spreading, linear, blend = means[:, place]
            gains[data, number] = blend - max(spreading, linear)
            over_spreading[data, number] = blend - spreading
    if not gains:
        return NOTHING
    (data, number), worst = min(gains.items(), key=lambda item: item[1])
    text = (
        "With random labels, `blend` differs from the better of `spreading` and "
        f"`linear` by {np.mean(list(gains.values())):+.1f} points in the mean over "
        f"data sets and numbers of labels, by {worst:+.1f} at worst ({TITLES[data]}, "
        f"{number} labels)."
    )
    if lead := over_spreading.get((DATA[0], 320)):
        text += f" With 320 labels of CIFAR-10 it is {lead:+.1f} from `spreading`."
    return f"{text}\n"


# ------------------------------------------------------------- parts and picture


def parts() -> dict[str, Callable[[], str]]:
    """Return what makes each part of the pages, by the name in its mark."""
    return {
        "practical worth": worth,
        "practical in short": in_short,
        "practical picture": picture_note,
        "practical coverage": coverage,
        "practical aims": aims,
        "practical saved": saved_by_default,
        "practical saved by all": saved,
        "practical confirmation": lambda: ranking("confirm"),
        "practical screening": lambda: ranking("screen"),
        "practical accuracy confirmed": lambda: accuracies("confirm"),
        "practical accuracy screened": lambda: accuracies("screen"),
        "practical with spreading": lambda: accuracies("screen", "spreading"),
        "practical with linear": lambda: accuracies("screen", "linear"),
        "blend in short": blend_in_short,
        "blend accuracy": learners,
        "blend calibration": calibration,
    }


_STYLES = {
    "random": ("#4d4d4d", 1.8),
    "npc": ("#d9822b", 1.8),
    "typiclust": ("#5aa17f", 1.0),
}
_DEFAULT_STYLE = ("#1f5fbf", 2.6)


def picture(path: Path) -> None:
    """Draw accuracy against labels on even photographs."""
    figure = Figure(figsize=(8.6, 4.1), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, data in zip(panels, DATA[:2], strict=True):
        _draw_curves(axes, data)
        _draw_worth(axes, data)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(
        handles[::-1],
        names[::-1],
        loc="outside upper left",
        ncols=len(names),
        fontsize=9,
        frameon=False,
        handlelength=1.4,
    )
    figure.savefig(path, dpi=150, metadata={"Software": None})


def _drawn() -> list[str]:
    """Return the strategies in the picture, that on top last."""
    others = [name for name in ("typiclust", "npc", "random") if name != default()]
    return [*others, default()]


def _drawn_scores(data: str, name: str) -> Scores:
    """Return accuracies whose means and intervals are drawn; none where nothing is.

    Of a strategy that was screened only, these are its paired differences from random
    labels, upon the curve of random labels that is drawn.
    """
    stage, judged = stage_of(data, name), stage_of(data, default())
    own = compared(stage, data, only=name) if stage else None
    base = compared(judged, data, only=default()) if judged else None
    if own is None or base is None:
        return {}
    random = base.scores["random"]
    if name == "random":
        return random
    if stage == judged:
        return own.scores[name]
    return {
        number: own.over_random(name, number) + random[number].mean()
        for number in own.scores[name]
        if number in random
    }


def _draw_curves(axes: Axes, data: str) -> None:
    for name in _drawn():
        scores = _drawn_scores(data, name)
        means = np.array([values.mean() for values in scores.values()])
        halves = np.array([half_width(values) for values in scores.values()])
        color, width = _DEFAULT_STYLE if name == default() else _STYLES[name]
        label = f"{shown(name)}, the default" if name == default() else shown(name)
        axes.plot(list(scores), means, color=color, lw=width, label=label)
        band = (means - halves, means + halves)
        axes.fill_between(list(scores), *band, color=color, alpha=0.15, lw=0)
    title = "CIFAR-100 in 20 groups" if data == "20 groups" else TITLES[data]
    axes.set_title(title, fontsize=10, loc="left", weight="bold")
    axes.set_xscale("log")
    axes.set_xlim(19, 680)
    axes.xaxis.set_major_locator(FixedLocator([20, 40, 80, 160, 320, 640]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.tick_params(labelsize=9, color="#999999")
    axes.set_xlabel("labels", fontsize=9)
    axes.set_ylabel("accuracy, percent", fontsize=9)
    axes.grid(axis="y", color="#ececec")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_worth(axes: Axes, data: str) -> None:
    """Show how many random labels those of the default are worth."""
    judgment = judgments().get(data)
    if judgment is None or judgment.worth.reached == "from the start":
        return
    accuracy, needed = judgment.worth.accuracy, judgment.worth.needed_by_random
    style = {"color": _DEFAULT_STYLE[0], "lw": 1, "ls": (0, (3, 2))}
    low, right = axes.get_ylim()[0], axes.get_xlim()[1]
    axes.plot([IN_FOCUS, needed or right], [accuracy] * 2, **style)
    for place in (IN_FOCUS, needed):
        if place:
            axes.plot([place] * 2, [low, accuracy], **style)
            axes.plot(place, accuracy, "o", color=style["color"], ms=5, mec="white")
    axes.set_ylim(bottom=low)
    number = judgment.worth.worth.split(" (")[0]
    axes.annotate(
        f"{IN_FOCUS} labels do what\n{number} random ones do",
        (IN_FOCUS, low),
        (-6, 8),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=9,
        color=style["color"],
    )
