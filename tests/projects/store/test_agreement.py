"""Consensus and kappas, against scikit-learn and a published example."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from tests.projects.store.toy import fill, label

from fewlabels.errors import UsageError
from fewlabels.projects.store import (
    Kind,
    Verdict,
    agreement,
    cohen_kappa,
    consensus,
    fleiss_kappa,
)

FLEISS_1971 = [  # ten patients, fourteen raters, five diagnoses; kappa is 0.210
    (0, 0, 0, 0, 14),
    (0, 2, 6, 4, 2),
    (0, 0, 3, 5, 6),
    (0, 3, 9, 2, 0),
    (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0),
    (3, 2, 6, 3, 0),
    (2, 5, 3, 2, 2),
    (6, 5, 2, 1, 0),
    (0, 2, 2, 3, 7),
]


def verdict(item, annotator, class_number):
    return Verdict(
        item=item,
        annotator=annotator,
        kind=Kind.LABEL,
        class_number=class_number,
        sequence=1,
        uuid="u",
        server_time=datetime(2026, 1, 1, tzinfo=UTC),
        round=None,
        strategy=None,
        model=None,
    )


pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1)


@given(pairs)
def test_cohen_is_scikit_learns(both):
    one, other = zip(*both, strict=True)
    if len({*one, *other}) == 1:
        assert cohen_kappa(one, other) is None  # scikit-learn warns and says nan
    else:
        assert cohen_kappa(one, other) == pytest.approx(cohen_kappa_score(one, other))


def test_fleiss_is_the_published_one():
    votes = [dict(enumerate(row)) for row in FLEISS_1971]
    assert fleiss_kappa(votes) == pytest.approx(0.210, abs=5e-4)


def test_kappa_is_one_where_all_agree_and_open_where_it_says_nothing():
    assert fleiss_kappa([{0: 3}, {1: 2}, {2: 4}]) == pytest.approx(1)
    assert fleiss_kappa([{0: 3}, {0: 2}]) is None
    assert fleiss_kappa([]) is None


def test_agreement_takes_each_two_and_all():
    labels = [
        verdict(f"i{number}", name, choice)
        for name, choices in (("ann", "0011"), ("bob", "0111"), ("cem", "--1-"))
        for number, choice in enumerate(choices)
        if choice != "-"
    ]
    labels = [verdict(v.item, v.annotator, int(v.class_number)) for v in labels]
    found = agreement([*labels, verdict("alone", "dee", 1)])
    assert found.num_items == 4
    assert found.cohen == {
        ("ann", "bob"): 0.5,
        ("ann", "cem"): None,
        ("bob", "cem"): None,
    }
    votes = [{0: 2}, {0: 1, 1: 1}, {1: 3}, {1: 2}]
    assert found.fleiss == pytest.approx(fleiss_kappa(votes))


def test_consensus_wants_enough_labels_and_more_than_half():
    labels = [verdict("a", "x", 1), verdict("a", "y", 1), verdict("a", "z", 0)]
    labels += [verdict("b", "x", 1), verdict("b", "y", 0)]
    labels += [verdict("c", "x", 2)]
    a, b, c = consensus(labels, overlap=2)
    assert (a.class_number, a.votes, a.is_disputed) == (1, {1: 2, 0: 1}, False)
    assert (b.class_number, b.is_complete, b.is_disputed) == (None, True, True)
    assert (c.class_number, c.is_complete, c.is_disputed) == (None, False, False)
    assert [one.class_number for one in consensus(labels)] == [1, None, 2]
    with pytest.raises(UsageError, match="overlap is 0; it must be at least 1"):
        consensus(labels, overlap=0)


def test_the_store_measures_its_current_labels(store):
    one, two, three = fill(store)
    store.append([label(one, 0), label(two, 1), label(three, 1)])
    store.append([label(one, 0, "bob"), label(two, 0, "bob")])
    store.append([label(two, 1, "bob")])  # he changed his mind
    assert agreement(store.labels()).cohen == {("ann", "bob"): 1.0}
    assert [c.class_number for c in consensus(store.labels(), 2)] == [0, 1, None]
