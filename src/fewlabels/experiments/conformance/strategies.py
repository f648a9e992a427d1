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
from fewlabels.experiments.conformance.problems import (
    CheckCase,
    Promise,
    Verdict,
    failed,
    passed,
    problem,
)
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
_FORGET = (
    "A resumed run would choose otherwise than an uninterrupted one; write what is to "
    "be remembered into the query's record, and read it from history."
)


class _RefusedError(StrategyError):
    """A strategy refused with an error of this package."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"It refused an ordinary pool: {reason}")
        self.reason = reason


def _ask(
    strategy: Strategy,
    given: CheckCase,
    size: int = _SIZE,
    *,
    seed: int = 0,
    history: Sequence[Round] = (),
) -> Query:
    """Return what a strategy chooses, in the right form; it may be the wrong items.

    A strategy that refuses by a :class:`fewlabels.errors.FewlabelsError` raises
    ``_RefusedError``; one that fails otherwise, :class:`StrategyError`.
    """
    pool, classifier = given
    generator = stream(seed, "query")
    try:
        query = strategy.select(classifier, pool, size, generator, history=history)
    except FewlabelsError as error:
        raise _RefusedError(problems.one_line(error)) from error
    except (Exception, SystemExit) as error:
        text = problems.failure(error, strategy)
        raise StrategyError(f"It failed: {text}") from error
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
    return passed(f"{_SIZE} indices of a pool of {len(given.pool)}, type torch.int64")


def any_size(strategy: Strategy) -> Verdict:
    """It can choose a single item, and all that there are."""
    sizes = _sizes(problem(0).pool)
    for size in sizes:
        _ask(strategy, problem(0), size)
    return passed(f"sizes {', '.join(map(str, sizes))}")


def _various(strategy: Strategy) -> Iterator[tuple[Pool, Query]]:
    """Yield pools, of one label and of more, and queries of each size from them.

    Failures are left to the promises "any size" and "few labels".
    """
    for seed, (num_labeled, which) in enumerate(product((8, 1), range(3))):
        given = problem(seed, num_labeled)
        pool = problem(seed, num_labeled).pool
        try:
            yield pool, _ask(strategy, given, _sizes(pool)[which], seed=seed)
        except StrategyError:
            continue


def distinct(strategy: Strategy) -> Verdict:
    """It chooses no item twice."""
    seen = list(_various(strategy))
    for _, query in seen:
        item, times = Counter(query.indices.tolist()).most_common(1)[0]
        if times > 1:
            return failed(
                f"It chose item {item} {times} times in a query of {len(query)}; "
                "remove chosen items from the candidates."
            )
    return passed(f"no item twice in {len(seen)} queries")


def candidates_only(strategy: Strategy) -> Verdict:
    """It chooses nothing that is labeled, withheld or not in the pool."""
    seen = list(_various(strategy))
    for pool, query in seen:
        allowed = set(pool.candidates.tolist())
        wrong = [item for item in query.indices.tolist() if item not in allowed]
        if not wrong:
            continue
        status = "unlabeled, but withheld: not one of pool.candidates"
        if not 0 <= wrong[0] < len(pool):
            status = f"no position in a pool of {len(pool)}"
        elif wrong[0] in pool.labeled:
            status = "labeled already"
        return failed(
            f"It picked item {wrong[0]}, which is {status}. Return positions in the "
            "whole pool: pool.candidates[k], not k."
        )
    return passed(f"only candidates in {len(seen)} queries")


def seeded_query(strategy: Strategy) -> Verdict:
    """Equal generators give equal queries."""
    with problems.keep_generators():
        first = _ask(strategy, problem(1), seed=3)
        items = first.indices.tolist()
        for _ in range(_REPEATS - 1):
            problems.draw()
            again = _ask(strategy, problem(1), seed=3)
            for name, before, after in (
                ("items", items, again.indices.tolist()),
                ("value", first.value, again.value),
                ("record", first.record, again.record),
            ):
                if repr(before) != repr(after):
                    return failed(
                        f"Equal inputs and generators gave the {name} {before} and "
                        f"then {after}. Draw from the given generator alone; use no "
                        "clock and nothing kept from earlier calls."
                    )
        others = [_ask(strategy, problem(1), seed=seed) for seed in range(4, 8)]
    is_same = all(other.indices.tolist() == items for other in others)
    how = "the same here" if is_same else "otherwise"
    return passed(f"{_REPEATS} equal choices; other seeds choose {how}")


def query_randomness(strategy: Strategy) -> Verdict:
    """It leaves the global random generators alone."""
    _, moved = problems.moved_by(lambda: _ask(strategy, problem(2)))
    if moved:
        return failed(
            f"It drew from, or seeded, the global generator of {', '.join(moved)}; "
            "draw from the one that select is given."
        )
    return passed("torch, numpy and random stay as they were")


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
    seen = problems.changes(before, inputs())
    if seen:
        return failed(f"It changed its input: {'; '.join(seen)}. Write to a clone.")
    return passed("labels, candidates, images, features and logits stay")


def no_memory(strategy: Strategy) -> Verdict:
    """Calls leave no trace in the strategy."""
    before = problems.attributes(strategy)
    queries = [_ask(strategy, problem(3)) for _ in range(3)]
    _ask(strategy, problem(4), _SIZE - 1, seed=1)
    queries.append(_ask(strategy, problem(3)))
    after = problems.attributes(strategy)
    names = sorted({*before, *after})
    changed = [name for name in names if before.get(name) != after.get(name)]
    if changed:
        return failed(
            f"Its attributes changed with a call: {', '.join(changed)}. {_FORGET}"
        )
    _, first, second, later = (query.indices.tolist() for query in queries)
    if first != second:
        return "not run", "equal calls differ anyway; mend 'seeded' first"
    if second != later:
        return failed(
            f"It chose {second}, and after a call with another pool {later} from the "
            f"first one again. {_FORGET}"
        )
    return passed("calls in between change nothing")


def keeps_a_record(strategy: Strategy) -> Verdict:
    """Its value and record come back from JSON as they were."""
    query = _ask(strategy, problem(0))
    check_record(query)
    for key, entry in query.record.items():
        back = json.loads(json.dumps(entry))
        if back != entry:
            return failed(
                f"record['{key}'] is {entry!r} and comes back from the round's file as "
                f"{back!r}; give lists, text and finite numbers, with text as keys."
            )
    return passed(", ".join(query.record) or "empty")


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
    later = CheckCase(pool.with_answers(given), classifier)
    check_query(_ask(strategy, later, history=(done,)), later.pool, _SIZE)
    return passed("a second query after the first was answered")


def refuses_too_many(strategy: Strategy) -> Verdict:
    """It says so when there are fewer candidates than asked for."""
    most = len(problem(0).pool.candidates)
    seen = ""
    try:
        _ask(strategy, problem(0), most + 1)
    except _RefusedError as refusal:
        return passed(refusal.reason)
    except StrategyError as error:
        seen = f" {error}"
    return failed(
        f"Asked for {most + 1} of {most} candidates, it did not refuse.{seen} Call "
        "fewlabels.search.check_size(size, len(pool.candidates)) first."
    )


def _copes_with(*kinds: Callable[[], CheckCase]) -> Callable[[Strategy], Verdict]:
    """Return what asks about awkward pools; words of refusal will do."""

    def judge(strategy: Strategy) -> Verdict:
        for kind in kinds:
            pool = kind().pool
            for size in (_SIZE, len(pool.candidates)):
                try:
                    check_query(_ask(strategy, kind(), size), pool, size)
                except _RefusedError as refusal:
                    return "refused", refusal.reason
        return passed("it copes: distinct candidates")

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
        if usual != back:
            return failed(
                f"It chose items {sorted(usual)}, and from the same pool in another "
                f"order {sorted(back)}. Remove what depends on positions, or the "
                "attribute ignores_order."
            )
    return passed(f"{len(_SEEDS)} permuted pools, the same items")


_FIRST = ("a query",)
_SOUND = ("a query", "distinct", "candidates only", "record")
_FEW_LABELS = (partial(problem, 1, 1), problems.without_last_class)
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
    Promise("duplicates", _copes_with(problems.in_pairs, problems.all_alike), _SOUND),
    Promise("constant features", _copes_with(problems.flat), _SOUND),
    Promise("sure predictions", _copes_with(problems.saturated), _SOUND),
    Promise("order", ignores_order, (*_SOUND, "seeded")),
)
