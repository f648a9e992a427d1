"""The page of an experiment: right numbers, nothing from outside, the same twice."""

from importlib.resources import files

import numpy as np
import pytest
from tests.report.benches import Bench, condition, experiment
from tests.report.test_page import check_sound, read, text_of

from fewlabels.errors import UnknownNameError
from fewlabels.experiments.bench.experiment import plan
from fewlabels.experiments.bench.folder import read_results
from fewlabels.experiments.bench.published import TABLE_1
from fewlabels.experiments.bench.runner import work
from fewlabels.experiments.evaluation import (
    area_under_curve,
    labels_saved,
    paired_tests,
    retraining_noise,
)
from fewlabels.experiments.settings import Choice
from fewlabels.report import write_bench_report
from fewlabels.report.bench import _NAMES
from fewlabels.report.figures import COLORS, HUES

CURVES = {
    "random": ([0.5, 0.60, 0.70], [0.4, 0.62, 0.69], [0.6, 0.61, 0.74]),
    "npc": ([0.5, 0.70, 0.81], [0.4, 0.69, 0.78], [0.6, 0.74, 0.84]),
}


def toy(path, **changed):
    bench = Bench(path, experiment(**changed))
    for name, curves in CURVES.items():
        for seed, curve in enumerate(curves):
            bench.run(name, seed, curve)
    return bench


def retrained(path):
    made = toy(path, retrainings=3, figures=("accuracy", "overlap"))
    made.retrain([0.80, 0.82, 0.81])
    return made


@pytest.fixture
def bench(tmp_path):
    return retrained(tmp_path)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of such a benchmark, for those who only read it."""
    return write_bench_report(retrained(tmp_path_factory.mktemp("b")).folder, "toys")


def test_the_numbers_are_those_of_the_statistics(page):
    shown = text_of(page)
    ends = {name: np.array(curves)[:, -1] for name, curves in CURVES.items()}
    for name, values in ends.items():
        mean, deviation = values.mean(), values.std(ddof=1)
        assert f"{100 * mean:.2f} ± {100 * deviation:.2f}" in shown, name
    (test,) = paired_tests(ends, against="random")
    assert (
        f"npc at 12 labels +{100 * test.difference:.2f} +{100 * test.low:.2f} to "
        f"+{100 * test.high:.2f} +{test.effect_size:.2f} {test.t_p:.3f} "
        f"{2 * test.t_p:.3f} {test.wilcoxon_p:.3f} {2 * test.wilcoxon_p:.3f} 3 of 3"
    ) in shown  # Holm's two tests are those at the end and by the area
    areas = {
        name: area_under_curve([4, 8, 12], curves) for name, curves in CURVES.items()
    }
    area = areas["npc"]
    assert f"{100 * area.mean():.2f} ± {100 * area.std(ddof=1):.2f}" in shown
    (by_area,) = paired_tests(areas, against="random")
    assert f"npc AUBC +{100 * by_area.difference:.2f}" in shown
    noise = retraining_noise([0.80, 0.82, 0.81])
    assert f"{100 * noise.low:.2f} and {100 * noise.high:.2f} points" in shown


def test_savings_are_those_of_the_statistics(page):
    savings = labels_saved([4, 8, 12], CURVES["npc"], CURVES["random"])
    expected = " ".join(one.worth for one in savings[1:])
    assert f"Labels Strategy 8 12 npc {expected}" in text_of(page)


def test_the_finding_is_what_the_test_says(page, tmp_path):
    shown = text_of(page)
    assert "On 3 paired seeds, npc beat random by 10.0 points at 12 labels." in shown
    assert "All 6 runs are finished: 2 strategies, 1 condition and 3 seeds." in shown
    assert "3 paired seeds can show only large differences" in shown
    assert "Toys (not the paper's scale)" in shown
    other = Bench(tmp_path / "other", experiment(title="Twins", scale="paper"))
    for seed, (one, two) in enumerate([(0.7, 0.72), (0.71, 0.7), (0.74, 0.73)]):
        other.run("random", seed, [0.5, 0.6, one]).run("npc", seed, [0.5, 0.6, two])
    shown = text_of(write_bench_report(other.folder, "toys"))
    assert (
        "With 3 paired seeds, no difference from random at 12 labels is significant "
        "after Holm's correction." in shown
    )
    assert "not the paper's scale" not in shown.lower()


def test_sections_in_the_order_that_the_experiment_is_about(page, tmp_path):
    anchors = [attrs["id"] for tag, attrs in read(page).tags if tag == "h2"]
    assert anchors[:4] == ["warnings", "accuracy", "overlap", "comparison"]
    plain = read(write_bench_report(toy(tmp_path / "plain").folder, "toys"))
    anchors = [attrs["id"] for tag, attrs in plain.tags if tag == "h2"]
    assert anchors == [
        "warnings", "accuracy", "comparison", "savings", "overlap", "cost", "facts",
        "files", "words",
    ]  # fmt: skip


def test_time_and_memory(page):
    assert "npc 0.5 0.5 120 6 11.5" in text_of(page)


def test_names_are_escaped_everywhere(tmp_path):
    evil = '<b>&"$x_1$'
    asked = experiment(
        title=f"T {evil}",
        about=evil,
        conditions=(condition(f"one {evil}"), condition("two", budget=8)),
        strategies=(Choice(name="random"), Choice(name=evil)),
        figures=("accuracy", "overlap", "redundancy"),
    )
    bench = Bench(tmp_path, asked)
    for seed in asked.seeds:
        for number, ends in enumerate(([0.5, 0.6, 0.7 + seed / 50], [0.5, 0.6])):
            bench.run("random", seed, ends, number)
            bench.run(evil, seed, [0.5, 0.61 + seed / 90, 0.8][: len(ends)], number)
    bench.fail(evil, 0, evil)
    bench.note(evil, 1, evil)
    path = write_bench_report(bench.folder, "toys")
    check_sound(path)
    assert evil not in path.read_text("utf-8")
    assert text_of(path).count(evil) > 10
    latex = (path.parent / "tables" / "tests-random.tex").read_text("utf-8")
    assert r'$<$b$>$\&"\$x\_1\$' in latex


def test_the_same_results_give_the_same_bytes(bench, tmp_path):
    first = write_bench_report(bench.folder, "toys", out=tmp_path / "first").parent
    second = write_bench_report(bench.folder, "toys", out=tmp_path / "second").parent
    names = sorted(p.relative_to(first) for p in first.rglob("*") if p.is_file())
    assert {p.suffix for p in names} == {".html", ".png", ".svg", ".csv", ".tex"}
    assert names == sorted(
        p.relative_to(second) for p in second.rglob("*") if p.is_file()
    )
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    figures = {p.stem for p in names if p.parts[0] == "figures"}
    assert figures == {"curves"}
    assert not (bench.folder.report_folder("toys")).exists()


def test_a_report_removes_what_an_earlier_one_wrote_and_nothing_else(tmp_path):
    bench = toy(tmp_path)
    path = write_bench_report(bench.folder, "toys").parent
    tables, figures = path / "tables", path / "figures"
    names = {file.stem for file in (*tables.iterdir(), *figures.iterdir())}
    assert {name.partition("-")[0] for name in names} <= set(_NAMES)
    earlier = [tables / "cost-mnist.csv", figures / "curves-mnist.png"]
    others = [tables / "mine.csv", tables / "accuracy.txt", figures / "plot.svg"]
    for file in (*earlier, *others):
        file.write_text("kept", "utf-8")
    write_bench_report(bench.folder, "toys")
    assert not any(file.exists() for file in earlier)
    assert all(file.read_text("utf-8") == "kept" for file in others)
    assert (tables / "accuracy.csv").exists()


def test_published_numbers_stand_beside_ours(tmp_path):
    asked = experiment(
        conditions=(condition(start=10, query=20, budget=70),),
        seeds=(0, 1),
        published=(TABLE_1,),
    )
    bench = Bench(tmp_path, asked)
    for seed in asked.seeds:
        bench.run("random", seed, [0.5, 0.7, 0.8, 0.9 + seed / 100])
        bench.run("npc", seed, [0.5, 0.75, 0.85, 0.95 - seed / 50])
    path = write_bench_report(bench.folder, "toys")
    words = text_of(path)
    assert "npc 50.00 ± 0.00 75.00 ± 0.00 85.09 ± 9.61" in words
    latex = (path.parent / "tables" / "accuracy.tex").read_text("utf-8")
    assert "& 70 & 70, paper &" in latex
    assert "$90.50 \\pm 0.71$ & $91.00 \\pm 2.78$ &" in latex
    record = (
        (path.parent / "tables" / "accuracy.csv").read_text("utf-8").split("\n")[-2]
    )
    assert record.endswith("0.9485,0.0002")


def test_an_unknown_experiment(bench):
    with pytest.raises(UnknownNameError, match="'toys'"):
        write_bench_report(bench.folder, "toyz")


def test_figures_have_the_colors_of_a_light_page():
    style = (files("fewlabels.report") / "style.css").read_text("utf-8")
    light = style[: style.index("@media")]
    for number, color in enumerate(HUES):
        assert f"--hue-{number}: {color};" in light
        assert style.count(f"--hue-{number}:") == 3  # light, dark and print
    for name, color in COLORS.items():
        assert f"--{name}: {color};" in light


def test_a_benchmark_that_was_really_run(tmp_path):
    asked = experiment(
        conditions=(
            condition(
                data=Choice(name="digits"),
                trainer=Choice(
                    name="tests.experiments.runs.toy:Resuming", options={"steps": 6}
                ),
                start=10,
                query=5,
                budget=20,
            ),
        ),
        strategies=(
            Choice(name="random"),
            Choice(name="tests.experiments.runs.toy:FirstOnes"),
        ),
        seeds=(0, 1),
        retrainings=2,
        figures=("accuracy", "overlap"),
    )
    bench = Bench(tmp_path, asked)
    for cell in plan(asked).all:
        assert work(str(tmp_path), cell.settings.model_dump_json()) is None
    results = read_results(bench.folder, asked)
    (one,) = results.conditions
    shown = text_of(write_bench_report(bench.folder, "toys"))
    assert "All 4 runs are finished" in shown
    for name in one.strategies:
        for mean, deviation in zip(
            one.accuracies(name).mean(axis=0),
            one.accuracies(name).std(axis=0, ddof=1),
            strict=True,
        ):
            assert f"{100 * mean:.2f} ± {100 * deviation:.2f}" in shown
    assert "Trainer tests.experiments.runs.toy:Resuming (steps = 6)" in shown
