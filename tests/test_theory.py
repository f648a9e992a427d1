"""Theorem 1, as far as it can be measured: a wide network, sets of digits."""

import json
from itertools import pairwise
from math import e, prod

import pytest
import torch
from benchmarks import theory
from benchmarks.two_layers import GramKernel, TwoLayers

from fewlabels.gram import wide_head_kernel
from fewlabels.rng import stream

WIDTH, SIZE = 512, 12


def network(width=WIDTH, num_inputs=5):
    return TwoLayers.draw(num_inputs, width, stream(0, "network"))


def rows(count=4, num_inputs=5):
    drawn = torch.randn(count, num_inputs, generator=stream(1, "rows")).double()
    return drawn / drawn.norm(dim=1, keepdim=True)


def gradients_naive(net, inputs):
    """Gradients of each output by all weights, by automatic differentiation."""
    inner, outer = net.inner.requires_grad_(), net.outer.requires_grad_()
    outputs = net.scale * (inputs @ inner.T).relu() @ outer
    parts = [torch.autograd.grad(f, (inner, outer), retain_graph=True) for f in outputs]
    return torch.stack([torch.cat([w.flatten(), a]) for w, a in parts])


def test_the_gram_matrix_agrees_with_automatic_differentiation():
    gradients = gradients_naive(network(64), rows())
    expected = gradients @ gradients.T
    torch.testing.assert_close(network(64).gram(rows()), expected)


def test_a_step_agrees_with_automatic_differentiation():
    net, targets = network(64), torch.tensor([1.0, -1, 1, -1]).double()
    residuals = net(rows()) - targets
    after = net.stepped(rows(), residuals, 0.01)
    change = -0.01 * residuals @ gradients_naive(network(64), rows())
    torch.testing.assert_close((after.inner - net.inner).flatten(), change[: 64 * 5])
    torch.testing.assert_close(after.outer - net.outer, change[64 * 5 :])


def test_a_very_wide_network_has_the_wide_head_kernel():
    inputs = torch.cat([rows(), torch.ones(4, 1)], dim=1)  # that kernel appends a 1
    wide = network(200_000, num_inputs=6).gram(inputs)
    items = torch.arange(4)
    expected = wide_head_kernel(rows()).block(items, items)
    torch.testing.assert_close(wide, expected, atol=0.05, rtol=0)


def test_a_small_step_moves_residuals_by_the_gram_matrix():  # Lemma 1, first order
    net, targets = network(), torch.tensor([1.0, -1, 1, -1]).double()
    residuals, rate = net(rows()) - targets, 1e-6
    moved = net.stepped(rows(), residuals, rate)(rows()) - targets
    expected = -rate * net.gram(rows()) @ residuals
    torch.testing.assert_close(moved - residuals, expected, rtol=1e-3, atol=1e-10)


def test_the_kernel_of_a_matrix_gives_blocks():
    matrix = torch.arange(9.0).reshape(3, 3)
    kernel = GramKernel(matrix)
    draws = torch.tensor([[0, 2], [1, 1]])
    assert kernel.num_items == 3
    assert kernel.diagonal(torch.tensor([2, 0])).tolist() == [8, 0]
    assert kernel.block(draws, draws)[0].tolist() == [[0, 2], [6, 8]]


@pytest.fixture(scope="module")
def descents():
    return {row.rule: row for row in theory.descents(seed=0, size=SIZE, width=WIDTH)}


def test_the_loss_decays_at_least_as_fast_as_promised(descents):  # Theorem 1
    for row in descents.values():
        assert row.share_kept >= 0.99
        assert row.bounds[-1] <= theory.PROMISE * row.losses[0]
        assert prod(1 - rate / 2 for rate in row.rates) <= theory.PROMISE
        assert row.losses[-1] <= row.bounds[-1]


def test_the_kernel_hardly_moves_while_a_wide_network_learns(descents):
    for row in descents.values():
        assert row.rates[0] == pytest.approx(row.smallest / row.largest)
        assert row.drift < 0.25


def test_chosen_sets_are_better_conditioned_and_promise_more(descents):
    chance, npc, greedy = (descents[rule] for rule in theory.RULES)
    assert chance.smallest < npc.smallest < greedy.smallest
    assert greedy.steps_promised < npc.steps_promised < chance.steps_promised


def test_a_step_that_breaks_the_bound_is_counted():
    row = theory.Descent("npc", 0, 1.0, 2.0, losses=[8.0, 4, 4], rates=[0.5, 0.5])
    assert row.bounds == [8, 6, 4.5]
    assert row.share_kept == 0.5
    assert row.share_linear == 0
    assert row.steps_needed == 2
    assert row.drift == 0


def test_figures_and_picture_are_written(tmp_path, monkeypatch, capsys, descents):
    monkeypatch.setattr(theory, "descents", lambda *_: list(descents.values()))
    out, picture = tmp_path / "theory.json", tmp_path / "theory.png"
    words = ["theory", "--seeds", "1", "--out", str(out), "--picture", str(picture)]
    monkeypatch.setattr("sys.argv", words)
    theory.main()
    assert "npc-greedy" in capsys.readouterr().out
    found = json.loads(out.read_text())
    assert found["rules"]["npc"]["share_kept"] >= 0.99
    assert [row["rule"] for row in found["descents"]] == list(theory.RULES)
    assert 10_000 < picture.stat().st_size < 150_000


# ------------------------------------------- the paper's appendix, line by line

TARGETS = torch.tensor([1.0, -1, 1, -1]).double()


def residuals_of(net):
    return net(rows()) - TARGETS


def gradient_of(net):
    """Gradient of half the sum of squares by all weights."""
    copy = TwoLayers(net.inner.clone(), net.outer.clone())
    return residuals_of(net) @ gradients_naive(copy, rows())


def loss_of(net):
    return float(residuals_of(net).square().sum()) / 2


def course(rate, steps=20):
    """A network before each step of gradient descent."""
    net = network()
    for _ in range(steps):
        yield net
        net = net.stepped(rows(), residuals_of(net), rate)


def left_over(net, rate):
    """ξ of Lemma 1: by how much a step falls short of its first order."""
    after = net.stepped(rows(), residuals_of(net), rate)
    gained = rate * float(gradient_of(net).square().sum())
    return loss_of(after) - loss_of(net) + gained


def test_the_constants_of_near_convexity_are_eigenvalues():  # Definition 2, Lemma 2
    rate = 1 / float(torch.linalg.eigvalsh(network().gram(rows()))[-1])
    for net in course(rate):
        values = torch.linalg.eigvalsh(net.gram(rows()))
        squared = float(gradient_of(net).square().sum())
        assert 2 * float(values[0]) * loss_of(net) <= squared * (1 + 1e-9)
        assert squared <= 2 * float(values[-1]) * loss_of(net) * (1 + 1e-9)


def test_the_recursion_holds_as_printed():  # Lemma 1, Eq. (7)
    rate = 1 / float(torch.linalg.eigvalsh(network().gram(rows()))[-1])
    for net in course(rate):
        after = net.stepped(rows(), residuals_of(net), rate)
        epsilon = float((after(rows()) - net(rows())).square().sum()) / 2
        smallest = float(torch.linalg.eigvalsh(net.gram(rows()))[0])
        bound = (1 - rate * smallest) * loss_of(net) + left_over(net, rate) + epsilon
        assert loss_of(after) <= bound * (1 + 1e-9)


def test_what_is_left_over_is_the_printed_integral():  # Lemma 1, ξ
    net, rate, num_parts = network(), 0.1, 200
    now, integral = gradient_of(net), 0.0
    for part in range(num_parts):
        way = net.stepped(rows(), residuals_of(net), rate * (part + 0.5) / num_parts)
        integral += rate / num_parts * float(now @ (now - gradient_of(way)))
    assert integral == pytest.approx(left_over(net, rate), rel=1e-3)


def test_the_lines_of_the_proof_of_lemma_1():
    rate = 1 / float(torch.linalg.eigvalsh(network().gram(rows()))[-1])
    for net in course(rate, steps=5):
        after, errors = net.stepped(rows(), residuals_of(net), rate), -residuals_of(net)
        moved, squared = after(rows()) - net(rows()), 2 * loss_of(net)
        # Eq. (8) with the sum of squares is an equality.
        expanded = squared + float(moved @ moved) - 2 * float(errors @ moved)
        assert 2 * loss_of(after) == pytest.approx(expanded)
        # h'(0) = K e, and eᵀ K e is at least λmin |e|².
        first = net.gram(rows()) @ errors
        smallest = float(torch.linalg.eigvalsh(net.gram(rows()))[0])
        assert float(errors @ first) >= smallest * squared * (1 - 1e-9)
        # The last substitution: printed with the other sign and without ε.
        remainder = float(errors @ (moved - rate * first))
        epsilon = float(moved @ moved) / 2
        assert remainder == pytest.approx(epsilon - left_over(net, rate), rel=1e-6)


def test_what_is_left_over_falls_with_the_square_of_the_step():  # Lemma 3, ξ
    ratio = left_over(network(), 2e-2) / left_over(network(), 1e-2)
    assert ratio == pytest.approx(4, rel=0.1)


def test_outputs_move_by_at_most_the_largest_eigenvalue():  # Lemma 3, ε
    largest = float(torch.linalg.eigvalsh(network().gram(rows()))[-1])
    for net in course(0.5 / largest):
        after = net.stepped(rows(), residuals_of(net), 0.5 / largest)
        moved = float((after(rows()) - net(rows())).square().sum())
        squared = float(gradient_of(net).square().sum())
        assert moved <= 1.1 * (0.5 / largest) ** 2 * largest * squared


def test_the_loss_is_semi_smooth_with_a_small_first_constant():  # Lemma 2
    net, slope, drawn = network(), gradient_of(network()), stream(6, "direction")
    largest = float(torch.linalg.eigvalsh(net.gram(rows()))[-1])
    # With α from √M on, the line needs no gradient, whose length is at most √(M L).
    alpha, beta = 0.01 * (2 * largest) ** 0.5, largest / 2
    random = torch.randn(len(slope), generator=drawn).double()
    for direction in (slope, -slope, random):
        for length in (0.01, 0.1, 1.0, 4.0):
            change = direction * (length / direction.norm())
            inner, outer = change[: WIDTH * 5].reshape(WIDTH, 5), change[WIDTH * 5 :]
            there = loss_of(TwoLayers(net.inner + inner, net.outer + outer))
            first = loss_of(net) + float(slope @ change)
            rest = alpha * loss_of(net) ** 0.5 * length + beta * length**2
            assert there <= first + rest


def test_smoothness_bounds_how_much_gradients_differ():  # Proposition 2
    matrix = torch.randn(6, 4, generator=stream(2, "matrix")).double()
    beta = float(torch.linalg.eigvalsh(matrix.T @ matrix)[-1]) / 2  # α is zero
    x, y = torch.randn(2, 100, 4, generator=stream(3, "points")).double()
    moved = y - x
    gradients = moved @ matrix.T @ matrix
    products = (gradients * moved).sum(dim=1)
    assert (products <= 2 * beta * moved.square().sum(dim=1)).all()
    top = torch.linalg.eigh(matrix.T @ matrix).eigenvectors[:, -1]
    assert float(top @ matrix.T @ matrix @ top) == pytest.approx(2 * beta)


def test_a_part_of_a_step_needs_the_factor_that_is_not_printed():  # Definition 1
    for curvature in (0.3, 1.0, 4.0):  # g(x) = λ x² / 2 with α = 0
        beta, constant = curvature / 2, 2 * curvature  # of both definitions, μ = M
        for part in (0.1, 0.5, 1.0):
            start = 1.7
            value, slope = curvature * start**2 / 2, curvature * start
            after = curvature * (start - part * slope) ** 2 / 2
            smooth = value - part * slope**2 + beta * (part * slope) ** 2
            assert after == pytest.approx(smooth)
            mended = 1 - part * constant + beta * constant * part**2
            assert after == pytest.approx(mended * value)
            printed = 1 - part * constant + beta * part**2
            assert (after > printed * value) == (constant > 1)


def test_the_root_of_the_loss_after_a_part_of_a_step():  # with the printed b and c
    alpha, mu, bound, beta, part = (
        torch.rand(5, 1000, generator=stream(4, "constants")).double() * 5 + 0.01
    )
    inside = 1 + part * (alpha * bound.sqrt() - mu) + beta * part**2
    b = (alpha * bound.sqrt() - mu) / (2 * beta)
    c = 1 / beta - b**2
    torch.testing.assert_close(inside, beta * ((part + b) ** 2 + c))
    root = beta.sqrt() * (part + b.abs() + c.abs().sqrt())
    assert (inside.clamp(min=0).sqrt() <= root * (1 + 1e-9)).all()


def test_a_step_of_hidden_units_is_linear_but_for_bounded_factors():  # Prop. 3 and 4
    net = network()
    after = net.stepped(rows(), residuals_of(net), 1.0)
    first, second = (rows() @ one.inner.T for one in (net, after))
    slopes = (second.relu() - first.relu()) / (second - first)
    factors = (slopes - (first > 0).double())[second != first]
    assert ((first > 0) != (second > 0)).any()
    assert float(factors.abs().max()) <= 1


@pytest.mark.parametrize("width", [256, 4096])
def test_hidden_layers_have_norms_of_order_one(width):  # Proposition 5 prints o(1)
    hidden = network(width).scale * (rows() @ network(width).inner.T).relu()
    torch.testing.assert_close(
        hidden.norm(dim=1), torch.ones(4).double(), atol=0.2, rtol=0
    )


def layers_of(weights, inputs):
    """Values before each ReLU, and the inputs with the values after each."""
    befores, afters = [], [inputs]
    for weight in weights:
        befores.append(afters[-1] @ weight.T)
        afters.append(befores[-1].relu())
    return befores, afters


def deep_network(sizes):
    drawn = stream(5, "deep network")
    shapes = ((after, before) for before, after in pairwise(sizes))
    return [
        torch.randn(shape, generator=drawn).double() * (2 / shape[0]) ** 0.5
        for shape in shapes
    ]


def factors_between(befores, moved):
    """D + D̃ of each layer: a difference after a ReLU as a share of that before it."""
    pairs = zip(befores, moved, strict=True)
    return [
        torch.where(a == b, (a > 0).double(), (b.relu() - a.relu()) / (b - a))
        for a, b in pairs
    ]


def test_a_step_of_a_deep_network_expands_as_printed():  # Propositions 3 and 4
    weights, rate = deep_network([5, 64, 64, 64]), 1e-3
    outer = torch.randn(64, generator=stream(7, "outer")).double()

    def loss(*weights):
        _, afters = layers_of(weights, rows())
        return (afters[-1] @ outer - TARGETS).square().sum() / 2

    slopes = torch.func.grad(loss, argnums=(0, 1, 2))(*weights)
    befores, afters = layers_of(weights, rows())
    stepped = [w - rate * slope for w, slope in zip(weights, slopes, strict=True)]
    befores_moved, moved = layers_of(stepped, rows())
    factors = factors_between(befores, befores_moved)
    for before, factor in zip(befores, factors, strict=True):
        assert float((factor - (before > 0).double()).abs().max()) <= 1
    assert any(((factor > 0) & (factor < 1)).any() for factor in factors)
    for last in range(3):
        expected = torch.zeros(4, 64).double()
        for layer in range(last + 1):
            term = factors[layer] * (moved[layer] @ slopes[layer].T)
            for later in range(layer + 1, last + 1):
                term = factors[later] * (term @ weights[later].T)
            expected -= rate * term
        torch.testing.assert_close(moved[last + 1] - afters[last + 1], expected)


def test_products_of_layers_grow_no_faster_than_the_root_of_the_depth():  # Proposition 5
    weights = deep_network([5] + [256] * 9)
    befores, _ = layers_of(weights, rows()[:1])
    befores_moved, _ = layers_of([1.01 * weight for weight in weights], rows()[:1])
    factors = factors_between(befores, befores_moved)
    product, norms = factors[0].diag_embed()[0], []
    for weight, factor in zip(weights[1:], factors[1:], strict=True):
        product = factor.T * (weight @ product)
        norms.append(float(torch.linalg.matrix_norm(product, ord=2)))
    for num_weights, norm in enumerate(norms, start=1):
        # Of wide random matrices: the root of (k + 1)^(k + 1) / k^k, at most e (k + 1).
        assert norm <= 1.1 * (e * (num_weights + 1)) ** 0.5
    assert norms[-1] > 1.5 * norms[0]
