"""Benchmarks that are not finished, have failed, or hold next to nothing."""

import csv
import math
import re

import numpy as np
import pytest
from tests.report.benches import Bench, condition, experiment, facts
from tests.report.test_page import text_of

from fewlabels.errors import RunError
from fewlabels.experiments.bench.folder import read_results
from fewlabels.experiments.bench.published import TABLE_3_SINGLE_SHOT, TABLE_3_ZERO_SHOT
from fewlabels.experiments.bench.recipes import names, recipe
from fewlabels.experiments.evaluation import holm
from fewlabels.experiments.settings import Choice
from fewlabels.report import write_bench_report
from fewlabels.report.bench import finding
from fewlabels.report.bench_sections import context_of

ALL = ("accuracy", "overlap", "redundancy")


@pytest.fixture(autouse=True)
def empty_figures(monkeypatch):
    """Draw the figures for files, and leave them empty there: here words count."""

    def save(drawing, folder):
        folder.mkdir(exist_ok=True)
        (folder / f"{drawing.name}.svg").touch()
        (folder / f"{drawing.name}.png").touch()

    monkeypatch.setattr("fewlabels.report.figures.Drawing.save", save)


def shown(bench):
    return text_of(write_bench_report(bench.folder, "toys"))


def test_nothing_has_begun(tmp_path):
    words = shown(Bench(tmp_path, experiment(figures=ALL, retrainings=3)))
    assert "None of 6 runs is finished yet." in words
    assert "6 runs are still missing." in words
    assert "0 seeds are finished and measured by every strategy" in words


def test_half_of_it(tmp_path):
    bench = Bench(tmp_path, experiment(figures=ALL))
    bench.run("random", 0, [0.5, 0.6, 0.7]).run("random", 1, [0.5, 0.6])
    bench.run("npc", 0, [0.5, 0.7, 0.8])
    words = shown(bench)
    assert "3 of 6" not in words
    assert "2 of 6 runs are finished" in words
    assert "Nothing can be compared: a test needs" in words
    assert "1 seed is finished and measured by every strategy" in words
    assert "the means are over different numbers of seeds, from 1 to 2" in words


def test_failures_are_told_with_their_reason(tmp_path):
    bench = Bench(tmp_path, experiment())
    for seed in range(2):
        bench.run("random", seed, [0.5, 0.6, 0.7 + seed / 90])
        bench.run("npc", seed, [0.5, 0.6, 0.8 + seed / 50])
    bench.fail("npc", 2, "The disk is full.")
    words = shown(bench)
    assert "Failed: npc, 12 labels, seed 2. The disk is full." in words
    assert "1 run is still missing" in words
    assert "on 2 paired seeds" in words


def test_one_seed(tmp_path):
    bench = Bench(tmp_path, experiment(seeds=(7,), figures=ALL))
    bench.run("random", 7, [0.5, 0.6, 0.7]).run("npc", 7, [0.5, 0.6, 0.8])
    words = shown(bench)
    assert "Nothing can be compared: a test needs" in words
    assert "npc 50.00 60.00 80.00" in words


@pytest.mark.parametrize("names", [("margin",), ("margin", "badge")])
def test_one_strategy_or_neither_random_nor_npc(tmp_path, names):
    strategies = tuple(Choice(name=name) for name in names)
    bench = Bench(tmp_path, experiment(strategies=strategies, figures=ALL))
    for seed in range(3):
        for name in names:
            bench.run(name, seed, [0.5, 0.6, 0.7])
    words = shown(bench)
    assert "Nothing can be compared: a test needs random or npc" in words
    assert "Paired comparison" not in words


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_no_accuracy_anywhere(tmp_path, nothing):
    bench = Bench(tmp_path, experiment(figures=ALL, retrainings=2))
    for seed in range(3):
        for name in ("random", "npc"):
            bench.run(name, seed, [nothing] * 3)
    bench.retrain([nothing, nothing])
    words = shown(bench)
    assert "Nothing can be compared" in words
    assert "nan" not in words.split()


def test_the_same_difference_on_every_seed(tmp_path):
    bench = Bench(tmp_path, experiment())
    for seed in range(3):
        bench.run("random", seed, [0.5, 0.6, 0.7]).run("npc", seed, [0.5, 0.6, 0.8])
    words = shown(bench)
    assert "npc at 12 labels +10.00 – to – – – –" in words


def test_different_machines_and_data_are_warned_of(tmp_path):
    bench = Bench(tmp_path, experiment())
    other = facts()["data"] | {"hash": "beef" * 16}
    bench.run("random", 0, [0.5, 0.6, 0.7], platform="Windows")
    bench.run("npc", 0, [0.5, 0.6, 0.8], versions={"torch": "2.12.0"}, data=other)
    words = shown(bench)
    assert "made with different versions and platforms" in words
    assert "2 different versions of the data" in words
    assert "Windows, Linux" in words or "Linux, Windows" in words
    same = Bench(tmp_path / "same", experiment())
    same.run("random", 0, [0.5, 0.6, 0.7]).run("npc", 0, [0.5, 0.6, 0.8])
    assert "different versions" not in shown(same)


def test_pools_of_their_own_differ_from_seed_to_seed_only(tmp_path):
    own = condition().model_copy(update={"own_pools": True})
    bench = Bench(tmp_path, experiment(conditions=(own,)))
    for seed in range(2):
        data = facts()["data"] | {"hash": f"{seed}" * 64}
        bench.run("random", seed, [0.5, 0.6, 0.7], data=data)
        bench.run("npc", seed, [0.5, 0.6, 0.8], data=data)
    words = shown(bench)
    assert "versions of the data" not in words
    assert "Overlap of the picks" not in words
    bench.run("npc", 2, [0.5, 0.6, 0.8]).run("random", 2, [0.5, 0.6, 0.7], data=data)
    assert "2 different versions of the data" in shown(bench)


def test_the_headline_may_be_about_the_labels_of_one_strategy(tmp_path):
    conditions = (condition("fast", start=0), condition("slow"))
    asked = experiment(conditions=conditions, subject="npc")
    bench = Bench(tmp_path, asked)
    for seed in range(3):
        bench.run("random", seed, [0.1, 0.5, 0.6 + seed / 100, 0.7])
        bench.run("npc", seed, [0.1, 0.6, 0.8, 0.9])
    words = shown(bench)
    sentence = (
        "4 labels chosen by npc were worth 8 random ones (95 % interval 7 to 8). "
        "In accuracy the two do not differ significantly at 12 labels. "
        "This is with the learner fixmatch and 3 paired seeds."
    )
    assert words.count(sentence) == 1
    assert "npc beats random" in words or "difference from random" in words
    assert "Strategy 4 8 12 AUBC random" in words  # not what is known without labels


def test_few_seeds_are_noted_with_their_condition_if_others_have_more(tmp_path):
    conditions = (condition("fast"), condition("slow", budget=8))
    bench = Bench(tmp_path, experiment(conditions=conditions))
    for place, num_seeds in enumerate((3, 2)):
        for seed in range(num_seeds):
            bench.run("random", seed, [0.5, 0.6, 0.7][: 3 - place], number=place)
            bench.run("npc", seed, [0.5, 0.6, 0.8][: 3 - place], number=place)
    assert "slow: 2 paired seeds can show only large differences" in shown(bench)


def test_the_headline_compares_accuracy_with_random_labels_only(tmp_path):
    strategies = tuple(Choice(name=name) for name in ("random", "npc", "margin"))
    bench = Bench(tmp_path, experiment(strategies=strategies, subject="margin"))
    for seed in range(3):
        last = 0.9 + seed / 100  # much above random, as high as npc but for noise
        bench.run("random", seed, [0.5, 0.6, 0.7])
        bench.run("margin", seed, [0.5, 0.8, last])
        bench.run("npc", seed, [0.5, 0.8, 0.91 - seed / 100])
    words = shown(bench)
    assert "labels chosen by margin were worth" in words
    assert "In accuracy the two" not in words


def test_what_runs_noted_is_told_once(tmp_path):
    bench = Bench(tmp_path, experiment())
    for seed in range(3):
        bench.run("random", seed, [0.5, 0.6, 0.7])
        bench.run("npc", seed, [0.5, 0.6, 0.8]).note("npc", seed, "A tie of 5 sets.")
    assert shown(bench).count("A tie of 5 sets. (3 runs)") == 1


@pytest.mark.parametrize("name", names())
def test_every_recipe_has_a_page_before_its_first_run(tmp_path, name):
    bench = Bench(tmp_path, recipe(name))
    path = write_bench_report(bench.folder, bench.experiment.name)
    assert "runs is finished yet." in text_of(path)


def shots(path, num_seeds=3):
    """Return one query per run under several conditions, as in Table 3."""
    conditions = [
        condition(
            f"{kind}, {budget} labels, all asked for"
            if kind == "zero-shot"
            else f"{kind}, {budget} labels",
            start=10,
            query=budget - 10,
            budget=budget,
            zero_shot=kind == "zero-shot",
        )
        for kind in ("zero-shot", "single-shot")
        for budget in (40, 60)
    ]
    asked = experiment(
        conditions=tuple(conditions),
        strategies=(Choice(name="badge"), Choice(name="npc")),
        seeds=tuple(range(num_seeds)),
        published=(TABLE_3_ZERO_SHOT, TABLE_3_SINGLE_SHOT),
    )
    bench = Bench(path, asked)
    for number, one in enumerate(conditions):
        first = None if one.settings.zero_shot else 0.5
        for seed in asked.seeds:
            bench.run("badge", seed, [first, 0.8 + seed / 100 + number / 50], number)
            bench.run("npc", seed, [first, 0.9 + seed / 51 + number / 60], number)
    return bench


def test_one_query_each_is_shown_as_table_3(tmp_path):
    path = write_bench_report(shots(tmp_path).folder, "toys")
    words = text_of(path)
    assert (
        "zero-shot, all asked for single-shot Strategy 40 40, paper 60 60, paper 40"
        in words
    )
    assert "badge 81.00 ± 1.00 92.13 ± 3.24 83.00 ± 1.00 94.42 ± 0.41 85.00" in words
    latex = (path.parent / "tables" / "shots.tex").read_text("utf-8")
    assert "& \\multicolumn{4}{c}{zero-shot, all asked for} & " in latex
    assert "& \\multicolumn{4}{c}{single-shot} \\\\" in latex
    assert "$70.28 \\pm 13.22$" in latex
    assert "badge (under 4 of 4 conditions) fell behind npc by" in words
    assert not (path.parent / "figures").exists()


def test_holm_is_over_all_conditions(tmp_path):
    path = write_bench_report(shots(tmp_path).folder, "toys")
    lines = (path.parent / "tables" / "tests-npc.csv").read_text("utf-8").splitlines()
    head = lines[0].split(",")
    places = head.index("t_p"), head.index("t_holm")
    # Names of conditions hold a comma, so count from the end.
    rows = [line.rsplit(",", len(head) - 1) for line in lines[1:]]
    raw, corrected = zip(
        *((float(r[places[0]]), float(r[places[1]])) for r in rows), strict=True
    )
    assert min(corrected) == pytest.approx(4 * min(raw))


def test_holm_is_over_all_measures_and_references(tmp_path):
    strategies = tuple(Choice(name=name) for name in ("random", "npc", "badge"))
    bench = Bench(tmp_path, experiment(strategies=strategies))
    for seed in range(3):
        for number, name in enumerate(("random", "npc", "badge")):
            luck = 0.01 * ((seed * 7 + number * 3) % 5)
            bench.run(name, seed, [0.5, 0.6 + luck, 0.7 + 0.1 * number + luck])
    context = context_of(read_results(bench.folder, bench.experiment))
    tests = [comparison.test for comparison in context.comparisons]
    assert len(tests) == 2 * 2 * 2  # references, others, measures
    distinct = {
        (comparison.measure, *sorted((test.name, test.against))): test
        for comparison, test in zip(context.comparisons, tests, strict=True)
    }
    assert len(distinct) == 6  # random and npc are compared twice
    expected = holm([test.t_p for test in distinct.values()])
    assert [test.t_holm for test in distinct.values()] == pytest.approx(expected)
    for comparison in context.comparisons:  # the other way round it is the same
        key = (
            comparison.measure,
            *sorted((comparison.test.name, comparison.test.against)),
        )
        assert comparison.test.t_holm == distinct[key].t_holm


def test_seeds_that_ask_for_the_same_images_are_one_comparison(tmp_path):
    bench = Bench(tmp_path, experiment())
    for seed in range(3):
        bench.run("random", seed, [0.5, 0.6, 0.70 + seed / 99], picks=range(200, 220))
        bench.run("npc", seed, [0.5, 0.6, 0.90 + seed / 50], picks=range(300, 320))
    words = shown(bench)
    assert "no difference from random at 12 labels is significant" in words
    assert "differences of two seeds correlate by 1.00 at most" in words
    assert "npc at 12 labels +20.99 – to –" in words


def test_the_headline_says_what_the_areas_say(tmp_path):
    bench = Bench(tmp_path, experiment())
    for seed in range(3):
        bench.run("random", seed, [0.5, 0.60 + seed / 99, 0.80])
        bench.run("npc", seed, [0.5, 0.80 + seed / 98, 0.80 + (seed - 1) / 99])
    assert (
        "no difference from random at 12 labels is significant after Holm's "
        "correction. By the area under the curve, npc beat random by 10.0 points."
    ) in shown(bench)


def test_a_damaged_experiment_does_not_stop_the_report_of_another(tmp_path):
    bench = Bench(tmp_path, experiment())
    (bench.folder.path / "experiments" / "other.json").write_text("{")
    assert write_bench_report(bench.folder, "toys").exists()
    with pytest.raises(RunError, match=r"other\.json"):
        write_bench_report(bench.folder, "other")


def test_no_p_value_is_printed_beyond_what_ten_seeds_can_say(tmp_path):
    bench = Bench(tmp_path, experiment(seeds=tuple(range(10))))
    for seed in range(10):
        luck = 1e-4 * (seed * 7 % 5)
        bench.run("random", seed, [0.5, 0.1, 0.10], picks=range(100 * seed, 999))
        picks = range(40 + 100 * seed, 999)
        bench.run("npc", seed, [0.5, 0.8 + luck, 0.9 + luck], picks=picks)
    context = context_of(read_results(bench.folder, bench.experiment))
    assert min(c.test.t_p for c in context.comparisons) < 1e-10
    words = shown(bench)
    assert "< 0.001" in words.replace("\N{NO-BREAK SPACE}", " ")
    tables = (tmp_path / "reports" / "toys" / "tables").glob("*.tex")
    for text in (words, *(table.read_text("utf-8") for table in tables)):
        assert not re.search(r"\de-\d", text)


def test_intervals_of_accuracies_end_at_the_ends_of_the_scale(tmp_path):
    bench = Bench(tmp_path, experiment())
    for seed, accuracy in enumerate((0.97, 1.0, 1.0)):
        bench.run("random", seed, [0.5, 0.0 + (1 - accuracy), accuracy])
        bench.run("npc", seed, [0.5, 0.01 * seed, accuracy])
    shown(bench)
    file = tmp_path / "reports" / "toys" / "tables" / "accuracy.csv"
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["low"]]
    assert min(float(row["low"]) for row in rows) == 0
    assert max(float(row["high"]) for row in rows) in {1, 100}


@pytest.mark.parametrize("case", range(6))
def test_the_headline_never_contradicts_its_table(case, tmp_path):
    bench = Bench(tmp_path, experiment(seeds=tuple(range(5))))
    rng, lead = np.random.default_rng(case), (0.0, 0.02, 0.05, -0.02, -0.15, 0.2)[case]
    for seed in range(5):
        chance, luck = 0.6 + 0.02 * rng.normal(size=2)
        picks = range(200 * seed % 800, 999)
        bench.run("random", seed, [0.5, 0.55, chance], picks=picks)
        bench.run("npc", seed, [0.5, 0.55, luck + lead], picks=picks[40:])
    context = context_of(read_results(bench.folder, bench.experiment))
    (test,) = (
        c.test
        for c in context.comparisons
        if (c.test.name, c.test.against, c.measure) == ("npc", "random", "the end")
    )
    headline = finding(context).partition(" By the area")[0]
    is_clear = test.t_holm < 0.05
    assert ("no difference from random" in headline) is not is_clear
    assert ("npc beat random" in headline) is (is_clear and test.difference > 0)
    has_fallen = is_clear and test.difference < 0
    assert ("npc fell behind random" in headline) is has_fallen
    assert is_clear is (case > 3)
