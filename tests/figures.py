"""What the records under ``benchmarks/results`` allow a page to say.

A page marks where its figures come from::

    <!-- figures: ssl_study, fixmatch_step -->
    ... 82.3 ± 3.7 ... 1.45 times faster ...
    <!-- figures end -->

Every figure in between has to follow from one of the named records: be one of its
numbers, or a mean, deviation, extreme, difference, ratio or test of them.
"""

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any, NamedTuple

from fewlabels.experiments import evaluation
from fewlabels.experiments.bench import published

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"

_NUMBER = r"(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?"
_UNIT = (
    r"(?:%|points?\b|seconds?\b|minutes?\b|min\b|hours?\b|ms\b|milliseconds?\b|s\b|GB\b"
    r"|MB\b|times (?:as|faster|slower|more|that)|×(?!\s*\d))"
)
_STATED = re.compile(
    rf"(?<![\w.,@/])(?P<pair>{_NUMBER}\s?±\s?{_NUMBER})"
    rf"|(?<![\w.,@/])(?P<single>{_NUMBER})(?=\s?{_UNIT})"
    rf"|(?<=\bp\s)(?P<p>{_NUMBER})|(?<=\bp = )(?P<p2>{_NUMBER})"
)
_ANY = re.compile(
    rf"(?<![\w.,@/])(?P<pair>{_NUMBER}\s?±\s?{_NUMBER})"
    rf"|(?<![\w.,@/])(?P<single>{_NUMBER})(?![\w]|[.,/-]\d)"
)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_HEADER = re.compile(r"^\|.*\n(?=\|---)", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]*`|\]\([^)]*\)|<!--.*?-->")
_REGION = re.compile(
    r"<!-- figures: (?P<records>[\w, ]+) -->\n(?P<text>.*?)<!-- figures end -->",
    re.DOTALL,
)
_STUDY = re.compile(r"<!-- study: [\w ]+ -->\n.*?<!-- study end -->", re.DOTALL)

_TABLES = (
    published.TABLE_1,
    published.TABLE_2,
    published.TABLE_3_ZERO_SHOT,
    published.TABLE_3_SINGLE_SHOT,
)


class Pair(NamedTuple):
    """A mean and its deviation or error."""

    middle: float
    spread: float


@dataclass
class Figures:
    """Numbers that follow from a record."""

    singles: list[float] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    later: list[Callable[[], None]] = field(default_factory=list)
    """What takes in more, and longer: called where all before does not suffice."""

    def add(self, *numbers: float, what: str = "") -> None:
        """Take in numbers in the units in which a page may print them."""
        for number in map(abs, numbers):
            self.singles.append(number)
            if "second" in what:
                self.singles += [1000 * number, number / 60]
            elif number <= 1:
                self.singles.append(100 * number)

    def summarize(self, numbers: Sequence[float], what: str) -> None:
        """Take in what can be said of repeated measurements."""
        typical = mean(numbers), median(numbers), min(numbers), max(numbers)
        self.add(*typical, what=what)
        if len(numbers) > 1:
            scale = 100 if max(map(abs, numbers)) <= 1 else 1  # shares, in percent
            self.pairs.append(Pair(scale * mean(numbers), scale * stdev(numbers)))

    def compare(self, ones: Sequence[float], others: Sequence[float]) -> list[float]:
        """Take in what can be said of paired measurements; return p of the t test."""
        gains = [one - other for one, other in zip(ones, others, strict=True)]
        if len(gains) < 2 or stdev(gains) == 0:
            return []
        values = {"one": ones, "other": others}
        [test] = evaluation.paired_tests(values, against="other")
        self.pairs.append(Pair(test.difference, stdev(gains) / len(gains) ** 0.5))
        self.add(test.difference, test.t_p, test.wilcoxon_p)
        self.add(sum(gain > 0 for gain in gains))
        return [test.t_p]

    def holds(self, stated: str) -> bool:
        """Tell whether a figure, as printed, follows from the record."""
        while not self._has(stated):
            if not self.later:
                return False
            self.later.pop(0)()
        return True

    def _has(self, stated: str) -> bool:
        if "±" in stated:
            middle, spread = (part.strip() for part in stated.split("±"))
            return any(
                _rounds_to(abs(pair.middle), middle) and _rounds_to(pair.spread, spread)
                for pair in self.pairs
            )
        return any(_rounds_to(number, stated) for number in self.singles)


@cache
def figures(name: str) -> Figures:
    """Return what can be said from a record, by its name without an ending.

    The record ``published`` is what the paper prints, with tests of it.
    """
    if name == "published":
        return _published()
    [path] = RESULTS.glob(f"{name}.json*")
    text = path.read_text()
    found = Figures()
    if path.suffix == ".json":
        _tree(json.loads(text), found, "")
    else:
        _lines([json.loads(line) for line in text.splitlines()], found)
    return found


def stated(text: str, *, everything: bool = False) -> Iterator[str]:
    """Yield figures in a text: means with a deviation, numbers with a unit, p values.

    Args:
        text: Markdown; code and addresses do not count.
        everything: Also numbers with decimals, and all numbers in the cells of tables.

    Yields:
        The figures as printed.
    """
    for line in _CODE.sub(" ", _HEADER.sub("", _FENCE.sub("", text))).splitlines():
        for match in _STATED.finditer(line):
            yield next(found for found in match.groups() if found)
        if not everything:
            continue
        cells = line.split("|")[2:] if line.startswith("|") else [line]
        for match in itertools.chain(*map(_ANY.finditer, cells)):
            if line.startswith("|") or "." in match[0]:
                yield match[0]


def regions(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield marked parts of a page: names of records, and the text."""
    for match in _REGION.finditer(text):
        yield tuple(match["records"].replace(" ", "").split(",")), match["text"]


def unmarked(text: str) -> str:
    """Return a page without its marked parts; tests/test_study.py has the study's."""
    return _STUDY.sub("", _REGION.sub("", text))


def _published() -> Figures:
    """Return what the paper prints, and Welch's tests of its first two tables."""
    found = Figures()
    for table in _TABLES:
        found.pairs += [Pair(cell.mean, cell.deviation) for cell in table.cells]
        found.add(*table.num_labels)
    for reading in ("sample", "population"):
        tests = [published.passive_tests(table, reading) for table in _TABLES[:2]]
        p_values = [test.p for one in tests for test in one.values()]
        found.add(*p_values, *evaluation.holm(p_values).tolist())
    return found


def _rounds_to(number: float, printed: str) -> bool:
    """Tell whether a number is printed so, rounded to the digits that are shown."""
    plain = printed.replace(",", "")
    digits, _, power = plain.partition("e")
    decimals = len(digits.partition(".")[2])
    if decimals == 0 and not power:  # 33,400 may stand for 33,446
        decimals = -min(len(digits) - len(digits.rstrip("0")), len(digits) - 2, 3)
        decimals = min(decimals, 0)
    half = 0.5 * 10.0 ** (int(power or 0) - decimals)
    return abs(number - float(plain)) <= half * (1 + 1e-6)


def _tree(node: Any, found: Figures, what: str) -> None:
    """Take in all numbers of nested objects; lists are repeated measurements."""
    if isinstance(node, int | float) and not isinstance(node, bool):
        found.add(node, what=what)
    elif isinstance(node, Mapping):
        found.add(*(int(key) for key in node if key.isdecimal()))
        for key, value in node.items():
            _tree(value, found, f"{what}/{key}")
        _siblings(list(_series(node).values()), found)
    elif isinstance(node, list):
        for name, numbers in _columns(node).items():
            found.summarize(numbers, f"{what}/{name}")
        for value in node:
            if _is_nested(value):
                _tree(value, found, what)


def _is_nested(value: Any) -> bool:
    """Tell whether a value of a list is more than a row of measurements."""
    inner = value.values() if isinstance(value, Mapping) else [value]
    return any(isinstance(one, Mapping | list) for one in inner)


def _series(node: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return lists of repeated measurements below an object, by where they are."""
    found = {}
    for key, value in node.items():
        if isinstance(value, list):
            for name, numbers in _columns(value).items():
                found[f"{key}/{name}"] = numbers
    return found


def _columns(values: Iterable[Any]) -> dict[str, list[float]]:
    """Return a list of numbers, or the columns of a list of flat objects."""
    columns: dict[str, list[float]] = defaultdict(list)
    values = list(values)
    for value in values:
        row = value if isinstance(value, Mapping) else {"": value}
        for name, number in row.items():
            if isinstance(number, int | float) and not isinstance(number, bool):
                columns[name].append(number)
    return {name: ns for name, ns in columns.items() if len(ns) == len(values)}


def _siblings(series: Sequence[Sequence[float]], found: Figures) -> None:
    """Compare series of equal length with each other."""
    for ones, others in itertools.permutations(series, 2):
        if len(ones) == len(others) > 1:
            found.compare(ones, others)


def _lines(rows: Sequence[Mapping[str, Any]], found: Figures) -> None:
    """Take in lines of measurements that are paired by their seeds.

    Lines that agree in every word and in the number of labels are repetitions; groups
    that differ in one of these only are compared, as two trainers on the same labels.
    """
    groups: dict[tuple[str, ...], dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for row in itertools.chain(*map(_flat, rows)):
        words = tuple(
            str(value)
            for key, value in row.items()
            if isinstance(value, str) or key == "labels"
        )
        groups[words][row["seed"]] = row
    for words, runs in groups.items():
        for name, numbers in _columns(runs.values()).items():
            found.summarize(numbers, name)
        found.later.append(partial(_compare_with, words, groups, found))


def _compare_with(
    words: tuple[str, ...],
    groups: Mapping[tuple[str, ...], Mapping[int, Mapping[str, Any]]],
    found: Figures,
) -> None:
    """Compare the rivals of a group with it, seed by seed, one by one and together."""
    runs, family = groups[words], defaultdict[str, list[float]](list)
    for other, rival in groups.items():
        if len(words) != len(other) or sum(map(str.__ne__, words, other)) != 1:
            continue
        seeds = sorted(runs.keys() & rival.keys())
        ours = _columns(runs[seed] for seed in seeds)
        theirs = _columns(rival[seed] for seed in seeds)
        for name in ours.keys() & theirs.keys() - {"seed"}:
            family[name] += found.compare(theirs[name], ours[name])
    for p_values in family.values():
        found.add(*evaluation.holm(p_values).tolist())


def _flat(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a line as words and numbers: one for each method that it holds."""
    flat = {key: value for key, value in row.items() if not isinstance(value, list)}
    if "labels" in flat:
        flat["labels"] = str(flat["labels"])
    if "start" in row:  # a run of a benchmark
        for one in row["rounds"]:
            flat[f"accuracy at {one['num_labeled']}"] = 100 * one["accuracy"]
        labeled = {_original(name) for name in row["start"]}
        picks = [_original(name) for one in row["rounds"] for name in one["ids"]]
        flat["copies"] = 1 - len({*picks} - labeled) / len(picks)
    if isinstance(flat.get("accuracy"), Mapping):
        for method, accuracy in flat["accuracy"].items():
            yield flat | {"method": method, "accuracy": accuracy}
    else:
        yield flat


def _original(name: str) -> str:
    """Return what an item is a copy of: names of copies differ behind the last #."""
    return name.rpartition("#")[0] or name
