"""What was picked: overlaps and copies."""

import pytest
from tests.report.benches import POOL_SIZE, Bench, condition, experiment
from tests.report.test_page import text_of

from fewlabels.experiments.bench.folder import read_results
from fewlabels.experiments.evaluation import chance_overlap
from fewlabels.experiments.settings import Choice
from fewlabels.report import write_bench_report
from fewlabels.report.bench_picks import copies_in, overlaps_of
from fewlabels.report.bench_sections import context_of

PICKS = {
    "random": {0: [100, 101, 102, 103, 104, 105, 106, 107], 1: range(200, 208)},
    "npc": {0: [100, 101, 302, 303, 104, 305, 306, 307], 1: range(300, 308)},
}


@pytest.fixture
def bench(tmp_path):
    strategies = (Choice(name="random"), Choice(name="npc"))
    asked = experiment(
        strategies=strategies, seeds=(0, 1), figures=("accuracy", "overlap")
    )
    made = Bench(tmp_path, asked)
    for name, by_seed in PICKS.items():
        for seed, picks in by_seed.items():
            made.run(name, seed, [0.5, 0.6, 0.7 + seed / 50], picks=list(picks))
    return made


def overlaps(bench):
    results = read_results(bench.folder, bench.experiment)
    (one,) = context_of(results).conditions
    return overlaps_of(one, 3)


def test_fair_overlap_is_per_trial_and_without_the_start(bench):
    (first, _), (last, _) = overlaps(bench)
    assert (first.num_labels, last.num_labels) == (8, 12)
    # Seed 0: two of 4 + 4 picks are common, seed 1: none.
    assert first.shares[0, 1] == first.shares[1, 0] == (2 / 6 + 0) / 2
    assert last.shares[0, 1] == (3 / 13 + 0) / 2
    # npc against itself on the other seed: 302 and 303 of 4 + 4; with all, 5 of 11.
    assert first.shares[1, 1] == 2 / 6
    assert last.shares[1, 1] == 5 / 11
    assert last.shares[0, 0] == 0
    assert last.chance == chance_overlap(POOL_SIZE - 4, 8, 8)


def test_the_papers_overlap_is_of_unions_with_the_start(bench):
    _, (_, last) = overlaps(bench)
    sets = {
        name: {*range(4), *range(10, 14), *by_seed[0], *by_seed[1]}
        for name, by_seed in PICKS.items()
    }
    shared = len(sets["random"] & sets["npc"])
    assert last.shares[0, 1] == shared / len(sets["random"] | sets["npc"])
    assert last.chance == pytest.approx(chance_overlap(POOL_SIZE - 8, 16, 16, shared=8))


def test_overlaps_stand_on_the_page_and_in_the_data(bench):
    path = write_bench_report(bench.folder, "toys")
    words = text_of(path)
    assert "As in the paper: unions over the trials, starting labels left in" in words
    _, (fair, unions) = overlaps(bench)
    own, chance = 100 * fair.shares[0, 1], 100 * fair.chance
    assert f"12 random 0.0 {own:.1f} {chance:.1f}" in words
    assert f"12 random – {100 * unions.shares[0, 1]:.1f}" in words
    lines = (path.parent / "tables" / "overlap.csv").read_text("utf-8").splitlines()
    assert lines[0] == "Labels,Strategy,random,npc,chance"
    assert lines[3] == f"12,random,0.0,{own:.1f},{chance:.1f}"


def copies(item):
    """Name items so that three in a row are copies."""
    return f"a#b{item // 3}#{item % 3}"


def test_copies_are_counted_query_by_query(tmp_path):
    asked = experiment(
        conditions=(condition(start=1, query=4, budget=9),),
        seeds=(0,),
        figures=("redundancy",),
    )
    bench = Bench(tmp_path, asked)
    # Item 0 is the start: 1 copies it; 31 and 32 copy 30; then 2 copies the start.
    bench.run("random", 0, [0.5, 0.6, 0.7], picks=[1, 30, 31, 32, 2, 60, 90, 91],
              name=copies)  # fmt: skip
    bench.run("npc", 0, [0.5, 0.6, 0.7], picks=range(120, 144, 3), name=copies)
    (one,) = read_results(bench.folder, asked).conditions
    assert copies_in(one.runs("random")) == [(8, 5 / 8)]
    assert copies_in(one.runs("npc")) == [(8, 0)]
    path = write_bench_report(bench.folder, "toys")
    words = text_of(path)
    assert "random 62.5 62.5 8 1" in words
    assert "npc 0.0 0.0 8 1" in words


def test_no_overlap_of_what_was_not_picked(tmp_path):
    bench = Bench(tmp_path, experiment(figures=("overlap",)))
    bench.run("random", 0, [0.5])
    assert overlaps(bench) == []
    write_bench_report(bench.folder, "toys")
