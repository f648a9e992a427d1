"""Tables of docs/theory.md, made of records; see :mod:`benchmarks.study_report`."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from benchmarks.study import RESULTS
from benchmarks.twins import LITERAL
from scipy.stats import rankdata

from fewlabels.experiments.evaluation import curve_band, label_gains, paired_tests

Line = Mapping[str, Any]
NUM_RESAMPLES = 1000
KERNELS = {
    "last-layer": "last layer",
    "wide-head": "wide head",
    "tangent": "whole network",
}
AMOUNTS = (10, 30, 50)
TITLES = {"digits": "digits", "mnist": "MNIST"}
RULES = {
    "random": "at random",
    "npc": "NPC",
    "npc-greedy": "NPC, greedy search",
}


def lines_of(name: str) -> list[Line]:
    """Return the lines of a record; none where there is no record."""
    path = RESULTS / f"{name}.jsonl"
    text = path.read_text("utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def correlation(
    lines: Sequence[Line],
    one: Callable[[Line], float],
    other: Callable[[Line], float],
    *,
    block: Callable[[Line], Any],
    cluster: Callable[[Line], Any],
) -> str:
    """Return a rank correlation within blocks, with a bootstrap interval of 95 %.

    Both quantities are ranked within each block, as shares of its size, and centered;
    blocks of one line do not count. Clusters are drawn anew with replacement.
    """
    blocks, clusters = (
        [block(line) for line in lines],
        [cluster(line) for line in lines],
    )
    ranks = np.zeros((2, len(lines)))
    for name in set(blocks):
        places = [place for place, own in enumerate(blocks) if own == name]
        for row, value in enumerate((one, other)):
            found = rankdata([value(lines[place]) for place in places])
            ranks[row, places] = (found - found.mean()) / len(places)
    members = [
        [place for place, own in enumerate(clusters) if own == name]
        for name in dict.fromkeys(clusters)
    ]
    rng = np.random.default_rng(0)
    found = []
    for _ in range(NUM_RESAMPLES):
        drawn = rng.integers(len(members), size=len(members))
        places = [place for number in drawn for place in members[number]]
        found.append(_cosine(ranks[:, places]))
    low, high = np.nanquantile(found, [0.025, 0.975])
    return f"{_cosine(ranks):+.2f} ({low:+.2f} to {high:+.2f})"


def _cosine(ranks: np.ndarray) -> float:
    squares = (ranks**2).sum(axis=1)
    with np.errstate(invalid="ignore"):
        return float((ranks[0] * ranks[1]).sum() / np.sqrt(squares.prod()))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def gains() -> str:
    """Return what newly acquired labels add by both ways of training."""
    found: dict[tuple[str, str], dict[int, dict[int, float]]] = {}
    for line in lines_of("ssl_study"):
        if line["labels"].isdecimal():
            by_seed = found.setdefault((line["data"], line["trainer"]), {})
            by_seed.setdefault(line["seed"], {})[int(line["labels"])] = line["accuracy"]
    rows = []
    for data, title in TITLES.items():
        accuracies = [
            [[by[n] for n in AMOUNTS] for _, by in sorted(found[data, who].items())]
            for who in ("supervised", "FixMatch+DARP")
        ]
        for gain in label_gains(AMOUNTS, *accuracies):
            test = gain.test
            rows.append(
                [
                    f"{title}, {gain.num_before} to {gain.num_after}",
                    f"{gain.supervised:+.1f}",
                    f"{gain.semi_supervised:+.1f}",
                    f"{test.difference:+.1f} ({test.low:+.1f} to {test.high:+.1f})",
                    f"{test.num_pairs}",
                ]
            )
    head = ["labels", "supervised", "FixMatch+DARP", "difference", "seeds"]
    return table(head, rows)


def _block_of_set(line: Line) -> Any:
    return line["data"], line["network"]


def _block_of_run(line: Line) -> Any:
    return line["seed"], line["num_labeled"]


def predicted() -> str:
    """Return how predicted errors and λmin go along with accuracy."""
    trained, runs = lines_of("predicted_error"), lines_of("predicted_runs")
    groups: list[tuple[str, list[Line], Any, Any]] = []
    for name, title in (
        ("table1_digits", "digits, runs of `table1_digits`"),
        ("table1_mnist", "MNIST, runs of `table1_mnist`"),
        ("repeated_mnist", "MNIST, runs of `repeated_mnist`"),
    ):
        own = [line for line in runs if line["record"] == name]
        groups.append((title, own, _block_of_run, lambda line: line["seed"]))
    for name, title in TITLES.items():
        own = [line for line in trained if line["data"] == name]
        groups.append((f"{title}, one query", own, _block_of_set, _place))
    rows = []
    for title, own, block, cluster in groups:
        if len(own) < 10:
            continue
        for kernel, words in KERNELS.items():
            if kernel not in own[0]["predicted"]:
                continue
            measures = [
                lambda line, k=kernel: line["smallest"][k],
                lambda line, k=kernel: -line["predicted"][k],
                lambda line, k=kernel: -line["expected"].get(k, np.nan),
            ]
            cells = [
                correlation(own, each, _accuracy, block=block, cluster=cluster)
                if np.isfinite(each(own[0]))
                else ""
                for each in measures
            ]
            rows.append([title, str(len(own)), words, *cells])
    head = ["labeled sets", "sets", "kernel", "λmin", "predicted error"]
    return table([*head, "the same without labels"], rows)


def lowered() -> str:
    """Return by how much NPC's sets change the predicted error of random ones."""
    rows = []
    for record, title in (("table1_digits", "digits"), ("repeated_mnist", "MNIST")):
        for kernel, words in KERNELS.items():
            found: dict[str, dict[int, list[float]]] = {"npc": {}, "random": {}}
            for line in lines_of("predicted_runs"):
                strategy = line["strategy"]
                is_npc = strategy == {"digits": LITERAL}.get(title, "npc")
                name = "npc" if is_npc else strategy
                if line["record"] == record and name in found:
                    values = found[name].setdefault(line["seed"], [])
                    values.append(line["predicted"].get(kernel, np.nan))
            seeds = sorted(found["npc"].keys() & found["random"].keys())
            means = {
                name: [float(np.mean(by[seed])) for seed in seeds]
                for name, by in found.items()
            }
            if len(seeds) < 2 or np.isnan(means["npc"]).any():
                continue
            (test,) = paired_tests(means, against="random")
            lead = f"{test.difference:+.3f} ({test.low:+.3f} to {test.high:+.3f})"
            amount = f"{np.mean(means['random']):.3f}"
            rows.append([f"{title}, {len(seeds)} seeds", words, amount, lead])
    return table(["runs", "kernel", "random", "NPC less random"], rows)


def _place(line: Line) -> Any:
    return line["network"], line["draws"], line["set"]


def _accuracy(line: Line) -> float:
    return float(line["accuracy"])


def draws() -> str:
    """Return λmin and accuracy of one query by the number of draws."""
    lines, rows = lines_of("predicted_error"), []
    names = {"all": "as many as items", "greedy": "greedy search"}
    for data in dict.fromkeys(line["data"] for line in lines):
        for number in ("1", "30", "all", "greedy"):
            own = [
                line
                for line in lines
                if (line["data"], line["draws"]) == (data, number)
            ]
            if len(own) < 2:
                continue
            values = [100 * _accuracy(line) for line in own]
            band = curve_band(np.array(values)[:, None], highest=100)
            smallest = [line["smallest"]["last-layer"] for line in own]
            error = [line["predicted"]["wide-head"] for line in own]
            rows.append(
                [
                    f"{TITLES[data]}, {names.get(number, number)}",
                    str(len(own)),
                    f"{np.mean(smallest):.3f} ± {np.std(smallest, ddof=1):.3f}",
                    f"{np.mean(error):.2f} ± {np.std(error, ddof=1):.2f}",
                    f"{band.mean[0]:.1f} ({band.low[0]:.1f} to {band.high[0]:.1f})",
                    f"{band.deviation[0]:.1f}",
                ]
            )
    head = ["draws", "sets", "λmin", "predicted error", "accuracy", "its deviation"]
    return table(head, rows)


def convergence() -> str:
    """Return how λmin goes along with the time to convergence, and the step limit."""
    text = (RESULTS / "theory.json").read_text("utf-8")
    sets = json.loads(text)["descents"]
    rows = []
    for rule, words in RULES.items():
        own = [line for line in sets if line["rule"] == rule]
        values = {
            "λmin": [line["smallest"] for line in own],
            "limit": [2 / line["largest"] for line in own],
            "time": [line["largest"] / line["smallest"] for line in own],
            "steps": [line["steps_needed"] for line in own],
        }
        cells = [
            f"{np.mean(numbers):.{digits}f} ± {np.std(numbers, ddof=1):.{digits}f}"
            for numbers, digits in zip(values.values(), (3, 4, 0, 0), strict=True)
        ]
        rows.append([words, *cells])
    measures: dict[str, Callable[[Line], float]] = {
        "λmin": lambda line: line["smallest"],
        "2 / λmax": lambda line: 1 / line["largest"],
        "λmax / λmin": lambda line: line["largest"] / line["smallest"],
    }
    cells = [
        correlation(
            sets,
            measure,
            lambda line: line["steps_needed"],
            block=lambda line: line["seed"],
            cluster=lambda line: line["seed"],
        )
        for measure in measures.values()
    ]
    rows.append(["rank correlation with steps", *cells, ""])
    head = ["set", "λmin", "step limit 2 / λmax", "time λmax / λmin"]
    return table([*head, "steps until 1 % is left"], rows)


def parts() -> dict[str, Callable[[], str]]:
    """Return what makes each part of the page, by the name in its mark."""
    return {
        "label gains": gains,
        "predicted errors": predicted,
        "predicted lowered": lowered,
        "draws": draws,
        "convergence": convergence,
    }
