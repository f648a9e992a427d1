"""DARP's solvers side by side: Newton, alternating, and a column at a time by SciPy.

    python benchmarks/darp.py

The problems: 50,000 rows, 10 or 100 classes, uniform target, single precision. A row
is softmax(s (2 e_c + b + N(0, I))) with a random class c and a bias b = 0.3 N(0, I)
that is the same for all rows; s is 1 (soft) or 3 (peaky). Each is refined unmasked and
with capacity 2, in the paper's way, or in the code's way where the paper's leaves the
target out of reach. A warm start is the dual of the same rows before every tenth of
them was drawn anew.

Every call is timed whole, checks and masking included, and in turn with the others;
the fastest of several tries counts, since whatever else the machine does only adds.
What all solvers share is timed by itself and printed. Only ratios of one run mean
something.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import newton as secant
from torch import Tensor

from fewlabels.errors import InfeasibleTargetError
from fewlabels.rng import stream
from fewlabels.training import targets
from fewlabels.training.darp import Problem, Refinement, solve

NUM_ROWS = 50_000
BIAS = 0.3
PROBLEMS = [
    {"classes": classes, "kind": kind, "capacity": capacity}
    for classes in (10, 100)
    for kind in ("soft", "peaky")
    for capacity in (None, 2.0)
]
SHARPNESS = {"soft": 1.0, "peaky": 3.0}
THRESHOLD = 0.95
TOLERANCE = 1e-6
MOST_ROUNDS = 2000
SECANT_ROUNDS = 10
LONG = 2.0  # seconds that noise cannot spoil: one try is enough
OUT = Path(__file__).parent / "results"


def probabilities(
    num_classes: int, kind: str, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, their classes, and the rows before every tenth was drawn anew."""
    bias_K = BIAS * torch.randn(num_classes, generator=stream(seed, "bias"))

    def draw(purpose: str) -> tuple[Tensor, Tensor]:
        generator = stream(seed, purpose)
        logits_MK = torch.randn(NUM_ROWS, num_classes, generator=generator) + bias_K
        classes_M = torch.randint(num_classes, (NUM_ROWS,), generator=generator)
        logits_MK[torch.arange(NUM_ROWS), classes_M] += 2
        return torch.softmax(SHARPNESS[kind] * logits_MK, dim=1), classes_M

    rows_MK, classes_M = draw("rows")
    older_MK = rows_MK.clone()
    older_MK[::10] = draw("older rows")[0][::10]
    return rows_MK, classes_M, older_MK


def confident(rows_MK: Tensor, classes_M: Tensor) -> dict[str, float]:
    """Return the shares of rows above the threshold, and above it and right."""
    largest_M, found_M = rows_MK.max(dim=1)
    is_above_M = largest_M > THRESHOLD
    is_right_M = is_above_M & (found_M == classes_M)
    return {
        "share": float(is_above_M.double().mean()),
        "share_right": float(is_right_M.double().mean()),
    }


def masking_options(
    capacity: float | None, older_MK: Tensor, target_K: Tensor
) -> dict[str, Any]:
    """Return the masking to use: the paper's if the target can be reached with it."""
    chosen = {"capacity": capacity, "masking": "paper"}
    try:
        solve(older_MK, target_K, **chosen)
    except InfeasibleTargetError as error:
        say(f"(masking in the code's way: {error})")
        chosen["masking"] = "code"
    return chosen


def prepared(
    rows_MK: Tensor, target_K: Tensor, *, capacity: float | None, masking: str
) -> Problem:
    """Do what every solver needs before its first step."""
    targets.probability_rows(rows_MK)
    return Problem(rows_MK, target_K, capacity, masking=masking)


def by_secants(rows_MK: Tensor, target_K: Tensor, **chosen: Any) -> Refinement:
    """Balance one column at a time by SciPy's secant, to 0.1, as the public code does.

    Args:
        rows_MK: The probabilities.
        target_K: The target.
        **chosen: Capacity and masking, as for the others.

    Returns:
        The refinement after ten rounds.
    """
    problem = prepared(rows_MK, target_K, **chosen)
    rows, speeds = problem.reference.double().numpy(), problem.entropies.numpy()
    wanted, dual = target_K.numpy(), np.zeros(len(target_K))
    for _ in range(SECANT_ROUNDS):
        tilted = rows * np.exp(-speeds[:, None] * dual)
        tilted_rows = rows / tilted.sum(axis=1, keepdims=True)
        for number, column in enumerate(tilted_rows.T):

            def excess(nu: float, column: np.ndarray, number: int) -> float:
                return float((column * np.exp(-speeds * nu)).sum() - wanted[number])

            dual[number] = secant(
                excess,
                dual[number],
                args=(column, number),
                tol=0.1,
                maxiter=30,
                disp=False,
            )
    tilted = rows * np.exp(-speeds[:, None] * dual)
    refined = tilted / tilted.sum(axis=1, keepdims=True)
    error = float(np.abs(refined.sum(axis=0) - wanted).max())
    outcome_MK = torch.from_numpy(refined).to(rows_MK.dtype)
    return Refinement(outcome_MK, torch.from_numpy(dual), SECANT_ROUNDS, error)


def fastest(
    tasks: dict[str, Callable[[], Any]], tries: dict[str, int]
) -> dict[str, tuple[Any, float]]:
    """Run tasks in turn, again and again, and keep the shortest time of each."""
    found: dict[str, tuple[Any, float]] = {}
    for number in range(max(tries.values())):
        for name, task in tasks.items():
            earlier = found[name][1] if name in found else float("inf")
            if number < tries[name] and (number == 0 or earlier < LONG):
                begin = time.perf_counter()
                outcome = task()
                found[name] = (outcome, min(time.perf_counter() - begin, earlier))
    return found


def compare(
    classes: int, kind: str, capacity: float | None, seed: int
) -> dict[str, object]:
    """Time all solvers on one problem and return the figures."""
    rows_MK, classes_M, older_MK = probabilities(classes, kind, seed)
    target_K = targets.uniform(NUM_ROWS, classes)
    chosen = masking_options(capacity, older_MK, target_K)
    call = partial(solve, rows_MK, target_K, **chosen)
    turns = partial(call, solver="alternating")
    start = solve(older_MK, target_K, **chosen).dual
    rough = TOLERANCE * NUM_ROWS
    tasks = {
        "newton": call,
        "newton, warm": partial(call, start=start),
        "newton to 1e-6 of all rows": partial(call, tolerance=rough),
        "alternating, 10 rounds": turns,
        "alternating to 1e-6 rows": partial(turns, rounds=MOST_ROUNDS),
        "alternating to 1e-6 rows, warm": partial(
            turns, rounds=MOST_ROUNDS, start=start
        ),
        "alternating to 1e-6 of all rows": partial(
            turns, rounds=MOST_ROUNDS, tolerance=rough
        ),
        "secants, 10 rounds": partial(by_secants, rows_MK, target_K, **chosen),
    }
    tries = {name: 2 if "alternating to" in name else 7 for name in tasks}
    tries["secants, 10 rounds"] = 1
    found = fastest(tasks, tries)
    preparation = partial(prepared, rows_MK, target_K, **chosen)
    shared = fastest({"shared": preparation}, {"shared": 7})["shared"][1]
    seconds = {name: took for name, (_, took) in found.items()}
    figures = {
        "classes": classes,
        "kind": kind,
        **chosen,
        "above_threshold": {
            "raw": confident(rows_MK, classes_M),
            "refined": confident(found["newton"][0].refined, classes_M),
        },
        "misfit": targets.misfit(rows_MK, target_K),
        "shared_seconds": shared,
        "seconds": seconds,
        "iterations": {
            name: outcome.iterations for name, (outcome, _) in found.items()
        },
        "marginal_error": {
            name: outcome.marginal_error for name, (outcome, _) in found.items()
        },
        "ratios": ratios(seconds),
        "ratios_without_what_is_shared": ratios(
            {name: took - shared for name, took in seconds.items()}
        ),
    }
    say(table(figures))
    return figures


def ratios(seconds: dict[str, float]) -> dict[str, float]:
    """Return how many times faster Newton is, by what is compared."""
    cold, warm = seconds["newton"], seconds["newton, warm"]
    return {
        "10 rounds": seconds["alternating, 10 rounds"] / cold,
        "equal error, 1e-6 rows": seconds["alternating to 1e-6 rows"] / cold,
        "equal error, 1e-6 of all rows": seconds["alternating to 1e-6 of all rows"]
        / seconds["newton to 1e-6 of all rows"],
        "1e-6 rows, warm against cold": seconds["alternating to 1e-6 rows"] / warm,
        "10 rounds, warm": seconds["alternating, 10 rounds"] / warm,
        "equal error, both warm": seconds["alternating to 1e-6 rows, warm"] / warm,
        "secants": seconds["secants, 10 rounds"] / cold,
        "secants, warm": seconds["secants, 10 rounds"] / warm,
    }


def table(figures: dict[str, object]) -> str:
    """Return the figures of one problem as lines."""
    lines = [
        f"{figures['classes']} classes, {figures['kind']}, capacity "
        f"{figures['capacity']}, {figures['masking']} masking: "
        f"misfit {figures['misfit']:.3f}, shared {figures['shared_seconds']:.4f} s"
    ]
    for name, rows in figures["above_threshold"].items():
        lines.append(
            f"  {name:<8} {rows['share']:6.1%} of rows above {THRESHOLD}, "
            f"{rows['share_right']:.1%} above it and right"
        )
    for name, took in figures["seconds"].items():
        lines.append(
            f"  {name:<34} {took:8.4f} s  {figures['iterations'][name]:5d} turns  "
            f"error {figures['marginal_error'][name]:.1e} rows"
        )
    for name, ratio in figures["ratios"].items():
        without = figures["ratios_without_what_is_shared"][name]
        lines.append(f"  faster by, {name:<30} {ratio:6.1f}  (solver {without:6.1f})")
    return "\n".join(lines)


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


def main() -> None:
    """Run all problems and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    OUT.mkdir(exist_ok=True)
    figures = {
        "seed": asked.seed,
        "threads": asked.threads,
        "rows": NUM_ROWS,
        "problems": [compare(**problem, seed=asked.seed) for problem in PROBLEMS],
    }
    target = OUT / "darp.json"
    target.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
