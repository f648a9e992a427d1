import pytest
from tests.experiments.conformance import broken

from fewlabels.experiments.conformance import check


def by_name(strategy, **settings):
    return {finding.name: finding for finding in check(strategy, **settings)}


def failed(findings):
    return {
        finding.name for finding in findings.values() if finding.outcome == "failed"
    }


BROKEN = [
    (broken.Repeats, "distinct", r"It chose item \d+ 2 times in a query of"),
    (broken.PicksLabeled, "candidates only", r"picked \[\d+\], which are labeled, wi"),
    (broken.PicksWithheld, "candidates only", r"picked \[\d+\], which are labeled, w"),
    (broken.PicksBeyond, "candidates only", r"It picked \[60\], .* not in the pool of"),
    (broken.AsksTheSystem, "seeded", r"gave the items \[[\d, ]+\] and then \["),
    (broken.ReadsShared, "seeded", r"gave the items \[[\d, ]+\] and then \["),
    (broken.AnotherValueEachTime, "seeded", "gave the value"),
    (broken.SeedsShared, "global randomness", "the global generator of torch;"),
    (broken.ChangesLabels, "inputs untouched", "changed its input: pool.labels. Wri"),
    (broken.ChangesFeatures, "inputs untouched", "its input: classifier.features. W"),
    (broken.Remembers, "no memory", "attributes changed with a call: calls"),
    (broken.KeepsTheFirst, "no memory", "attributes changed with a call: rows"),
    (broken.WritesTensors, "record", r"record is {'scores': tensor"),
    (broken.WritesPairs, "record", r"record\['pair'\] is \(1, 2\) and comes back"),
    (broken.GivesAList, "a query", "returned a list; return a Query"),
    (broken.GivesOneLess, "a query", "4 of 42 candidates, not 5"),
    (broken.NeedsTwo, "any size", r"ValueError: too few \(broken.py, line \d+, in spo"),
    (broken.NeedsLabels, "no labels", r"JSONDecodeError: .+ \(broken.py, line \d+"),
    (broken.NeedsSpread, "constant features", "It failed: SystemExit: 3"),
    (broken.LooksAtPositions, "order", "and in another order"),
    (broken.TakesLess, "too many", "did not refuse. It chose 42 of 42"),
]


@pytest.mark.parametrize(("kind", "name", "said"), BROKEN)
def test_a_broken_promise_is_named_and_no_other(kind, name, said, untouched_randomness):
    findings = by_name(kind())
    assert failed(findings) == {name}
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(findings[name].detail)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (broken.IgnoresSeed, {"seeded", "global randomness"}),
        (broken.CountsInside, {"seeded", "no memory"}),
        (broken.RemembersElsewhere, {"seeded", "no memory"}),
    ],
)
def test_a_fault_that_breaks_two_promises_shows_twice(kind, names):
    findings = by_name(kind())
    assert failed(findings) == names
    assert findings["order"].outcome == "not run"
    assert "mend 'seeded' first" in findings["order"].detail


def test_what_is_kept_outside_the_strategy_is_noticed():
    detail = by_name(broken.RemembersElsewhere())["no memory"].detail
    assert "after a call with another pool" in detail


def test_nothing_is_judged_by_an_answer_that_is_none():
    findings = by_name(broken.GivesAList())
    others = {
        finding.outcome for finding in findings.values() if finding.name != "a query"
    }
    assert others == {"not run"}


def test_a_good_strategy_passes_and_may_refuse():
    findings = by_name(broken.Farthest())
    assert failed(findings) == set()
    assert findings["no labels"].outcome == "refused"
    assert "label an item first" in findings["no labels"].detail
    assert findings["order"].outcome == "passed"


def test_an_unpromised_order_is_not_held_against_it():
    assert by_name("random")["order"].outcome == "not promised"


def test_other_seeds_choosing_otherwise_is_told():
    assert "choose otherwise" in by_name("random")["seeded"].detail
    assert "choose the same" in by_name("entropy")["seeded"].detail
