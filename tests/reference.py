"""Slow twins: each follows a definition as plainly as possible, for comparison."""

import itertools
import math

import numpy as np
import torch
from torch import nn


def last_layer_gram(features, num_classes):
    """Trace of the class blocks of J J^T, by autograd, logit by logit."""
    layer = nn.Linear(features.shape[1], num_classes, dtype=torch.float64)
    gradients = []
    for row in features.double():
        per_class = []
        for number in range(num_classes):
            layer.zero_grad()
            layer(row)[number].backward()
            per_class.append(torch.cat([p.grad.flatten() for p in layer.parameters()]))
        gradients.append(torch.stack(per_class))
    gram = torch.zeros(len(features), len(features), dtype=torch.float64)
    for i, j in itertools.product(range(len(features)), repeat=2):
        gram[i, j] = (gradients[i] @ gradients[j].T).trace()
    return gram


def wide_head_gram(features, width, generator):
    """Gram matrix of all gradients of a finite ReLU network on [h; 1], by autograd.

    f(x) = sqrt(2 / width) a . relu(W x) with standard normal a and W.
    """
    rows = torch.cat([features, torch.ones(len(features), 1)], dim=1).double()
    inner = torch.randn(width, rows.shape[1], generator=generator).double()
    outer = torch.randn(width, generator=generator).double()
    weights = [inner.requires_grad_(), outer.requires_grad_()]
    gradients = []
    for row in rows:
        output = math.sqrt(2 / width) * outer @ torch.relu(inner @ row)
        parts = torch.autograd.grad(output, weights)
        gradients.append(torch.cat([part.flatten() for part in parts]))
    gradients = torch.stack(gradients)
    return gradients @ gradients.T


def best_draw(gram, labeled, draws):
    """The first subset with the largest smallest eigenvalue, one draw at a time."""
    best, value = None, -math.inf
    for subset in draws.tolist():
        members = [*labeled.tolist(), *subset]
        spectrum = torch.linalg.eigvalsh(gram[members][:, members])
        if float(spectrum[0]) > value:
            best, value = subset, float(spectrum[0])
    return best, value


def probabilities(logits):
    """Softmax of each row in plain Python."""
    rows = []
    for row in logits.double().tolist():
        powers = [math.exp(entry - max(row)) for entry in row]
        rows.append([power / sum(powers) for power in powers])
    return rows


def margin_scores(rows):
    """Lead of the largest entry over the second, negated: larger is less certain."""
    return [-(sorted(row)[-1] - sorted(row)[-2]) for row in rows]


def least_confidence_scores(rows):
    """Largest entry, negated."""
    return [-max(row) for row in rows]


def entropy_scores(rows):
    """Shannon entropy in nats."""
    return [-sum(p * math.log(p) for p in row if p > 0) for row in rows]


def full_last_layer_gram(features, num_classes):
    """Gram matrix of all pairs of item and class, by autograd: (n C, n C)."""
    layer = nn.Linear(features.shape[1], num_classes, dtype=torch.float64)
    return _full_gram(layer, layer, features.double())


def softmax_gram(features, weight, bias):
    """Trace of the class blocks of J J^T for softmax outputs, by autograd."""
    layer = nn.Linear(features.shape[1], len(bias), dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return _class_trace(
        _full_gram(lambda row: layer(row).softmax(-1), layer, features.double()),
        len(bias),
    )


def network_gram(module, inputs, num_classes, parameters=None):
    """Tangent kernel of a network, by autograd, logit by logit."""
    full = _full_gram(lambda row: module(row[None])[0], module, inputs, parameters)
    return _class_trace(full, num_classes)


def jacobian(function, module, inputs, parameters=None):
    """Gradients of every output for every item, (n, outputs, parameters)."""
    parameters = list(module.parameters()) if parameters is None else parameters
    of_items = []
    for row in inputs:
        outputs = function(row)
        of_items.append([])
        for output in outputs:
            parts = torch.autograd.grad(output, parameters, retain_graph=True)
            of_items[-1].append(torch.cat([part.flatten() for part in parts]))
        of_items[-1] = torch.stack(of_items[-1])
    return torch.stack(of_items)


def _full_gram(function, module, inputs, parameters=None):
    rows = jacobian(function, module, inputs, parameters).flatten(0, 1)
    return rows @ rows.T


def _class_trace(full, num_classes):
    num_items = len(full) // num_classes
    blocks = full.reshape(num_items, num_classes, num_items, num_classes)
    return torch.einsum("icjc->ij", blocks)


def draw_values(gram, labeled, draws):
    """Smallest eigenvalue of each draw with the labeled items, one at a time."""
    values = []
    for subset in draws.tolist():
        members = [*labeled.tolist(), *subset]
        values.append(float(torch.linalg.eigvalsh(gram[members][:, members])[0]))
    return values


def residual_values(gram, labeled, draws):
    """Smallest eigenvalue of K_SS - K_SL K_LL^+ K_LS of each draw."""
    inverse = torch.linalg.pinv(gram[labeled][:, labeled], hermitian=True, rtol=1e-12)
    values = []
    for subset in draws.tolist():
        cross = gram[subset][:, labeled]
        schur = gram[subset][:, subset] - cross @ inverse @ cross.T
        values.append(float(torch.linalg.eigvalsh((schur + schur.T) / 2)[0]))
    return values


def num_repeats(draw, labeled):
    """Members of a draw that repeat another member or a labeled item."""
    seen, repeats = set(labeled), 0
    for item in draw:
        repeats += item in seen
        seen.add(item)
    return repeats


def greedy_additions(gram, labeled, candidates, size):
    """Try every item in every step and take the best."""
    chosen = []
    for _ in range(size):
        values = addition_values(gram, [*labeled.tolist(), *chosen], candidates)
        chosen.append(max(values, key=values.__getitem__))
    return chosen


def addition_values(gram, members, candidates):
    """Smallest eigenvalue of the members and each further candidate, by candidate."""
    free = [item for item in candidates.tolist() if item not in members]
    values = draw_values(
        gram, torch.tensor(members, dtype=torch.int64), torch.tensor(free)[:, None]
    )
    return dict(zip(free, values, strict=True))


def extended_wide_head_gram(features):
    """The wide head's kernel in extended precision, term by term."""
    rows = np.concatenate(
        [features.numpy(), np.ones((len(features), 1))], axis=1, dtype=np.longdouble
    )
    products = rows @ rows.T
    lengths = np.sqrt(products.diagonal())
    scale = lengths[:, None] * lengths
    cosine = np.clip(products / scale, -1, 1)
    angle = np.arccos(cosine)
    np.fill_diagonal(angle, 0)
    np.fill_diagonal(cosine, 1)
    pi = np.longdouble("3.14159265358979323846264338327950288")
    order_0 = 1 - angle / pi
    order_1 = np.sin(angle) / pi + order_0 * cosine
    return scale * (order_1 + cosine * order_0)
