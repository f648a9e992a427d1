import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import combinations
from multiprocessing import get_context

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import reference
from tests.sizes import seeds

from fewlabels.errors import BudgetError, ShapeError, UnknownNameError, UsageError
from fewlabels.gram import last_layer_kernel, wide_head_kernel
from fewlabels.rng import stream
from fewlabels.search import (
    blocks,
    maximize_smallest_eigenvalue,
    refutation,
    uniform_subsets,
)

SEEDS = st.integers(0, 2**31 - 1)


def problem(seed, *, num_labeled, width=40, kind="plain", build=None):
    """A kernel with labeled items and candidates; rank-deficient or with copies."""
    chance = stream(seed, "problem")
    features = torch.randn(120, width, generator=chance, dtype=torch.float64)
    if kind == "clusters":
        features = features[:10].repeat(12, 1) + 0.3 * features
    if kind == "copies":
        features[60:] = features[:60]
    if kind == "low rank":
        features[:, 5:] = 0
    build = build or (lambda f: last_layer_kernel(f, 3))
    order = torch.randperm(120, generator=chance)
    return build(features), order[:num_labeled], order[num_labeled:].sort().values


def search(kernel, labeled, candidates, size, **options):
    arguments = {"generator": stream(1)} | options
    return maximize_smallest_eigenvalue(
        kernel, labeled=labeled, candidates=candidates, size=size, **arguments
    )


def values_of(kernel, labeled, draws):
    everything = torch.arange(kernel.num_items)
    gram = kernel.block(everything, everything)
    values = reference.draw_values(gram, labeled, draws)
    return gram, torch.tensor(values, dtype=torch.float64)


@given(
    seed=SEEDS,
    num_labeled=st.integers(0, 60),
    size=st.integers(1, 30),
    kind=st.sampled_from(["plain", "clusters", "copies", "low rank"]),
    width=st.sampled_from([20, 60, 100]),
)
def test_random_is_exactly_the_best_of_its_draws(seed, num_labeled, size, kind, width):
    kernel, labeled, candidates = problem(
        seed, num_labeled=num_labeled, kind=kind, width=width
    )
    draws = uniform_subsets(candidates, size, seed, range(150))
    gram, values = values_of(kernel, labeled, draws)
    largest = float(torch.linalg.eigvalsh(gram)[-1])
    found = search(kernel, labeled, candidates, size, draws=draws)
    best, second = values.sort(descending=True).values[:2].tolist()
    assert found.value == pytest.approx(best, abs=1e-9 * largest)
    assert found.value <= found.ceiling
    if best - second > 1e-8 * largest:
        assert found.indices.tolist() == draws[values.argmax()].tolist()
    if best > 1e-7 * largest:
        assert not found.is_tie


@pytest.mark.parametrize("num_labeled", [0, 7, 30])
@pytest.mark.parametrize("compiled", [True, False])
def test_compiled_and_library_screens_agree(num_labeled, compiled, monkeypatch):
    kernel, labeled, candidates = problem(3, num_labeled=num_labeled, kind="clusters")
    monkeypatch.setattr(refutation, "_WORTH_COMPILING", 0 if compiled else 10**9)
    draws = uniform_subsets(candidates, 9, 5, range(1500))
    _, values = values_of(kernel, labeled, draws)
    found = search(kernel, labeled, candidates, 9, draws=draws)
    assert found.indices.tolist() == draws[values.argmax()].tolist()
    assert found.num_refuted > 1000


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_compiled_form_is_the_kernel(normalize, bias, dtype):
    features = torch.randn(30, 7, generator=stream(0)).to(dtype)
    kernel = last_layer_kernel(features, 5, bias=bias, normalize=normalize)
    form = kernel.inner_product()
    rows = torch.from_numpy(form.features).double()
    scales = torch.from_numpy(form.scales)
    gram = scales[:, None] * scales * (rows @ rows.T + form.offset)
    everything = torch.arange(30)
    torch.testing.assert_close(gram, kernel.block(everything, everything))


@pytest.mark.parametrize("solver", ["dense", "lobpcg"])
@pytest.mark.parametrize("num_labeled", [0, 10])
def test_every_solver_gives_the_same_set(solver, num_labeled):
    kernel, labeled, candidates = problem(4, num_labeled=num_labeled)
    fast = search(kernel, labeled, candidates, 6, draws=60)
    named = search(kernel, labeled, candidates, 6, draws=60, solver=solver)
    assert named.indices.tolist() == fast.indices.tolist()
    assert named.num_refuted == 0


class ByMail:
    """An executor whose work travels as bytes, as to another machine."""

    def __init__(self):
        self.parts = 0

    def map(self, function, parts):
        for part in parts:
            self.parts += 1
            yield pickle.loads(pickle.dumps(function))(part)


def test_nothing_depends_on_who_tries_the_draws(monkeypatch):
    kernel, labeled, candidates = problem(5, num_labeled=8, kind="clusters")
    monkeypatch.setattr(refutation, "_LARGEST_CHUNK", 400)
    whole = search(kernel, labeled, candidates, 7, draws=5000)
    monkeypatch.setattr(blocks, "_WORTH_SHARING", 1)
    mail = ByMail()
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as processes:
        for executor in (processes, ThreadPoolExecutor(3), mail, None):
            torch.set_num_threads(2)
            try:
                parts = search(
                    kernel, labeled, candidates, 7, draws=5000, executor=executor
                )
                assert torch.get_num_threads() == 2
            finally:
                torch.set_num_threads(1)
            found = (parts.indices.tolist(), parts.value, parts.num_refuted)
            assert found == (whole.indices.tolist(), whole.value, whole.num_refuted)
    assert mail.parts > 10


@pytest.mark.parametrize("width", [4, 40])
def test_what_does_not_fit_is_worked_out_for_the_drawn_items(width, monkeypatch):
    kernel, labeled, candidates = problem(5, num_labeled=6, kind="copies", width=width)
    options = {"draws": 5000, "tie_tolerance": 0.5}
    whole = search(kernel, labeled, candidates, 5, **options)
    monkeypatch.setattr(refutation, "_MOST_NUMBERS", 0)
    parts = search(kernel, labeled, candidates, 5, **options)
    assert whole.is_tie == (width == 4)
    assert parts.indices.tolist() == whole.indices.tolist()
    assert parts.num_refuted == whole.num_refuted


def test_threads_are_given_back_after_an_error():
    kernel, labeled, candidates = problem(5, num_labeled=8)
    torch.set_num_threads(2)
    try:
        with pytest.raises(ShapeError):
            search(kernel, labeled, candidates, 7, draws=torch.zeros(3, 5))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_chunks_do_not_change_the_choice(monkeypatch):
    kernel, labeled, candidates = problem(5, num_labeled=8, kind="clusters")
    options = {"draws": 5000}
    whole = search(kernel, labeled, candidates, 7, **options)
    monkeypatch.setattr(refutation, "_FIRST_GENERATION", 13)
    monkeypatch.setattr(refutation, "_LARGEST_CHUNK", 100)
    again = search(kernel, labeled, candidates, 7, **options)
    assert again.indices.tolist() == whole.indices.tolist()


def test_there_are_as_many_draws_as_candidates_by_default():
    kernel, labeled, candidates = problem(6, num_labeled=20)
    found = search(kernel, labeled, candidates, 2)
    assert found.num_draws == 100


def test_many_draws_share_one_labeled_block():  # paper, Sec. 3.4
    kernel, labeled, candidates = problem(8, num_labeled=15)
    asked = []

    class Counting:
        num_items, rank_bound = kernel.num_items, kernel.rank_bound
        diagonal = staticmethod(kernel.diagonal)

        def block(self, rows, columns):
            inside = [torch.isin(items, labeled).sum(-1) for items in (rows, columns)]
            asked.append(int((inside[0] * inside[1]).sum()))
            return kernel.block(rows, columns)

    found = search(Counting(), labeled, candidates, 3, draws=3000)
    assert found.num_refuted > 2900
    assert 15**2 <= sum(asked) <= 20 * 15**2  # chunks, not draws, ask for it


def test_copies_are_taken_where_no_other_set_is_drawn():  # where Proposition 1 ends
    kernel, _, _ = problem(9, num_labeled=0, kind="copies")
    found = search(
        kernel, [0], range(1, 120), 2, draws=torch.tensor([[5, 65], [1, 60]])
    )
    assert found.is_tie
    assert found.value == pytest.approx(0, abs=1e-9)
    assert found.num_draws == 2


@pytest.mark.parametrize("build", [None, wide_head_kernel])
@pytest.mark.parametrize("num_labeled", [0, 12])
def test_greedy_adds_the_best_item_each_time(num_labeled, build):
    kernel, labeled, candidates = problem(7, num_labeled=num_labeled, build=build)
    found = search(kernel, labeled, candidates, 5, method="greedy")
    everything = torch.arange(120)
    gram = kernel.block(everything, everything)
    expected = reference.greedy_additions(gram, labeled, candidates, 5)
    assert found.indices.tolist() == expected


def small_problem(seed):
    """Sixty items of full rank, and how far rounding can move an eigenvalue."""
    chance = stream(seed, "small")
    features = torch.randn(60, 64, generator=chance, dtype=torch.float64)
    features *= torch.rand(60, 1, generator=chance, dtype=torch.float64) + 0.5
    order = torch.randperm(60, generator=chance)
    num_labeled = seed % 20
    kernel = last_layer_kernel(features, 3)
    everything = torch.arange(60)
    gram = kernel.block(everything, everything)
    rounding = 1e-13 * float(torch.linalg.eigvalsh(gram)[-1])
    return kernel, gram, order[:num_labeled], order[num_labeled:], rounding


@pytest.mark.parametrize("seed", seeds(20))
def test_greedy_leaves_no_better_item_in_any_step(seed):
    kernel, gram, labeled, candidates, rounding = small_problem(seed)
    chosen = search(kernel, labeled, candidates, 8, method="greedy").indices.tolist()
    for step, item in enumerate(chosen):
        members = [*labeled.tolist(), *chosen[:step]]
        values = reference.addition_values(gram, members, candidates)
        assert values[item] >= max(values.values()) - rounding


@pytest.mark.parametrize("seed", seeds(20))
def test_exchange_leaves_no_swap_that_helps(seed):
    kernel, gram, labeled, candidates, rounding = small_problem(seed)
    found = search(kernel, labeled, candidates, 8, method="exchange")
    chosen = found.indices.tolist()
    for item in chosen:
        others = [*labeled.tolist(), *(other for other in chosen if other != item)]
        values = reference.addition_values(gram, others, candidates)
        assert values[item] == pytest.approx(found.value, abs=rounding)
        assert found.value >= max(values.values()) - rounding


@pytest.mark.parametrize("method", ["greedy", "exchange"])
def test_next_to_the_limit_the_value_decides_not_the_residual(method):
    rows = torch.tensor([[1.0, 0, 0], [0.3, 10, 0], [0, 0, 2]], dtype=torch.float64)
    kernel = last_layer_kernel(rows, 1, bias=False)
    found = search(kernel, torch.tensor([0]), torch.tensor([1, 2]), 1, method=method)
    assert found.indices.tolist() == [2]
    assert found.value == pytest.approx(1, abs=1e-15)


def test_among_items_that_reach_the_limit_the_least_explained_is_added():
    # All three candidates leave the value at 1 exactly; only their lengths differ.
    rows = torch.diag(torch.tensor([1.0, 2, 4, 3], dtype=torch.float64))
    kernel = last_layer_kernel(rows, 1, bias=False)
    found = search(kernel, torch.tensor([0]), torch.arange(1, 4), 2, method="greedy")
    assert found.indices.tolist() == [2, 3]


@given(seed=SEEDS, kind=st.sampled_from(["plain", "clusters", "copies"]))
@settings(max_examples=20)
def test_exchange_is_never_below_greedy(seed, kind):
    kernel, labeled, candidates = problem(seed, num_labeled=6, kind=kind, width=20)
    greedy = search(kernel, labeled, candidates, 4, method="greedy")
    found = search(kernel, labeled, candidates, 4, method="exchange")
    assert found.value >= greedy.value - 1e-9 * abs(greedy.value)
    assert found.value <= found.ceiling
    assert len(set(found.indices.tolist())) == 4


@pytest.mark.parametrize("method", ["random", "greedy", "exchange"])
def test_copies_are_not_chosen_while_there_are_others(method):  # Proposition 1
    kernel, labeled, candidates = problem(8, num_labeled=5, kind="copies")
    draws = 4000 if method == "random" else None
    found = search(kernel, labeled, candidates, 6, method=method, draws=draws)
    members = [index % 60 for index in [*found.indices.tolist(), *labeled.tolist()]]
    assert len(set(members)) == 11


def test_where_nothing_is_better_than_zero_copies_decide():
    kernel, labeled, candidates = problem(9, num_labeled=6, kind="copies", width=4)
    draws = uniform_subsets(candidates, 5, 1, range(400))
    found = search(kernel, labeled, candidates, 5, draws=draws)
    assert found.is_tie
    repeats = [
        reference.num_repeats(
            [i % 60 for i in draw], [i % 60 for i in labeled.tolist()]
        )
        for draw in draws.tolist()
    ]
    assert found.indices.tolist() == draws[repeats.index(min(repeats))].tolist()


def test_where_nothing_is_better_than_zero_the_residual_decides():
    # Two labeled copies make every value zero; what they leave open still differs.
    features = torch.randn(30, 12, generator=stream(3), dtype=torch.float64)
    features[1] = features[0]
    kernel, labeled = last_layer_kernel(features, 2), torch.tensor([0, 1])
    candidates = torch.arange(2, 30)
    draws = uniform_subsets(candidates, 4, 2, range(200))
    found = search(kernel, labeled, candidates, 4, draws=draws)
    everything = torch.arange(30)
    gram = kernel.block(everything, everything)
    residuals = reference.residual_values(gram, labeled, draws)
    assert found.is_tie
    assert (
        found.indices.tolist() == draws[int(torch.tensor(residuals).argmax())].tolist()
    )


def test_near_the_ceiling_the_residual_decides_if_asked():
    kernel, labeled, candidates = problem(10, num_labeled=40, kind="clusters", width=80)
    draws = uniform_subsets(candidates, 1, 2, range(300))
    everything = torch.arange(120)
    gram = kernel.block(everything, everything)
    _, values = values_of(kernel, labeled, draws)
    plain = search(kernel, labeled, candidates, 1, draws=draws)
    near = search(kernel, labeled, candidates, 1, draws=draws, tie_tolerance=0.05)
    assert plain.indices.tolist() == draws[values.argmax()].tolist()
    inside = torch.nonzero(values >= 0.95 * plain.ceiling).flatten()
    assert len(inside) > 3
    residuals = torch.tensor(reference.residual_values(gram, labeled, draws[inside]))
    assert near.indices.tolist() == draws[inside[residuals.argmax()]].tolist()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"method": "gredy"}, UnknownNameError, "Did you mean 'greedy'"),
        ({"solver": "dens"}, UnknownNameError, "no solver called 'dens'"),
        ({"tie_tolerance": 2.0}, UsageError, "it must be at least 0 and below 1"),
        ({"executor": 2}, UsageError, "executor is int; give one with map"),
        (
            {"draws": 2.5},
            UsageError,
            "draws is 2.5, of type float; give a whole number",
        ),
        ({"draws": 0}, BudgetError, "draws is 0; give 1 to"),
        ({"draws": 10**30}, BudgetError, "give 1 to 1,000,000,000,000 sets"),
        ({"draws": torch.zeros(3, 5)}, ShapeError, r"draws are .* \(3, 5\)"),
        ({"draws": torch.tensor([[3, 3]])}, UsageError, "1 draws hold an item twice"),
        (
            {"draws": torch.tensor([[3, 500]])},
            UsageError,
            "and 1 others than candidates",
        ),
    ],
)
def test_wrong_arguments_are_named(arguments, error, message):
    kernel, labeled, candidates = problem(4, num_labeled=2)
    with pytest.raises(error, match=message):
        search(kernel, labeled, candidates, 2, **arguments)


@pytest.mark.parametrize("factor", [1e5, 1e6, 1e7])
def test_one_long_row_does_not_blur_the_others(factor):
    features = torch.randn(40, 16, generator=stream(6), dtype=torch.float64)
    features[39] *= factor
    kernel, labeled = last_layer_kernel(features, 10), torch.arange(3)
    candidates = torch.arange(3, 40)
    draws = uniform_subsets(candidates, 3, 8, range(500))
    _, values = values_of(kernel, labeled, draws)
    random = search(kernel, labeled, candidates, 3, draws=draws)
    greedy = search(kernel, labeled, candidates, 3, method="greedy")
    assert not random.is_tie
    assert not greedy.is_tie
    assert random.indices.tolist() == draws[values.argmax()].tolist()
    assert greedy.value > 0.9 * random.value


@pytest.mark.parametrize("seed", range(20))
def test_copies_that_share_angles_with_others_are_seen(seed):
    pairs = torch.zeros(15, 6, dtype=torch.float64)
    for row, (i, j) in zip(pairs, combinations(range(6), 2), strict=True):
        row[i] = row[j] = 1
    shuffled = pairs[torch.randperm(15, generator=stream(seed, "pairs"))]
    kernel = last_layer_kernel(torch.cat([shuffled, shuffled]), 2)
    draws = uniform_subsets(torch.arange(30), 8, seed, range(200))
    found = search(kernel, torch.arange(0), torch.arange(30), 8, draws=draws)
    repeats = [
        reference.num_repeats([i % 15 for i in draw], []) for draw in draws.tolist()
    ]
    chosen = reference.num_repeats([i % 15 for i in found.indices.tolist()], [])
    assert found.is_tie
    assert chosen == min(repeats)


@pytest.mark.parametrize(
    ("labeled", "candidates", "message"),
    [
        ([0], [-1, 2, 3], "candidates run from -1 to 3"),
        ([0], [1, 1, 2], "only 2 distinct"),
        ([0, 2], [1, 2, 3], "1 candidates are labeled"),
        ([500], [1, 2], "labeled run from 500 to 500"),
    ],
)
def test_sets_that_cannot_be_are_refused(labeled, candidates, message):
    kernel, _, _ = problem(0, num_labeled=0)
    with pytest.raises(UsageError, match=message):
        search(kernel, torch.tensor(labeled), torch.tensor(candidates), 1)
