"""DARP in plain Python, one row, one column and one bisection at a time."""

import math


def entropy(row):
    return max(1e-8, -sum(p * math.log(p) for p in row if p > 0))


def masked(rows, target, capacity):
    """Keep the floor(capacity T_k) largest of each column; of equals, the first."""
    kept = [[0.0] * len(row) for row in rows]
    for k, wanted in enumerate(target):
        order = sorted(range(len(rows)), key=lambda m: -rows[m][k])
        for m in order[: math.floor(capacity * wanted + 1e-6)]:
            kept[m][k] = rows[m][k]
    return kept


def reference(rows, target, capacity, masking):
    """Return the rows to stay near to, and those whose entropies count."""
    if capacity is None:
        return rows, rows
    kept = masked(rows, target, capacity)
    if masking == "paper":
        return [
            new if sum(new) > 0 else old for new, old in zip(kept, rows, strict=True)
        ], rows
    for k, wanted in enumerate(target):
        scale = (wanted + 1e-6) / (sum(row[k] for row in kept) + 1e-6)
        for row in kept:
            row[k] = row[k] * scale + 1e-6
    smooth = [[p / sum(row) for p in row] for row in kept]
    return smooth, smooth


def root(falling, low=-60.0, high=60.0):
    """Bisect until nothing is left to bisect."""
    while high - low > 1e-14 * max(1.0, abs(low)):
        middle = (low + high) / 2
        if middle in {low, high}:
            break
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2


def refined(
    rows, target, *, capacity=2.0, weighting="entropy", masking="paper", rounds=10
):
    """Alternate: row duals exactly, then each column's own equation."""
    near, weighed = reference(rows, target, capacity, masking)
    speeds = [entropy(row) if weighting == "entropy" else 1.0 for row in weighed]
    nu = [0.0] * len(target)

    def tilted(m, k, value):
        return near[m][k] * math.exp(-speeds[m] * value)

    for _ in range(rounds):
        alphas = [
            1 / sum(tilted(m, k, nu[k]) for k in range(len(target)))
            for m in range(len(near))
        ]
        for k, wanted in enumerate(target):

            def excess(value, k=k, wanted=wanted, alphas=alphas):
                return (
                    sum(a * tilted(m, k, value) for m, a in enumerate(alphas)) - wanted
                )

            nu[k] = root(excess)
    outcome = []
    for m in range(len(near)):
        row = [tilted(m, k, nu[k]) for k in range(len(target))]
        outcome.append([entry / sum(row) for entry in row])
    return outcome
