import re
from pathlib import Path

import pytest

from fewlabels import strategies
from fewlabels.errors import UnknownNameError
from fewlabels.experiments.bench.published import (
    BALANCED_FIXMATCH,
    TABLE_1,
    TABLE_2,
    TABLE_3_SINGLE_SHOT,
    TABLE_3_ZERO_SHOT,
    passive_tests,
)
from fewlabels.experiments.evaluation import holm, welch

PAGE = Path(__file__).parents[3] / "docs" / "statistics.md"
TABLES = [TABLE_1, TABLE_2, TABLE_3_ZERO_SHOT, TABLE_3_SINGLE_SHOT]


def seven(reading):
    """Return the p value of NPC against Passive by data and labels."""
    return {
        (data, labels): test.p
        for data, table in (("CIFAR-10", TABLE_1), ("CIFAR-100", TABLE_2))
        for labels, test in passive_tests(table, reading).items()
    }


def test_as_sample_deviations_one_cell_of_seven_is_significant():
    found = seven("sample")
    assert len(found) == 7
    significant = {cell: p for cell, p in found.items() if p < 0.05}
    assert list(significant) == [("CIFAR-100", 700)]
    assert significant["CIFAR-100", 700] == pytest.approx(0.048, abs=0.0005)


def test_as_population_deviations_none_is():
    found = seven("population")
    assert len(found) == 7
    assert min(found.values()) == pytest.approx(0.083, abs=0.0005)


@pytest.mark.parametrize("reading", ["sample", "population"])
def test_after_holms_correction_none_is_and_yet_npc_is_always_ahead(reading):
    assert holm(list(seven(reading).values())).min() > 0.3
    for table in (TABLE_1, TABLE_2):
        assert all(test.t > 0 for test in passive_tests(table, reading).values())


def test_the_page_shows_what_the_code_computes():
    rows = re.findall(
        r"^\| (CIFAR-\d+) \| (\d+) \| (.+) \|$", PAGE.read_text("utf-8"), re.M
    )
    shown = {(data, int(labels)): rest.split(" | ") for data, labels, rest in rows}
    sample, population = seven("sample"), seven("population")
    assert list(shown) == list(sample)
    for (data, labels), (passive, npc, p_sample, p_population) in shown.items():
        table = {"CIFAR-10": TABLE_1, "CIFAR-100": TABLE_2}[data]
        for strategy, said in (("random", passive), ("npc", npc)):
            cell = table.cell(strategy, labels)
            assert said == f"{cell.mean:.2f} ± {cell.deviation:.2f}"
        assert p_sample == f"{sample[data, labels]:.3f}"
        assert p_population == f"{population[data, labels]:.3f}"


def test_what_the_page_says_below_the_table_is_computed_too():
    text = " ".join(PAGE.read_text("utf-8").split())
    sample, population = (
        list(seven("sample").values()),
        list(seven("population").values()),
    )
    assert f"at 700 labels, p = {min(sample):.3f})" in text
    assert f"(the smallest p is {min(population):.3f})" in text
    assert f"becomes {holm(sample).min():.3f} and {holm(population).min():.3f}" in text
    # 0.34 and 0.01, of 1,000 random images after the same 1,000 of 50,000:
    # tests/experiments/evaluation/test_overlaps.py


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_a_table_is_whole(table):
    wanted = [(s, labels) for s in table.strategies for labels in table.num_labels]
    assert [(cell.strategy, cell.num_labels) for cell in table.cells] == wanted
    assert set(table.strategies) <= set(strategies.names())
    assert table.trials == 3
    assert all(0 < cell.deviation < cell.mean < 100 for cell in table.cells)
    assert len(table.query_sizes) == len(table.num_labels)


@pytest.mark.parametrize(
    ("table", "means", "deviations"),
    [
        (TABLE_1, 1316.56, 65.35),
        (TABLE_2, 901.76, 27.03),
        (TABLE_3_ZERO_SHOT, 372.85, 7.41),
        (TABLE_3_SINGLE_SHOT, 343.00, 22.48),
    ],
)
def test_all_cells_add_up_to_what_the_paper_prints(table, means, deviations):
    assert sum(cell.mean for cell in table.cells) == pytest.approx(means)
    assert sum(cell.deviation for cell in table.cells) == pytest.approx(deviations)


def test_the_columns_follow_from_start_and_queries():
    for table in TABLES[:2]:  # one query after the other
        steps = zip(
            (table.num_start, *table.num_labels), table.query_sizes, strict=False
        )
        assert tuple(labels + query for labels, query in steps) == table.num_labels
    for table in TABLES[2:]:  # each column from the start
        found = tuple(table.num_start + query for query in table.query_sizes)
        assert found == table.num_labels


def test_the_best_means_are_those_that_the_paper_sets_in_bold():
    def best(table, labels):
        column = [table.cell(strategy, labels) for strategy in table.strategies]
        return max(column, key=lambda cell: cell.mean).strategy

    # With 30 labels nothing is bold.
    first = [best(TABLE_1, labels) for labels in (30, 50, 70)]
    assert first == ["margin", "npc", "npc"]
    second = [best(TABLE_2, labels) for labels in (300, 500, 700, 900)]
    assert second == ["npc", "albl", "npc", "npc"]
    assert [*first, *second].count("npc") == 5


def test_what_the_text_of_the_paper_says_about_its_numbers():
    assert TABLE_1.start_accuracy < TABLE_1.cell("random", 30).mean
    assert TABLE_2.start_accuracy < TABLE_2.cell("badge", 300).mean
    # "comparable to BADGE on single-shot but under-performing both on zero-shot"
    badge = TABLE_3_SINGLE_SHOT.cell("badge", 40)
    assert abs(badge.mean - BALANCED_FIXMATCH) < badge.deviation
    for strategy in ("badge", "npc"):
        assert TABLE_3_ZERO_SHOT.cell(strategy, 40).mean > BALANCED_FIXMATCH


def test_what_the_text_claims_and_the_tables_show():
    def means(table, strategy):
        return [table.cell(strategy, labels).mean for labels in table.num_labels]

    def num_above(table, strategy, other):
        pairs = zip(means(table, strategy), means(table, other), strict=True)
        return sum(ours > theirs for ours, theirs in pairs)

    assert (TABLE_1.start_accuracy, TABLE_2.start_accuracy) == (57.64, 21.29)
    # "NPC achieves very high performance at 50"
    assert TABLE_1.cell("npc", 50).mean == 94.63
    # "older algorithms performing better" than BADGE: in every cell
    for table in (TABLE_1, TABLE_2):
        for older in ("margin", "albl"):
            assert num_above(table, older, "badge") == len(table.num_labels)
    # "some AL algorithms under-perform PL": BADGE in six cells of seven
    assert num_above(TABLE_1, "random", "badge") == 2
    assert num_above(TABLE_2, "random", "badge") == 4
    # "increasing performances when incrementally acquiring more labels": not these
    assert means(TABLE_1, "random")[2] < means(TABLE_1, "random")[1]
    assert means(TABLE_1, "badge")[2] < means(TABLE_1, "badge")[1]
    # "NPC excels in both zero and single shot": not with 60 labels and no network
    assert num_above(TABLE_3_ZERO_SHOT, "npc", "badge") == 1
    assert num_above(TABLE_3_SINGLE_SHOT, "npc", "badge") == 2
    # "BADGE performs worse on single-shot AL with a larger query size"
    fallen, robust = (means(TABLE_3_SINGLE_SHOT, name) for name in ("badge", "npc"))
    assert fallen[1] < fallen[0] < min(means(TABLE_3_ZERO_SHOT, "badge"))
    # "NPC remains nearly unaffected by which model is used"
    pairs = zip(robust, means(TABLE_3_ZERO_SHOT, "npc"), strict=True)
    assert max(abs(one - other) for one, other in pairs) < 1


def test_npc_comes_first_and_three_trials_are_taken():
    assert passive_tests(TABLE_1)[30] == welch(85.09, 9.61, 3, 78.08, 5.48, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TABLE_1.cell("coreset", 30), "no cell called 'coreset at 30'"),
        (lambda: TABLE_1.cell("npc", 40), "no cell called 'npc at 40'"),
        (lambda: passive_tests(TABLE_3_ZERO_SHOT), "no cell called 'random at 40'"),
    ],
)
def test_what_the_paper_does_not_print_is_refused(call, message):
    with pytest.raises(UnknownNameError, match=message):
        call()
