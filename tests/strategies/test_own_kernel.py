"""A kernel of one's own in strategies: an object, a function, an import path."""

import sys

import numpy as np
import pytest
import torch
from tests.strategies import contract

import fewlabels
from fewlabels import gram, strategies
from fewlabels.errors import NotFiniteError, UsageError
from fewlabels.experiments.conformance import check
from fewlabels.names import identity
from fewlabels.protocols import Outputs

FEATURES = np.random.default_rng(1).normal(size=(60, 20))
MODULE = '''
import torch
from fewlabels import gram

def wide(outputs, pool):
    return gram.wide_head_kernel(outputs.features)

def half(outputs, pool):
    return gram.wide_head_kernel(outputs.features[:20])

def nothing(outputs, pool):
    return "a kernel"

class Squares:
    """(h.h' + 1)²: features of second order."""
    rank_bound = None

    def __init__(self, outputs, pool):
        self.rows = outputs.features[:].double()
        self.num_items = len(pool)

    def block(self, rows, columns):
        return (self.rows[rows] @ self.rows[columns].mT + 1).square()

    def diagonal(self, items):
        return (self.rows[items].square().sum(-1) + 1).square()
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module with kernels, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_kernels.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("own_kernels", None)


def chosen(name, kernel, **options):
    return fewlabels.select(
        name,
        features=FEATURES,
        logits=FEATURES[:, :3],
        labeled=range(6),
        labels=[0, 1, 2] * 2,
        size=5,
        seed=0,
        options={"kernel": kernel, **options},
    ).tolist()


@pytest.mark.parametrize("name", ["npc", "maxdet", "mlmoc", "ev-gp"])
def test_an_own_kernel_is_used_like_a_built_in_one(name, own):
    expected = chosen(name, "wide-head")
    assert expected != chosen(name, "last-layer")
    kernel = gram.wide_head_kernel(FEATURES)
    assert chosen(name, kernel) == expected
    assert (
        chosen(name, lambda outputs, _: gram.wide_head_kernel(outputs.features))
        == expected
    )
    assert chosen(name, "own_kernels:wide") == expected


def test_a_class_makes_a_kernel_that_only_fits_the_protocol(own):
    pool, classifier = contract.problem(0)
    strategy = strategies.resolve("npc", {"kernel": "own_kernels:Squares", "draws": 40})
    query = contract.chosen_by(strategy, pool, classifier)
    assert query.record["kernel"] == "own_kernels:Squares"
    rows = classifier.features.double()
    gram_NN = (rows @ rows.T + 1).square()
    members = torch.cat([pool.labeled, query.indices])
    least = torch.linalg.eigvalsh(gram_NN[members][:, members])[0]
    assert query.value == pytest.approx(float(least))


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        ("own_kernels:half", {}, "half' has 20 items; give all 60"),
        ("own_kernels:nothing", {}, "gave a str; it lacks"),
        ("own_kernels:absent", {}, "has no 'absent'"),
        ("own_kernels:wide", {"normalize": True}, "normalize has no effect on"),
        (3, {}, "kernel is 3; give a name, a kernel"),
    ],
)
def test_what_is_no_kernel_is_refused(kernel, options, message, own):
    with pytest.raises(UsageError, match=message):
        chosen("npc", kernel, **options)


class Table:
    """A kernel that breaks one promise."""

    num_items, rank_bound = len(FEATURES), None

    def __init__(self, **flaws):
        rows = torch.from_numpy(FEATURES)
        self.table = rows @ rows.T + torch.eye(len(rows))
        self.__dict__ |= flaws

    def block(self, rows, columns):
        return self.table[rows[..., :, None], columns[..., None, :]]

    def diagonal(self, items):
        return self.table.diagonal()[items]


def spoiled(change):
    """A kernel whose values, all of them, were changed in place."""
    kernel = Table()
    change(kernel.table)
    return kernel


SQUARE = Table().block
DIAGONAL = Table().diagonal


@pytest.mark.parametrize("name", ["npc", "maxdet"])
@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (spoiled(lambda k: k.triu_()), UsageError, r"block\(b, a\) transposed"),
        (
            spoiled(lambda k: k[41].fill_(torch.nan)),
            NotFiniteError,
            "first at index 41",
        ),
        (
            spoiled(lambda k: k[41, :41].fill_(torch.inf)),
            NotFiniteError,
            "first at index 41",
        ),
        (
            Table(block=lambda a, b: SQUARE(a, b)[:, 0]),
            UsageError,
            r"block .* Tensor \(60,\); return .* \(60, 30\)",
        ),
        (
            Table(block=lambda a, b: SQUARE(a, b)[:, :1]),
            UsageError,
            r"Tensor \(60, 1\); return .* \(60, 30\)",
        ),
        (
            Table(block=lambda a, b: SQUARE(a, b).numpy()),
            UsageError,
            "block .* returned a ndarray .*; return a Tensor",
        ),
        (
            Table(diagonal=lambda items: DIAGONAL(items)[1:]),
            UsageError,
            r"diagonal .* Tensor \(59,\); return .* \(60,\)",
        ),
        (
            Table(diagonal=lambda items: 2 * DIAGONAL(items)),
            UsageError,
            r"diagonal\(a\) is the diagonal of block\(a, a\)",
        ),
    ],
)
def test_a_kernel_that_breaks_a_promise_is_refused(name, kernel, error, message):
    assert len(chosen(name, Table())) == 5
    with pytest.raises(error, match=message):
        chosen(name, kernel)


def test_the_source_of_an_own_kernel_is_a_part_of_what_was_done(own):
    def made(kernel):
        strategy = strategies.resolve("maxdet", {"kernel": kernel})
        return identity(strategy)

    one = made("own_kernels:wide")
    assert one.source["own_kernels"] != "unknown"
    function = sys.modules["own_kernels"].wide
    assert made(function) == one
    (own / "own_kernels.py").write_text(f"{MODULE}\n# another one")
    sys.modules.pop("own_kernels")
    assert made("own_kernels:wide") == one  # a comment changes nothing
    changed = MODULE.replace("(outputs.features)", "(outputs.features[:])")
    (own / "own_kernels.py").write_text(changed)
    sys.modules.pop("own_kernels")
    said = one.changes(made("own_kernels:wide"))
    assert said == ["the source of 'own_kernels' is not what it was"]
    assert made("auto").options["kernel"] == "auto"
    assert not made("auto").source
    kernel = sys.modules["own_kernels"].Squares(Outputs(*[torch.ones(2, 2)] * 2), "ab")
    assert list(made(kernel).source) == ["own_kernels"]


def test_functions_that_make_kernels_are_checked(own):
    assert {found.outcome for found in check("own_kernels:wide")} <= {
        "passed",
        "not promised",
    }
    names = [found.name for found in check("own_kernels:Squares", kind="kernel")]
    assert "semi-definite" in names
    with pytest.raises(UsageError, match="gave a str"):
        list(check("own_kernels:nothing", kind="kernel"))
