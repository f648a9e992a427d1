"""Which targets cannot be reached, and which classes prove it.

Shapes: M rows of probabilities, K classes, m some of the rows.

Entries that are zero stay zero. By Hall's condition the target is within reach exactly
if, for every set of classes, at least as many rows have something above zero there as
the classes ask for. Where that fails for some set, the dual runs away: down for the
classes of the set, up for the others. So the sets to look at are the K beginnings of
the classes in the order of a dual that has run far.
"""

import torch
from torch import Tensor

from fewlabels.errors import InfeasibleTargetError
from fewlabels.training.darp.problem import RefinementProblem, chunks

_SLACK = 1e-6
_MOST_NAMED = 10


def check_places(problem: RefinementProblem) -> None:
    """Raise if a class asks for more rows than have anything above zero for it."""
    if not problem.has_zeros:
        return
    places_K = torch.zeros_like(problem.target)
    for chunk in chunks(problem.reference):
        places_K += (problem.reference[chunk] > 0).sum(dim=0)
    missing_K = problem.target - places_K
    worst = int(missing_K.argmax())
    if float(missing_K[worst]) > _SLACK:
        raise InfeasibleTargetError(
            f"Class {worst} should get {float(problem.target[worst]):.6g} rows, and "
            f"only {int(places_K[worst])} of {len(problem.reference)} rows leave it "
            "any probability: the target cannot be reached."
        )


def check_reachable(problem: RefinementProblem, dual_K: Tensor) -> None:
    """Raise if the order of a dual shows that the target is out of reach."""
    order_K = dual_K.argsort()
    first_M = torch.cat(
        [
            (problem.reference[chunk][:, order_K] > 0).byte().argmax(dim=1)
            for chunk in chunks(problem.reference)
        ]
    )
    served_K = torch.bincount(first_M, minlength=len(order_K)).cumsum(dim=0)
    missing_K = problem.target[order_K].cumsum(dim=0) - served_K
    size = int(missing_K.argmax()) + 1
    if float(missing_K[size - 1]) <= _SLACK:
        return
    served = int(served_K[size - 1])
    if 2 * size <= len(order_K):
        members = order_K[:size]
        seen = f"only {served} rows leave any of them some probability"
    else:
        members = order_K[size:]
        seen = f"{len(first_M) - served} rows leave no other class any probability"
    wanted = float(problem.target[members].sum())
    raise InfeasibleTargetError(
        f"{_named(members)} should get {wanted:.6g} rows, and {seen}: the target "
        "cannot be reached."
    )


def _named(classes: Tensor) -> str:
    """Name some classes by their numbers, at most ten."""
    numbers = [str(number) for number in classes.sort().values.tolist()]
    if len(numbers) == 1:
        return f"Class {numbers[0]}"
    if len(numbers) > _MOST_NAMED:
        shown = ", ".join(numbers[:_MOST_NAMED])
        return f"{len(numbers)} classes together ({shown}, ...)"
    return f"Classes {', '.join(numbers[:-1])} and {numbers[-1]} together"
