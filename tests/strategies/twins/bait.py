"""BAIT from its definition: whole matrices, inverted anew for every set tried."""

import numpy as np


def categorical(logits, features):
    """Σ_c p_c g_c g_cᵀ with g_c = (p - e_c) ⊗ h, for each item."""
    matrices = []
    for z, h in zip(logits, features, strict=True):
        p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        gradients = [np.kron(p - e, h) for e in np.eye(len(p))]
        weighted = [p[c] * np.outer(g, g) for c, g in enumerate(gradients)]
        matrices.append(sum(weighted))
    return np.array(matrices)


def binary(logits, features):
    """p (1 - p) h hᵀ with the largest probability p, for each item."""
    matrices = []
    for z, h in zip(logits, features, strict=True):
        p = (np.exp(z - z.max()) / np.exp(z - z.max()).sum()).max()
        matrices.append(p * (1 - p) * np.outer(h, h))
    return np.array(matrices)


def remainder(information, labeled, chosen, size, regularization):
    """tr[(λ I + n/(n+Q) mean F_L + Q/(n+Q) Σ F_S)⁻¹ mean F]."""
    total = len(labeled) + size
    known = regularization * np.eye(information.shape[1])
    if labeled:
        known += information[labeled].mean(axis=0) * len(labeled) / total
    for item in chosen:
        known += information[item] * size / total
    return np.trace(np.linalg.inv(known) @ information.mean(axis=0))


def forward_backward(
    information, labeled, candidates, size, *, regularization=1.0, oversample=2
):
    """Add the best item, oversample * size times; then take out the least missed."""

    def left(chosen):
        return remainder(information, labeled, chosen, size, regularization)

    chosen = []
    for _ in range(min(oversample * size, len(candidates))):
        free = [item for item in candidates if item not in chosen]
        chosen.append(min(free, key=lambda item: left([*chosen, item])))
    while len(chosen) > size:
        chosen.remove(
            min(chosen, key=lambda item: left([x for x in chosen if x != item]))
        )
    return chosen, left(chosen)
