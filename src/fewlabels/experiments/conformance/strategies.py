"""Promises of strategies, one function each.

Nearly every call gets a pool of its own, so that a strategy that changes its inputs
breaks one promise and not all of them.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

import torch

from fewlabels.errors import FewlabelsError, StrategyError
from fewlabels.experiments.conformance import problems
from fewlabels.experiments.conformance.problems import Promise, Verdict, problem
from fewlabels.pool import (
    Answers,
    Pool,
    Query,
    Round,
    check_form,
    check_query,
    check_record,
)
from fewlabels.protocols import Strategy
from fewlabels.rng import stream

_SIZE = 5
_SEEDS = range(3)
_REPEATS = 4
_FORGET = "Write what is to be remembered into the record, and read it from history."


class _RefusedError(StrategyError):
    """A strategy refused with an error of this package."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"It refused an ordinary pool: {reason}")
        self.reason = reason


def _ask(
    strategy: Strategy,
    given: problems.CheckCase,
    size: int = _SIZE,
    *,
    seed: int = 0,
    history: Sequence[Round] = (),
) -> Query:
    """Return what a strategy chooses; its form is checked, its items are not.

    A strategy that refuses by a :class:`fewlabels.errors.FewlabelsError` raises
    ``_RefusedError``; one that fails otherwise, :class:`StrategyError`.
    """
    pool, classifier = given
    generator = stream(seed, "query")
    try:
        query = strategy.select(classifier, pool, size, generator, history=history)
    except FewlabelsError as error:
        raise _RefusedError(str(error)) from error
    except (Exception, SystemExit) as error:
        raise StrategyError(f"It failed: {problems.describe_error(error)}") from error
    check_form(query)
    if len(query) != size:
        raise StrategyError(
            f"It chose {len(query)} of {len(pool.candidates)} candidates, not {size}."
        )
    return query


def _sizes(pool: Pool) -> tuple[int, int, int]:
    return 1, _SIZE, len(pool.candidates)


def answers(strategy: Strategy) -> Verdict:
    """It returns a query with as many indices as were asked for."""
    given = problem(0)
    _ask(strategy, given)
    return f"{_SIZE} indices of a pool of {len(given.pool)}, type torch.int64"


def any_size(strategy: Strategy) -> Verdict:
    """It can choose a single item, and all that there are."""
    sizes = _sizes(problem(0).pool)
    for size in sizes:
        _ask(strategy, problem(0), size)
    return f"sizes {', '.join(map(str, sizes))}"


def _sample_queries(strategy: Strategy) -> Iterator[tuple[Pool, Query]]:
    """Yield queries of several sizes, with their pools of one label or of several.

    Failures are skipped: the promises "any size" and "few labels" report them.
    """
    for seed, (num_labeled, which) in enumerate(product((8, 1), range(3))):
        pool = problem(seed, num_labeled).pool
        size, given = _sizes(pool)[which], problem(seed, num_labeled)
        try:
            yield pool, _ask(strategy, given, size, seed=seed)
        except StrategyError:
            continue


def distinct(strategy: Strategy) -> Verdict:
    """It chooses no item twice."""
    for _, query in _sample_queries(strategy):
        item, times = Counter(query.indices.tolist()).most_common(1)[0]
        fault = f"It chose item {item} {times} times in a query of {len(query)}."
        problems.require(times == 1, fault)
    return "no item twice"


def candidates_only(strategy: Strategy) -> Verdict:
    """It chooses nothing that is labeled, withheld or not in the pool."""
    for pool, query in _sample_queries(strategy):
        wrong = query.indices[~torch.isin(query.indices, pool.candidates)].tolist()
        problems.require(
            not wrong,
            f"It picked {wrong[:5]}, which are labeled, withheld or not in the pool of "
            f"{len(pool)}. Return positions in the whole pool: pool.candidates[k].",
        )
    return "only candidates"


def seeded_query(strategy: Strategy) -> Verdict:
    """Equal generators give equal queries."""

    def choice(seed: int) -> dict[str, object]:
        query = _ask(strategy, problem(1), seed=seed)
        items = query.indices.tolist()
        return {"items": items, "value": query.value, "record": query.record}

    first = choice(3)
    for _ in range(_REPEATS - 1):
        problems.move_generators()
        again = choice(3)
        for name, before in first.items():
            problems.require(
                repr(before) == repr(again[name]),
                f"Equal inputs and generators gave the {name} {before} and then "
                f"{again[name]}. Draw from the given generator alone; use no clock and "
                "nothing kept from earlier calls.",
            )
    is_same = all(choice(seed)["items"] == first["items"] for seed in range(4, 8))
    how = "the same here" if is_same else "otherwise"
    return f"{_REPEATS} equal choices; other seeds choose {how}"


def query_randomness(strategy: Strategy) -> Verdict:
    """It leaves the global random generators alone."""
    _, moved = problems.generators_moved_by(lambda: _ask(strategy, problem(2)))
    problems.require_no_draws(moved)
    return "torch, numpy and random stay as they were"


def inputs_untouched(strategy: Strategy) -> Verdict:
    """It changes nothing that it is given."""

    def inputs() -> dict[str, torch.Tensor]:
        return problems.tensors(pool) | {
            f"classifier.{name}": getattr(classifier, name)[:].clone()
            for name in ("features", "logits", "samples")
        }

    pool, classifier = given = problem(2)
    before = inputs()
    _ask(strategy, given)
    problems.require_unchanged(before, inputs())
    return "labels, candidates, images, features and logits stay"


def no_memory(strategy: Strategy) -> Verdict:
    """Calls leave no trace in the strategy."""
    before = problems.attributes(strategy)
    queries = [_ask(strategy, problem(3)) for _ in range(3)]
    _ask(strategy, problem(4), _SIZE - 1, seed=1)
    queries.append(_ask(strategy, problem(3)))
    after = problems.attributes(strategy)
    names = sorted({*before, *after})
    changed = [name for name in names if before.get(name) != after.get(name)]
    fault = f"Its attributes changed with a call: {', '.join(changed)}. {_FORGET}"
    problems.require(not changed, fault)
    _, first, second, later = (query.indices.tolist() for query in queries)
    if first != second:
        return "not run", "equal calls differ anyway; mend 'seeded' first"
    seen = f"It chose {second}, and {later} after a call with another pool"
    problems.require(second == later, f"{seen}. {_FORGET}")
    return "calls in between change nothing"


def keeps_a_record(strategy: Strategy) -> Verdict:
    """Its value and record come back from JSON as they were."""
    query = _ask(strategy, problem(0))
    check_record(query)
    for key, entry in query.record.items():
        back = json.loads(json.dumps(entry))
        problems.require(
            back == entry,
            f"record['{key}'] is {entry!r} and comes back from the round's file as "
            f"{back!r}; give lists, text and finite numbers, with text as keys.",
        )
    return ", ".join(query.record) or "empty"


def following_round(strategy: Strategy) -> Verdict:
    """It chooses again when its own query has been answered."""
    pool, classifier = problem(5)
    query = _ask(strategy, problem(5))
    check_query(query, pool, _SIZE)
    given = Answers(query.indices, torch.zeros_like(query.indices))
    record = json.loads(json.dumps(dict(query.record)))
    done = Round(
        step=0,
        num_labeled=len(pool.labeled),
        class_counts=pool.class_counts,
        accuracy=None,
        query=Query(query.indices, query.value, record),
        answers=given,
    )
    later = problems.CheckCase(pool.with_answers(given), classifier)
    check_query(_ask(strategy, later, history=(done,)), later.pool, _SIZE)
    return "a second query after the first was answered"


def refuses_too_many(strategy: Strategy) -> Verdict:
    """It says so when there are fewer candidates than asked for."""
    most = len(problem(0).pool.candidates)
    seen = ""
    try:
        _ask(strategy, problem(0), most + 1)
    except _RefusedError as refusal:
        return refusal.reason
    except StrategyError as error:
        seen = f" {error}"
    raise StrategyError(
        f"Asked for {most + 1} of {most} candidates, it did not refuse.{seen} Call "
        "fewlabels.search.check_size(size, len(pool.candidates)) first."
    )


def _copes_with(
    *cases: Callable[[], problems.CheckCase],
) -> Callable[[Strategy], Verdict]:
    """Return a check on awkward pools; a refusal in words will do."""

    def judge(strategy: Strategy) -> Verdict:
        for case in cases:
            pool = case().pool
            for size in (_SIZE, len(pool.candidates)):
                try:
                    check_query(_ask(strategy, case(), size), pool, size)
                except _RefusedError as refusal:
                    return "refused", refusal.reason
        return "it copes: distinct candidates"

    return judge


def ignores_order(strategy: Strategy) -> Verdict:
    """A permuted pool gives the permuted answer, where that is promised."""
    if not getattr(strategy, "ignores_order", False):
        return "not promised", "no attribute ignores_order = True"
    num_candidates = len(problem(0).pool.candidates)
    if (max_pool := getattr(strategy, "max_pool", num_candidates)) < num_candidates:
        return "not promised", f"of a pool it looks at {max_pool} random items only"
    for seed in _SEEDS:
        given = problem(seed)
        order = torch.randperm(len(given.pool), generator=stream(seed, "order"))
        usual = set(_ask(strategy, given).indices.tolist())
        there = _ask(strategy, problems.permuted(problem(seed), order)).indices
        back = set(order[there].tolist())
        seen = f"It chose {sorted(usual)}, and in another order {sorted(back)}"
        problems.require(usual == back, f"{seen}. Remove the attribute ignores_order.")
    return f"{len(_SEEDS)} permuted pools, the same items"


_FIRST = ("a query",)
_SOUND = ("a query", "distinct", "candidates only", "record")
_ROWS = torch.arange(problems.NUM_ITEMS)
_EQUAL_ITEMS = (
    lambda: problems.showing(problem(3), _ROWS // 2 * 2),  # every item has a twin
    lambda: problems.showing(problem(3), _ROWS * 0),  # all are alike
)
_FEW_LABELS = (partial(problem, 1, 1), problems.missing_class)
PROMISES = (
    Promise("a query", answers),
    Promise("any size", any_size, _FIRST),
    Promise("distinct", distinct, _FIRST),
    Promise("candidates only", candidates_only, _FIRST),
    Promise("seeded", seeded_query, _FIRST),
    Promise("global randomness", query_randomness, _FIRST),
    Promise("inputs untouched", inputs_untouched, _FIRST),
    Promise("no memory", no_memory, _FIRST),
    Promise("record", keeps_a_record, _FIRST),
    Promise("next round", following_round, _SOUND),
    Promise("too many", refuses_too_many, _FIRST),
    Promise("no labels", _copes_with(partial(problem, 1, 0)), _SOUND),
    Promise("few labels", _copes_with(*_FEW_LABELS), _SOUND),
    Promise("duplicates", _copes_with(*_EQUAL_ITEMS), _SOUND),
    Promise("constant features", _copes_with(problems.zero_features), _SOUND),
    Promise("sure predictions", _copes_with(problems.saturated), _SOUND),
    Promise("order", ignores_order, (*_SOUND, "seeded")),
)
