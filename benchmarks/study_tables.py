"""Tables and tests of the study, in Markdown."""

from collections.abc import Sequence
from statistics import mean, stdev

from benchmarks.study import AT_ONCE, HEADS, ORACLE, SOURCES, STEPLESS
from benchmarks.study_data import Study, described, whole
from scipy.stats import kendalltau, spearmanr

from fewlabels.experiments import evaluation

FAMILY = ("npc", "npc, clusters", "npc, greedy", "npc, diffusion", "outward", "v-opt")
RIVALS = ("random", "badge", "typiclust")
UNSURE = ("margin", "entropy")
LEVEL = 0.05


def standing(study: Study, name: str) -> float:
    """Return the mean accuracy at two labels per class without network training."""
    heads = {head: data for head, data in whole(study).items() if head in STEPLESS}
    return mean(mean(study.means(head, name, 2, data)) for head, data in heads.items())


def ranking(study: Study) -> str:
    """Return the mean accuracies of all strategies in Markdown, best first."""
    heads = whole(study)
    names = study.selectors(next(iter(heads)))
    columns = [(head, each) for head in heads for each in study.each(head)]

    def cell(name: str, head: str, each: int) -> str:
        if name not in study.selectors(head):
            return ""
        values = study.means(head, name, each, heads[head])
        return f"{mean(values):.1f} ± {stdev(values):.1f}"

    titles = " | ".join(f"{head}, {each}" for head, each in columns)
    lines = [f"| strategy | {titles} |", "|---" * (1 + len(columns)) + "|"]
    for name in sorted(names, key=lambda name: -standing(study, name)):
        cells = " | ".join(cell(name, *column) for column in columns)
        lines.append(f"| {name} | {cells} |")
    return "\n".join([*lines, "", f"({described(study)}.)", ""])


def by_data(study: Study) -> str:
    """Return mean accuracies at two labels per class on each data set in Markdown."""
    lines: list[str] = []
    for head, data in whole(study).items():
        pools = study.pools(head, data)
        lines += [f"| {head} | {' | '.join(data)} |", "|---" * (1 + len(data)) + "|"]
        for name in study.selectors(head):
            scores = study.scores[head, name, "loop", 2]
            means = [mean(scores[one, pool] for pool in pools) for one in data]
            lines.append(f"| {name} | {' | '.join(f'{one:.1f}' for one in means)} |")
        lines.append("")
    return "\n".join(lines)


def best_of_family(study: Study) -> str:
    """Return the member that is best at two labels per class without networks."""
    return max(FAMILY, key=lambda name: standing(study, name))


def tests(study: Study, name: str, rivals: Sequence[str]) -> str:
    """Return tests of a strategy against some at two labels per class, in Markdown."""
    made = []
    for head, data in whole(study).items():
        for rival in rivals:
            values = {
                one: study.means(head, one, 2, data)
                for one in (name, rival)
                if one in study.selectors(head)
            }
            if len(values) == 2:
                [found] = evaluation.paired_tests(values, against=rival)
                made.append((head, rival, found))
    corrected = evaluation.holm([found.t_p for *_, found in made])
    lines = [
        f"| `{name}` against | learner | difference | 95 % interval | p, Holm |",
        "|---" * 5 + "|",
    ]
    for (head, rival, found), p in zip(made, corrected, strict=True):
        interval = f"{found.low:+.1f} to {found.high:+.1f}"
        lines.append(
            f"| {rival} | {head} | {found.difference:+.1f} | {interval} | {p:.2g} |"
        )
    return "\n".join([*lines, "", f"({described(study)}.)", ""])


def even(confirm: Study, later: Study) -> str:
    """Return what becomes of the outward strategy where doubt does not count."""
    lines = [
        "| labels per class | typiclust | outward | outward, even |",
        "|---" * 4 + "|",
    ]
    for each in (1, 2):
        cells = []
        for study, name in (
            (confirm, "typiclust"),
            (confirm, "outward"),
            (later, "outward, even"),
        ):
            values = study.scores["fixmatch-darp", name, "loop", each]
            own = [value for (data, _), value in values.items() if data == "digits"]
            cells.append(f"{mean(own):.1f} ± {stdev(own):.1f}")
        lines.append(f"| {each} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def agreement(study: Study) -> str:
    """Return rank correlations of strategies between learners, at two a class."""
    heads = list(whole(study).items())
    lines = []
    for number, (one, data) in enumerate(heads):
        for other, others in heads[number + 1 :]:
            names = [
                name
                for name in study.selectors(one)
                if name in study.selectors(other) and name != ORACLE
            ]
            both = [name for name in data if name in others]
            pools = study.shared_pools((one, other), both)
            values = [
                [mean(study.means(head, name, 2, both, pools=pools)) for name in names]
                for head in (one, other)
            ]
            found = spearmanr(*values).statistic
            lines.append(
                f"- {one} and {other}: {found:.2f} ({len(names)} strategies; "
                f"{len(pools)} pools of {' / '.join(both)})"
            )
    return "\n".join([*lines, ""])


def one_or_several(study: Study) -> str:
    """Return what asking at once loses against the loop, at two labels per class."""
    rows = []
    for head, data in whole(study).items():
        for name in study.selectors(head):
            if name in (ORACLE, *UNSURE):  # of these, a first query is random
                continue
            values = {
                "loop": study.means(head, name, 2, data),
                "at once": study.means(head, name, 2, data, "at once"),
            }
            if values["loop"] == values["at once"]:
                continue
            [found] = evaluation.paired_tests(values, against="at once")
            rows.append((head, name, found))
    corrected = evaluation.holm([found.t_p for *_, found in rows])
    cells = {
        (name, head): f"{found.difference:+.1f}{'*' if p < LEVEL else ''}"
        for (head, name, found), p in zip(rows, corrected, strict=True)
    }
    heads = list(dict.fromkeys(head for head, *_ in rows))
    lines = [f"| strategy | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for name in dict.fromkeys(name for _, name, _ in rows):
        told = " | ".join(cells[name, head] for head in heads)
        lines.append(f"| {name} | {told} |")
    told = f"({described(study)}. A star: p below {LEVEL} by Holm over all of them.)"
    return "\n".join([*lines, "", told, ""])


def behind_the_best(study: Study, each: int) -> str:
    """Return how far strategies are behind the best at some labels per class."""
    heads = whole(study)
    names = [one for one in study.selectors(next(iter(heads))) if one != ORACLE]
    columns = {}
    for head, data in heads.items():
        values = {
            name: study.means(head, name, each, data)
            for name in names
            if name in study.selectors(head)
        }
        best = max(values, key=lambda name, own=values: mean(own[name]))
        found = evaluation.paired_tests(values, against=best)
        told = {one.name: _behind(one) for one in found}
        columns[head] = {best: f"best ({mean(values[best]):.1f})", **told}
    lines = [f"| strategy | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for name in names:
        cells = " | ".join(column.get(name, "") for column in columns.values())
        lines.append(f"| {name} | {cells} |")
    return "\n".join([*lines, "", f"({described(study)}.)", ""])


def _behind(test: evaluation.PairedTest) -> str:
    mark = "*" if test.t_holm < LEVEL else ""
    return f"{test.difference:+.1f} ({test.low:+.1f} to {test.high:+.1f}){mark}"


def supervised_too(study: Study) -> str:
    """Return Kendall's correlation of strategies by labeled images alone and others."""
    heads = whole(study, HEADS)
    lines = []
    for other in ("fixmatch-darp", "spreading"):
        for data in (one for one in heads["supervised"] if one in heads[other]):
            names = [
                name
                for name in study.selectors("supervised")
                if name in study.selectors(other) and name != ORACLE
            ]
            pools = study.shared_pools(("supervised", other), [data])
            values = [
                [
                    mean(study.means(head, name, 2, [data], pools=pools))
                    for name in names
                ]
                for head in ("supervised", other)
            ]
            found = kendalltau(*values)
            lines.append(
                f"- {data}, supervised and {other}: {found.statistic:.2f} (p "
                f"{found.pvalue:.2g}; {len(names)} strategies, {len(pools)} pools)"
            )
    return "\n".join([*lines, ""])


def noise(study: Study) -> str:
    """Return the spread of trainings on one even label set, beside that over pools."""
    titles = ("data", "one even set, ten trainings", "even sets, ten pools")
    lines = [f"| {' | '.join(titles)} | random, ten pools |", "|---" * 4 + "|"]
    for (head, data), values in study.retrained.items():
        others = [study.means(head, name, 2, [data]) for name in (ORACLE, "random")]
        cells = (f"{mean(one):.1f} ± {stdev(one):.1f}" for one in (values, *others))
        lines.append(f"| {data} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def beside(study: Study) -> str:
    """Return what else is known of each strategy with label spreading, in the loop."""
    head, classes = "spreading", {one.name: one.num_classes for one in SOURCES}
    data = whole(study)[head]
    found = [
        one
        for one in study.lines
        if one["head"] == head
        and one["data"] in data
        and one["query"] == classes[one["data"]]
    ]
    rows = [
        "| strategy | worst pool | classes met | seconds of a query |",
        "|---" * 4 + "|",
    ]
    for name in (one for one in study.selectors(head) if one != ORACLE):
        own = [one for one in found if one["selector"] == name]
        met = mean(100 * one["classes"][AT_ONCE] / classes[one["data"]] for one in own)
        seconds = mean(mean(one["seconds"][:AT_ONCE]) for one in own)
        worst = min(study.means(head, name, AT_ONCE, data))
        rows.append(f"| {name} | {worst:.1f} | {met:.0f} % | {seconds:.2f} |")
    return "\n".join([*rows, ""])
