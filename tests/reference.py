"""Slow twins: each follows a definition as plainly as possible, for comparison."""

import itertools
import math

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
    """Gram matrix of all gradients of a finite ReLU network on [h; 1].

    f(x) = sqrt(2 / width) a . relu(W x) with standard normal a and W.
    """
    rows = torch.cat([features, torch.ones(len(features), 1)], dim=1).double()
    inner = torch.randn(width, rows.shape[1], generator=generator).double()
    outer = torch.randn(width, generator=generator).double()
    hidden = rows @ inner.T
    of_outer = hidden.clamp_min(0) * math.sqrt(2 / width)
    is_active = (hidden > 0).double() * outer * math.sqrt(2 / width)
    return of_outer @ of_outer.T + (is_active @ is_active.T) * (rows @ rows.T)


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
