"""Gaussian processes and kernel regression by whole systems, solved anew every time."""

import numpy as np


def mean_variance(gram, members, noise):
    """Mean posterior variance over all items, given noisy labels of ``members``."""
    variances = []
    for item in range(len(gram)):
        cross = gram[item, members]
        own = gram[np.ix_(members, members)] + noise * np.eye(len(members))
        explained = cross @ np.linalg.inv(own) @ cross if members else 0.0
        variances.append(gram[item, item] - explained)
    return np.mean(variances)


def least_variance(gram, labeled, candidates, size, noise):
    """Add the item after which the mean variance is least, one by one."""
    chosen = []
    for _ in range(size):
        free = [item for item in candidates if item not in chosen]
        members = [*labeled, *chosen]
        chosen.append(
            min(free, key=lambda x: mean_variance(gram, [*members, x], noise))
        )
    return chosen


def retrained(gram, outputs, members, classes, ridge):
    """f0 + K(., X) (K(X, X) + ridge)^-1 (Y - f0(X)) for all items; Y is 1 and -1."""
    if not members:
        return outputs
    targets = -np.ones((len(members), outputs.shape[1]))
    for row, number in enumerate(classes):
        targets[row, number] = 1
    own = gram[np.ix_(members, members)] + ridge * np.eye(len(members))
    return outputs + gram[:, members] @ np.linalg.solve(own, targets - outputs[members])


def changes(gram, outputs, members, classes, free, ridge):
    """Mean change of all outputs as each free item is learned as predicted."""
    before = retrained(gram, outputs, members, classes, ridge)
    scores = []
    for item in free:
        as_predicted = [*classes, int(outputs[item].argmax())]
        after = retrained(gram, outputs, [*members, item], as_predicted, ridge)
        scores.append(np.linalg.norm(after - before, axis=1).mean())
    return scores


def most_change(gram, outputs, labeled, classes, candidates, size, ridge):
    """Choose the item of the largest change, learn it as predicted, go on."""
    members, classes = list(labeled), list(classes)
    first = None
    for _ in range(size):
        free = [item for item in candidates if item not in members]
        scores = changes(gram, outputs, members, classes, free, ridge)
        best = free[int(np.argmax(scores))]
        first = max(scores) if first is None else first
        members.append(best)
        classes.append(int(outputs[best].argmax()))
    return members[len(labeled) :], first
