"""Trainers, classifiers and kernels are held to their promises as strategies are."""

from dataclasses import replace

import pytest
import torch
from tests.experiments.conformance import broken_parts as parts
from tests.training.conftest import tiny_pool

from fewlabels.data import load
from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.experiments.conformance import check
from fewlabels.gram import wide_head_kernel
from fewlabels.models import build
from fewlabels.models.classifiers import NetworkClassifier
from fewlabels.rng import stream
from fewlabels.training import make


def by_name(thing, *args, **settings):
    return {finding.name: finding for finding in check(thing, *args, **settings)}


def failed(findings):
    return {
        finding.name for finding in findings.values() if finding.outcome == "failed"
    }


DIGITS = load("digits")  # libraries that read them draw while they are imported

BROKEN = [
    (
        parts.GivesAModule,
        "a classifier",
        "type Identity without outputs, sample_logits",
    ),
    (parts.ForgetsClasses, "a classifier", "has 9 classes and the pool 10"),
    (parts.GoesOn, "seeded", "equal pools and generators give logits that differ"),
    (parts.Labels, "pool untouched", "changed its input: pool.labels. Write"),
    (parts.LearnsNothing, "learns", r"\d+ of its own 60 labels right, and naming"),
    (parts.GivesNaN, "outputs", "NaN"),
    (parts.DividesByLabels, "no labels", r"ZeroDivisionError: .* \(broken_parts.py, l"),
    (parts.Pair, "outputs", "returned an object of type tuple; return protocols.Outp"),
    (parts.Flat, "outputs", r"Of 200 items, logits have shape \(2000,\)"),
    (parts.WithGradients, "outputs", "torch.float32 and carries gradients"),
    (parts.Infinite, "outputs", "infinit"),
    (parts.Training, "repeatable", "global generator of torch; put the network into"),
    (parts.Normalizing, "order", "no item's row may depend on the others"),
    (parts.Sorting, "order", r"row k belongs to indices\[k\]"),
    (parts.Samples, "samples", "draw from the generator that it is given"),
    (
        parts.Single,
        "values",
        r"type torch.float32; give a tensor of shape \(40, 2\) and",
    ),
    (parts.Lopsided, "symmetric", r"k\(i, j\) and k\(j, i\) differ by up to"),
    (parts.Negative, "semi-definite", "not positive semi-definite: .* eigenvalue -1"),
    (parts.OtherDiagonal, "diagonal", r"diagonal\(i\) and block\(i, i\) differ"),
    (parts.OneBlockOnly, "many blocks", r"have the shapes \(80, 4\) and \(2, 40, 2\)"),
    (parts.Scaled, "by position", "A part of a block and the whole block differ by up"),
    (parts.Noisy, "repeatable", "global generator of torch; draw what is random once"),
    (parts.Boastful, "semi-definite", "has rank 8, and rank_bound is 3"),
    (parts.OtherForm, "inner product", r"inner_product\(\) and block differ"),
]


@pytest.mark.parametrize(("make", "name", "said"), BROKEN)
def test_a_broken_promise_is_named_and_no_other(make, name, said, untouched_randomness):
    findings = by_name(make())
    assert failed(findings) == {name}
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(findings[name].detail)


def test_a_fault_that_breaks_two_promises_shows_twice():
    assert failed(by_name(parts.DrawsAnywhere())) == {"seeded", "global randomness"}


@pytest.mark.parametrize("make", [parts.Trainer, parts.ByPosition, parts.Kernel])
def test_good_parts_pass(make, untouched_randomness):
    assert failed(by_name(make())) == set()


def test_a_classifier_that_answers_by_position_is_told():
    finding = by_name(parts.ByPosition())["other images"]
    assert finding.outcome == "not promised"
    assert "wrong on a test split" in finding.detail
    assert by_name(parts.Trainer())["other images"].outcome == "passed"


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_network_is_a_classifier_that_passes(dropout):
    network = build("wrn-10-1", (1, 8, 8), 10, stream(0), dropout=dropout)
    network.train()
    findings = by_name(NetworkClassifier(network, 10))
    assert failed(findings) == set()
    wanted = "passed" if dropout else "refused"
    assert findings["samples"].outcome == wanted
    assert network.training


@pytest.mark.parametrize("make", [parts.last_layer, lambda: wide_head_kernel(ROWS)])
def test_kernels_of_the_package_pass(make):
    assert failed(by_name(make())) == set()


ROWS = torch.randn(70, 5, generator=stream(3, "rows"))


def test_a_trainer_of_the_package_passes():
    short = {"steps": 60, "minibatch_size": 16, "ema_decay": 0.8}
    findings = by_name("supervised", short)
    assert failed(findings) == set()
    assert "labels right" in findings["learns"].detail


def test_trainers_are_tried_on_the_data_that_are_given():
    trainer = make("supervised", steps=40, minibatch_size=4, ema_decay=0.8)
    findings = by_name(trainer, pool=tiny_pool(labeled=40))
    assert failed(findings) == set()
    assert findings["a classifier"].detail == "NetworkClassifier of 2 classes"


def test_the_kind_is_recognized_or_said():
    assert "distinct" in by_name("random")
    assert "symmetric" in by_name(
        "tests.experiments.conformance.broken_parts:last_layer"
    )
    assert "learns" in by_name("tests.experiments.conformance.broken_parts:Trainer")
    with pytest.raises(UsageError, match="methods of a trainer and a kernel"):
        by_name(parts.Ambiguous())
    assert failed(by_name(parts.Ambiguous(), kind="kernel")) == set()


@pytest.mark.parametrize(
    ("thing", "settings", "error", "message"),
    [
        (
            object(),
            {},
            UsageError,
            "object has the methods of none of these; give kind",
        ),
        (parts.Kernel, {}, UsageError, "none of these"),
        (parts.Kernel(), {"kind": "classifier"}, UsageError, "methods of a kernel"),
        (parts.Kernel(), {"kind": "kernl"}, UnknownNameError, "Did you mean 'kernel'"),
        ("npk", {}, UnknownNameError, "no strategy called 'npk'. Did you mean 'npc'"),
        (
            "nosuch:Own",
            {},
            UsageError,
            "strategy, trainer, classifier or kernel 'nosuch:",
        ),
        ("nosuch:Own", {"kind": "kernel"}, UsageError, "'nosuch'. Correct the name or"),
        ("fixmach", {"kind": "trainer"}, UnknownNameError, "Did you mean 'fixmatch'"),
        (
            "margin",
            {"pool": tiny_pool()},
            UsageError,
            "A strategy is checked on its own pools; leave the data out",
        ),
    ],
)
def test_what_cannot_be_checked_is_a_sentence(thing, settings, error, message):
    with pytest.raises(error, match=message):
        by_name(thing, **settings)


def test_data_without_labels_are_refused():
    bare = replace(DIGITS, labels=torch.full_like(DIGITS.labels, -1))
    with pytest.raises(UsageError, match="0 of 1297 items are labeled"):
        by_name(parts.Trainer(), pool=bare)
