"""What every strategy promises, one function each.

A function returns what it saw and raises :class:`fewlabels.errors.StrategyError` where
the promise is broken. Nearly every call gets a pool of its own, so that a strategy that
spoils its inputs breaks one promise and not all of them.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import product

import torch

from fewlabels.conformance.asking import USUAL_SIZE, Refusal, answer_or_refusal, ask
from fewlabels.conformance.finding import Promise, Verdict, passed
from fewlabels.conformance.problems import (
    CheckCase,
    all_alike,
    flat,
    in_pairs,
    permuted,
    problem,
    saturated,
    without_last_class,
)
from fewlabels.conformance.randomness import moved_by, restored, stir
from fewlabels.conformance.snapshots import attributes, change, tensors
from fewlabels.errors import StrategyError
from fewlabels.pool import Answers, Pool, Query, Round, check_query, check_record
from fewlabels.protocols import Strategy
from fewlabels.rng import stream

_SEEDS = range(3)
_REPEATS = 4
_FORGET = (
    "A resumed run would choose otherwise than an uninterrupted one; write what is to "
    "be remembered into the query's record, and read it from history."
)


def answers(strategy: Strategy) -> Verdict:
    """It returns a query with as many indices as were asked for."""
    given = problem(0)
    ask(strategy, given)
    return passed(
        f"{USUAL_SIZE} indices of a pool of {len(given.pool)}, type torch.int64"
    )


def any_size(strategy: Strategy) -> Verdict:
    """It can choose a single item, and all that there are."""
    sizes = _sizes(problem(0).pool)
    for size in sizes:
        ask(strategy, problem(0), size)
    return passed(f"sizes {_listed(sizes)}")


def distinct(strategy: Strategy) -> Verdict:
    """It chooses no item twice."""
    seen = list(_various(strategy))
    for _, query in seen:
        item, times = Counter(query.indices.tolist()).most_common(1)[0]
        if times > 1:
            raise StrategyError(
                f"It chose item {item} {times} times in a query of {len(query)}; a "
                "label would be paid for twice. Take what is chosen out of the "
                "candidates before choosing on."
            )
    return passed(f"no item twice in {len(seen)} queries")


def candidates_only(strategy: Strategy) -> Verdict:
    """It chooses nothing that is labeled, withheld or not in the pool."""
    seen = list(_various(strategy))
    for pool, query in seen:
        allowed = set(pool.candidates.tolist())
        wrong = [item for item in query.indices.tolist() if item not in allowed]
        if wrong:
            raise StrategyError(
                f"It picked item {wrong[0]}, which is {_standing(pool, wrong[0])}; "
                f"{len(wrong)} of {len(query)} picks are not candidates. Choose from "
                "pool.candidates, and return positions in the whole pool: "
                "pool.candidates[k], not k."
            )
    return passed(f"only candidates in {len(seen)} queries")


def _standing(pool: Pool, item: int) -> str:
    if not 0 <= item < len(pool):
        return f"no position in a pool of {len(pool)}"
    if item in pool.labeled:
        return "labeled already"
    return "unlabeled, but withheld: not one of pool.candidates"


def _sizes(pool: Pool) -> tuple[int, ...]:
    return 1, USUAL_SIZE, len(pool.candidates)


def _various(strategy: Strategy) -> Iterator[tuple[Pool, Query]]:
    """Yield pools, of one label and of more, and queries of each size from them.

    Where the strategy fails, :func:`any_size` or :func:`few_labels` tell.
    """
    for seed, (num_labeled, which) in enumerate(product((8, 1), range(3))):
        pool = problem(seed, num_labeled).pool
        try:
            query = ask(
                strategy, problem(seed, num_labeled), _sizes(pool)[which], seed=seed
            )
        except StrategyError:
            continue
        yield pool, query


def seeded(strategy: Strategy) -> Verdict:
    """Equal generators give equal queries."""
    with restored():
        first = ask(strategy, problem(1), seed=3)
        for _ in range(_REPEATS - 1):
            stir()
            again = ask(strategy, problem(1), seed=3)
            _check_equal(first, again)
        others = [ask(strategy, problem(1), seed=seed) for seed in range(4, 8)]
    if all(_items(other) == _items(first) for other in others):
        return passed(f"{_REPEATS} equal choices; other seeds choose the same here")
    return passed(f"{_REPEATS} equal choices; other seeds choose otherwise")


def _items(query: Query) -> list[int]:
    return [int(item) for item in query.indices.tolist()]


def _check_equal(first: Query, again: Query) -> None:
    remedy = (
        "Draw from the generator that select is given, and from nothing else: no "
        "global random numbers, no clock, nothing kept from earlier calls."
    )
    if _items(first) != _items(again):
        raise StrategyError(
            f"Equal inputs and generators gave {_items(first)} and then "
            f"{_items(again)}, so no run can be repeated. {remedy}"
        )
    for name in ("value", "record"):
        one, other = repr(getattr(first, name)), repr(getattr(again, name))
        if one != other:
            raise StrategyError(
                f"Equal inputs and generators gave the same items, but the {name} "
                f"{one} and then {other}. {remedy}"
            )


def shared_randomness(strategy: Strategy) -> Verdict:
    """It leaves the global random generators alone."""
    _, moved = moved_by(lambda: ask(strategy, problem(2)))
    if moved:
        raise StrategyError(
            f"It drew from, or seeded, the global generator of {_listed(moved)}; other "
            "people's random numbers change with it. Draw from the generator that "
            "select is given: torch.randperm(n, generator=generator)."
        )
    return passed("torch, numpy and random stay as they were")


def inputs_untouched(strategy: Strategy) -> Verdict:
    """It changes nothing that it is given."""
    given = problem(2)
    before = tensors(given)
    ask(strategy, given)
    after = tensors(given)
    changes = [change(name, before[name], after[name]) for name in before]
    seen = [one for one in changes if one is not None]
    if seen:
        raise StrategyError(
            f"It changed its input: {'; '.join(seen)}. Whoever comes next would work "
            "with other numbers; write to a clone."
        )
    return passed("labels, candidates, images, features and logits stay")


def no_memory(strategy: Strategy) -> Verdict:
    """Calls leave no trace in the strategy."""
    before = attributes(strategy)
    queries = [ask(strategy, problem(3)) for _ in range(3)]
    ask(strategy, problem(4), USUAL_SIZE - 1, seed=1)
    queries.append(ask(strategy, problem(3)))
    _check_attributes(before, attributes(strategy))
    _, first, second, later = map(_items, queries)
    if first != second:
        return "not run", "equal calls differ anyway; mend 'seeded' first"
    if second != later:
        raise StrategyError(
            f"It chose {second}, and after a call with another pool {later} from the "
            f"first one again. {_FORGET}"
        )
    return passed("calls in between change nothing")


def _check_attributes(before: dict[str, object], after: dict[str, object]) -> None:
    names = {*before, *after}
    changed = sorted(name for name in names if before.get(name) != after.get(name))
    if changed:
        msg = f"Its attributes changed with a call: {_listed(changed)}. {_FORGET}"
        raise StrategyError(msg)


def keeps_a_record(strategy: Strategy) -> Verdict:
    """Its value and record come back from JSON as they were."""
    query = ask(strategy, problem(0))
    check_record(query)
    for key, entry in query.record.items():
        back = json.loads(json.dumps(entry))
        if back != entry:
            raise StrategyError(
                f"record['{key}'] is {entry!r} and comes back from the round's file as "
                f"{back!r}; give lists, words, numbers that are not NaN, and keys that "
                "are words."
            )
    return passed(_listed(query.record) or "empty")


def next_round(strategy: Strategy) -> Verdict:
    """It chooses again when its own query has been answered."""
    pool, classifier = problem(5)
    query = ask(strategy, problem(5))
    check_query(query, pool, USUAL_SIZE)
    said = Answers(query.indices, torch.zeros_like(query.indices))
    done = Round(
        step=0,
        num_labeled=len(pool.labeled),
        class_counts=pool.class_counts,
        accuracy=None,
        query=Query(
            query.indices, query.value, json.loads(json.dumps(dict(query.record)))
        ),
        answers=said,
    )
    later = CheckCase(pool.with_answers(said), classifier)
    check_query(ask(strategy, later, history=(done,)), later.pool, USUAL_SIZE)
    return passed("a second query after the first was answered")


def refuses_too_many(strategy: Strategy) -> Verdict:
    """It says so when there are fewer candidates than asked for."""
    given = problem(0)
    most = len(given.pool.candidates)
    remedy = "Call fewlabels.search.check_size(size, len(pool.candidates)) first."
    try:
        answer = answer_or_refusal(strategy, given, most + 1)
    except StrategyError as error:
        raise StrategyError(
            f"Asked for {most + 1} of {most} candidates, it did not refuse in words. "
            f"{error}. {remedy}"
        ) from error
    if isinstance(answer, Query):
        raise StrategyError(
            f"Asked for {most + 1} of {most} candidates, it returned {len(answer)} "
            f"items instead of refusing. {remedy}"
        )
    return passed(answer.message)


def no_labels(strategy: Strategy) -> Verdict:
    """It starts from nothing, or says why it cannot."""
    return _copes(strategy, lambda: problem(1, num_labeled=0))


def few_labels(strategy: Strategy) -> Verdict:
    """It copes with classes that have no label yet."""
    return _copes(
        strategy,
        lambda: problem(1, num_labeled=1),
        lambda: without_last_class(problem(1)),
    )


def duplicates(strategy: Strategy) -> Verdict:
    """It copes with items that are copies of each other."""
    return _copes(strategy, lambda: in_pairs(problem(3)), lambda: all_alike(problem(3)))


def constant_features(strategy: Strategy) -> Verdict:
    """It copes with features that say nothing."""
    return _copes(strategy, lambda: flat(problem(3)))


def sure_predictions(strategy: Strategy) -> Verdict:
    """It copes with predictions that are all sure of the same class."""
    return _copes(strategy, lambda: saturated(problem(3)))


def _copes(strategy: Strategy, *kinds: Callable[[], CheckCase]) -> Verdict:
    """Ask about awkward pools; words of refusal will do."""
    for kind in kinds:
        for size in (USUAL_SIZE, len(kind().pool.candidates)):
            answer = answer_or_refusal(strategy, kind(), size)
            if isinstance(answer, Refusal):
                return "refused", answer.message
            check_query(answer, kind().pool, size)
    return passed("it copes: distinct candidates")


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
        usual = set(_items(ask(strategy, given)))
        there = ask(strategy, permuted(problem(seed), order)).indices
        back = set(order[there].tolist())
        if usual != back:
            raise StrategyError(
                f"It chose items {sorted(usual)}, and from the same pool in another "
                f"order {sorted(back)}. Mend what depends on positions, or take "
                "ignores_order = True out."
            )
    return passed(f"{len(_SEEDS)} permuted pools, the same items")


def _listed(words: Iterable[object]) -> str:
    return ", ".join(map(str, words))


_FIRST = ("a query",)
_SOUND = ("a query", "distinct", "candidates only", "record")
PROMISES = (
    Promise("a query", answers),
    Promise("any size", any_size, after=_FIRST),
    Promise("distinct", distinct, after=_FIRST),
    Promise("candidates only", candidates_only, after=_FIRST),
    Promise("seeded", seeded, after=_FIRST),
    Promise("global randomness", shared_randomness, after=_FIRST),
    Promise("inputs untouched", inputs_untouched, after=_FIRST),
    Promise("no memory", no_memory, after=_FIRST),
    Promise("record", keeps_a_record, after=_FIRST),
    Promise("next round", next_round, after=_SOUND),
    Promise("too many", refuses_too_many, after=_FIRST),
    Promise("no labels", no_labels, after=_SOUND),
    Promise("few labels", few_labels, after=_SOUND),
    Promise("duplicates", duplicates, after=_SOUND),
    Promise("constant features", constant_features, after=_SOUND),
    Promise("sure predictions", sure_predictions, after=_SOUND),
    Promise("order", ignores_order, after=(*_SOUND, "seeded")),
)
