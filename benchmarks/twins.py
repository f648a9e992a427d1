"""Twins of the paper's Tables 1 and 3 on small images: records, tables, claims.

``python -m benchmarks.twins DIR`` reads the folder of ``fewlabels bench run`` with the
recipes ``table1_digits``, ``table3_digits`` and so on, finished or not, and adds each
experiment's finished runs to its record in benchmarks/results. ``make study-report``
makes the tables from the records.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.recorded import RESULTS, lines

from fewlabels import files
from fewlabels.experiments.bench import BenchFolder, published, read_results
from fewlabels.experiments.evaluation import (
    curve_band,
    overlap_of_differences,
    overlap_of_unions,
    paired_tests,
)

DATA = {"digits": "Digits", "mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
LITERAL, AUTO = "npc (kernel = last-layer, tie_tolerance = 0.0)", "npc"
NAMES = {LITERAL: "npc, as printed", AUTO: "npc, auto"}
WAYS = {
    "zero-shot, all asked for": published.TABLE_3_ZERO_SHOT,
    "zero-shot, ten given": None,
    "single-shot": published.TABLE_3_SINGLE_SHOT,
}
"""Conditions of the twin of Table 3, and what the paper prints for them."""

NOTHING = "Two trials of every strategy are not finished yet."
Run = Mapping[str, Any]


@dataclass(frozen=True)
class Twin:
    """The finished runs of one experiment."""

    runs: list[Run]

    @classmethod
    def read(cls, table: str, data: str) -> "Twin":
        """Return the record of a table's twin, without runs where there is none."""
        path = RESULTS / f"{table}_{data}.jsonl"
        text = path.read_text("utf-8") if path.exists() else ""
        return cls([json.loads(line) for line in text.splitlines()])

    @cached_property
    def strategies(self) -> list[str]:
        """Those that are compared, in the order of the record."""
        return list(dict.fromkeys(run["strategy"] for run in self.runs))

    def seeds(self, *conditions: str) -> list[int]:
        """Return seeds that every strategy has finished under some conditions."""
        done = set(map(_key, self.runs))
        return sorted(
            seed
            for seed in {run["seed"] for run in self.runs}
            if all((c, s, seed) in done for c in conditions for s in self.strategies)
        )

    def accuracies(
        self, strategy: str, labels: int, condition: str = ""
    ) -> list[float]:
        """Return accuracies of complete seeds in percent."""
        return [
            100 * line["accuracy"]
            for run in self.of(strategy, condition)
            for line in run["rounds"]
            if line["num_labeled"] == labels
        ]

    def of(self, strategy: str, condition: str = "") -> list[Run]:
        """Return the runs of a strategy with complete seeds, in their order."""
        runs = {
            run["seed"]: run
            for run in self.runs
            if (run["condition"], run["strategy"]) == (condition, strategy)
        }
        return [runs[seed] for seed in self.seeds(condition)]

    def asked(self, strategy: str, labels: int, condition: str = "") -> list[list[str]]:
        """Return what each of these runs had asked for, up to a number of labels."""
        return [
            [
                name
                for line in run["rounds"]
                if line["num_labeled"] < labels
                for name in line["ids"]
            ]
            for run in self.of(strategy, condition)
        ]

    def difference(self, one: str, other: str, labels: int, condition: str = "") -> str:
        """Return the lead of a strategy over another, in points, with its interval."""
        both = [one, other]
        values = {who: self.accuracies(who, labels, condition) for who in both}
        sets = [self.asked(who, labels, condition) for who in both]
        return _tested(values[one], values[other], overlap_of_differences(*sets))


def _tested(ones: list[float], others: list[float], overlap: float) -> str:
    """Return a paired difference with its interval, bold where it excludes zero."""
    if len(ones) < 2:
        return "–"
    (test,) = paired_tests(
        {"one": ones, "other": others}, against="other", overlaps={"one": overlap}
    )
    text = f"{test.difference:+.1f} ({test.low:+.1f} to {test.high:+.1f})"
    return f"**{text}**" if test.low > 0 or test.high < 0 else text


def _mean(values: list[float]) -> str:
    """Return a mean with its interval, which ends at 0 and 100."""
    if len(values) < 2:
        return "–"
    band = curve_band(np.array(values)[:, None], highest=100)
    return f"{band.mean[0]:.1f} ({band.low[0]:.1f} to {band.high[0]:.1f})"


def _printed(table: published.PublishedTable | None, strategy: str, labels: int) -> str:
    """Return what the paper prints for a strategy, if anything."""
    cells = table.cells if table else ()
    name = strategy.partition(" ")[0] if strategy != AUTO else ""
    for cell in cells:
        if (cell.strategy, cell.num_labels) == (name, labels):
            return f"*{cell.mean:.2f} ± {cell.deviation:.2f}*"
    return ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join([_row(*head), "|---" * len(head) + "|", *(_row(*r) for r in rows)])


def _named(strategy: str) -> str:
    return NAMES.get(strategy, strategy.partition(" ")[0])


def table_1() -> str:
    """Return the twins of Table 1 in Markdown."""
    parts = []
    for data, title in DATA.items():
        twin, amounts = Twin.read("table1", data), published.TABLE_1.num_labels
        if len(seeds := twin.seeds("")) < 2:
            continue
        head = [f"{title}, {len(seeds)} trials", *(f"{n} labels" for n in amounts)]
        head += ["lead over random at 70", *(f"*paper, {n}*" for n in amounts)]
        rows = [
            [
                _named(who),
                *(_mean(twin.accuracies(who, n)) for n in amounts),
                "" if who == "random" else twin.difference(who, "random", amounts[-1]),
                *(_printed(published.TABLE_1, who, n) for n in amounts),
            ]
            for who in twin.strategies
        ]
        parts.append(_table(head, rows))
    return "\n\n".join([*(parts or [NOTHING]), ""])


def table_3() -> str:
    """Return the twins of Table 3 in Markdown."""
    parts = []
    for data, title in DATA.items():
        twin = Twin.read("table3", data)
        ways = [
            (way, n)
            for way in WAYS
            for n in (40, 60)
            if len(twin.seeds(f"{way}, {n} labels")) > 1
        ]
        if not ways:
            continue
        head = [title]
        for way, n in ways:
            number = len(twin.seeds(f"{way}, {n} labels"))
            head.append(f"{way}, {n} ({number} trials)")
            head += [f"*paper, {n}*"] if WAYS[way] else []
        rows = []
        for who in twin.strategies:
            row = [_named(who)]
            for way, n in ways:
                row.append(_mean(twin.accuracies(who, n, f"{way}, {n} labels")))
                row += [_printed(WAYS[way], who, n)] if WAYS[way] else []
            rows.append(row)
        parts.append(_table(head, rows))
    return "\n\n".join([*(parts or [NOTHING]), ""])


def _claims_1(twin: Twin) -> Iterator[tuple[str, str]]:
    """Yield what Table 1 and Figure 1 claim, and what a twin has to say."""
    names = {who.partition(" ")[0]: who for who in twin.strategies if who != AUTO}
    if len(twin.seeds("")) < 2:
        return
    for other in ("random", "margin", "albl", "badge"):
        differences = "; ".join(
            f"{n}: {twin.difference(LITERAL, names[other], n)}" for n in (50, 70)
        )
        yield f"NPC leads {other} (Table 1, 50 and 70 labels)", differences
    differences = "; ".join(
        f"{n}: {twin.difference('badge', 'random', n)}" for n in (50, 70)
    )
    yield "BADGE trails random (Table 1, 50 and 70 labels)", differences
    pairs = (("margin", "albl"), ("margin", "badge"), ("npc", "badge"))
    overlaps = [
        f"{one} and {other} {100 * _overlap(twin, names[one], names[other]):.0f} %"
        for one, other in pairs
    ]
    yield (
        "Margin and ALBL ask for the same items, others do not (Fig. 1)",
        "; ".join(overlaps),
    )


def _overlap(twin: Twin, one: str, other: str) -> float:
    """Return the overlap of unions over trials at 70 labels, start included."""
    unions = [
        [[*run["start"], *asked] for run, asked in zip(twin.of(who), sets, strict=True)]
        for who, sets in ((who, twin.asked(who, 70)) for who in (one, other))
    ]
    places = {
        name: i
        for i, name in enumerate(sorted({x for u in unions for s in u for x in s}))
    }
    numbered = [
        [[places[name] for name in names] for names in union] for union in unions
    ]
    return overlap_of_unions(*numbered)


def _claims_3(twin: Twin) -> Iterator[tuple[str, str]]:
    """Yield what Table 3 claims, and what a twin has to say."""
    zero, single = "zero-shot, all asked for", "single-shot"
    for way in (zero, single):
        differences = [
            f"{n}: {twin.difference(LITERAL, 'badge', n, place)}"
            for n in (40, 60)
            if len(twin.seeds(place := f"{way}, {n} labels")) > 1
        ]
        if differences:
            yield f"NPC and BADGE, {way} (Table 3)", "; ".join(differences)
    for who in ("badge", LITERAL):
        differences = []
        for n in (40, 60):
            places = [f"{way}, {n} labels" for way in (zero, single)]
            seeds = twin.seeds(*places)
            if len(seeds) > 1:
                ends = [
                    [
                        100 * run["rounds"][-1]["accuracy"]
                        for run in twin.of(who, place)
                        if run["seed"] in seeds
                    ]
                    for place in places
                ]
                differences.append(f"{n}: {_tested(*ends, 0.0)}")
        if differences:
            yield (
                f"{_named(who)}: zero-shot less single-shot (Table 3)",
                "; ".join(differences),
            )


def claims() -> str:
    """Return claims of the paper beside what the twins say, in Markdown."""
    answers: dict[str, dict[str, str]] = {}
    for table, claims in (("table1", _claims_1), ("table3", _claims_3)):
        for data in DATA:
            for claim, text in claims(Twin.read(table, data)):
                answers.setdefault(claim, {})[data] = text
    shown = [data for data in DATA if any(data in by for by in answers.values())]
    head = ["claim of the paper", *(DATA[data] for data in shown)]
    rows = [[claim, *(by.get(d, "–") for d in shown)] for claim, by in answers.items()]
    return _table(head, rows) + "\n"


def keep(bench: Path) -> None:
    """Add a folder's finished runs to the records; trials of earlier folders stay."""
    folder = BenchFolder(bench)
    for name, experiment in folder.experiments().items():
        results = read_results(folder, experiment)
        records = [_short(line) for line in lines(results)]
        if records:
            path = RESULTS / f"{name}.jsonl"
            earlier = path.read_text("utf-8").splitlines() if path.exists() else []
            runs = merged([json.loads(line) for line in earlier], records)
            files.replace_text(path, "".join(json.dumps(run) + "\n" for run in runs))
        print(f"{name}: {results.num_finished} of {len(results.cells)} runs")


def merged(earlier: list[Run], later: list[Run]) -> list[Run]:
    """Return the runs of two records; a run that both have is taken from the later.

    Example:
        >>> first = {"condition": "", "strategy": "npc", "seed": 0, "rounds": []}
        >>> [run["seed"] for run in merged([first | {"seed": 1}], [first])]
        [0, 1]
    """
    runs = {_key(run): run for run in (*earlier, *later)}
    places = [key[:2] for key in runs]
    return sorted(runs.values(), key=lambda r: (places.index(_key(r)[:2]), r["seed"]))


def _key(run: Run) -> tuple[str, str, int]:
    """Return what tells a run from the others of an experiment."""
    return run["condition"], run["strategy"], run["seed"]


def _short(line: Run) -> Run:
    """Return a line of a record with its items by number."""
    rounds = [own | {"ids": [*map(number_of, own["ids"])]} for own in line["rounds"]]
    return {**line, "start": [*map(number_of, line["start"])], "rounds": rounds}


def number_of(name: str) -> str:
    """Return the number of an image in its data set, and of its copy.

    Example:
        >>> number_of("mnist/train/13377@fc558d34ccd5df86#1")
        '13377#1'
    """
    number, _, rest = name.rpartition("/")[2].partition("@")
    return number + "".join(rest.partition("#")[1:])


def main() -> None:
    """Write the records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bench", type=Path, help="folder of the benchmark")
    keep(parser.parse_args().bench)


def parts() -> dict[str, Any]:
    """Return what makes each part of the page, by the name in its mark."""
    return {"twins 1": table_1, "twins 3": table_3, "claims": claims}


if __name__ == "__main__":
    main()
