"""All promises in order, each on its own: one that fails stops no other."""

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fewlabels.conformance import promises
from fewlabels.conformance.asking import failure
from fewlabels.conformance.finding import Finding, Verdict
from fewlabels.conformance.memory import Memory
from fewlabels.conformance.randomness import restored
from fewlabels.errors import FewlabelsWarning, StrategyError
from fewlabels.progress import track
from fewlabels.protocols import Strategy
from fewlabels.strategies import resolve


@dataclass(frozen=True)
class _Promise:
    """A promise, and those without which it means nothing."""

    name: str
    judge: Callable[[Strategy], Verdict]
    after: tuple[str, ...] = ("a query",)


_SOUND = ("a query", "distinct", "candidates only", "record")
_PROMISES = (
    _Promise("a query", promises.answers, after=()),
    _Promise("any size", promises.any_size),
    _Promise("distinct", promises.distinct),
    _Promise("candidates only", promises.candidates_only),
    _Promise("seeded", promises.seeded),
    _Promise("global randomness", promises.shared_randomness),
    _Promise("inputs untouched", promises.inputs_untouched),
    _Promise("no memory", promises.no_memory),
    _Promise("record", promises.keeps_a_record),
    _Promise("next round", promises.next_round, after=_SOUND),
    _Promise("too many", promises.refuses_too_many),
    _Promise("no labels", promises.no_labels, after=_SOUND),
    _Promise("few labels", promises.few_labels, after=_SOUND),
    _Promise("duplicates", promises.duplicates, after=_SOUND),
    _Promise("constant features", promises.constant_features, after=_SOUND),
    _Promise("sure predictions", promises.sure_predictions, after=_SOUND),
    _Promise("order", promises.ignores_order, after=(*_SOUND, "seeded")),
)
_MEMORY = "memory"


def check(
    strategy: str | Strategy,
    options: Mapping[str, Any] | None = None,
    *,
    memory: Memory | None = None,
) -> Iterator[Finding]:
    """Hold a strategy to everything that strategies promise.

    A strategy that raises an error breaks a promise; the suite goes on with the next.

    Args:
        strategy: A built-in name, ``"package.module:Name"``, or an object.
        options: Options of the strategy, where it is given by name.
        memory: How to measure memory on a large pool, in a process of its own; None
            leaves that out. An object cannot be handed to that process: give a name.

    Yields:
        A finding per promise, as it is made.

    Example:
        >>> sum(finding.outcome == "failed" for finding in check("margin"))
        0
    """
    chooser = resolve(strategy, options)
    failed: set[str] = set()
    with track("Checking", len(_PROMISES) + 1) as advance:
        for promise in _PROMISES:
            finding = Finding(promise.name, *_verdict(promise, chooser, failed))
            if finding.outcome == "failed":
                failed.add(promise.name)
            yield finding
            advance(1)
        yield Finding(_MEMORY, *_memory(strategy, options or {}, memory, failed))
        advance(1)


def _verdict(promise: _Promise, strategy: Strategy, failed: set[str]) -> Verdict:
    first = next((name for name in promise.after if name in failed), None)
    if first is not None:
        return "not run", f"means nothing before '{first}' is mended"
    with warnings.catch_warnings(), restored():
        # A tie is worth a note in a run; here it is provoked.
        warnings.simplefilter("ignore", FewlabelsWarning)
        try:
            return promise.judge(_fresh(strategy))
        except StrategyError as error:
            return "failed", str(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - becomes a finding
            return "failed", f"It could not be judged: {failure(error, strategy)}"


def _fresh(strategy: Strategy) -> Strategy:
    """Return the strategy as it came, so that no call before this promise shows."""
    try:
        return copy.deepcopy(strategy)
    except Exception:  # noqa: BLE001 - somebody's own copying: use what there is
        return strategy


def _memory(
    strategy: str | Strategy,
    options: Mapping[str, Any],
    memory: Memory | None,
    failed: set[str],
) -> Verdict:
    if memory is None:
        return "not run", "left out"
    if not isinstance(strategy, str):
        return "not run", "another process needs a name or module:Name, not an object"
    if "a query" in failed:
        return "not run", "means nothing before 'a query' is mended"
    return memory.judge(strategy, options)
