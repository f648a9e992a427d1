"""Ask a strategy, and tell in a sentence what went wrong if it fails."""

import inspect
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fewlabels.conformance.problems import CheckCase
from fewlabels.errors import FewlabelsError, StrategyError
from fewlabels.pool import Query, Round, check_form
from fewlabels.protocols import Strategy
from fewlabels.rng import stream

USUAL_SIZE = 5
_LONGEST = 300


@dataclass(frozen=True)
class Refusal:
    """A strategy said in plain words that it will not answer."""

    message: str


def ask(
    strategy: Strategy,
    given: CheckCase,
    size: int = USUAL_SIZE,
    *,
    seed: int = 0,
    history: Sequence[Round] = (),
) -> Query:
    """Return what a strategy chooses from a pool that it has to cope with.

    Its items may still be wrong ones. A strategy that fails, refuses, or answers in
    another form or length raises :class:`StrategyError`.
    """
    answer = answer_or_refusal(strategy, given, size, seed=seed, history=history)
    if isinstance(answer, Refusal):
        raise StrategyError(f"It refused an ordinary pool: {answer.message}")
    if len(answer) != size:
        raise StrategyError(
            f"It was to choose {size} of {len(given.pool.candidates)} candidates and "
            f"returned {len(answer)} indices; return exactly as many as size says."
        )
    return answer


def answer_or_refusal(
    strategy: Strategy,
    given: CheckCase,
    size: int = USUAL_SIZE,
    *,
    seed: int = 0,
    history: Sequence[Round] = (),
) -> Query | Refusal:
    """Return what a strategy chooses, or the words with which it refuses.

    The answer has the right form and whatever length. A strategy that fails otherwise
    than by a :class:`fewlabels.errors.FewlabelsError` raises :class:`StrategyError`.
    """
    generator = stream(seed, "query")
    try:
        answer = strategy.select(
            given.classifier, given.pool, size, generator, history=history
        )
    except FewlabelsError as error:
        return Refusal(one_line(error))
    except (Exception, SystemExit) as error:
        raise StrategyError(f"It failed: {failure(error, strategy)}") from error
    check_form(answer)
    return answer


def failure(error: BaseException, strategy: object) -> str:
    """Return type and text of an error, and the strategy's line it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == _file_of(strategy)]
    text = one_line(error)
    kind = type(error).__name__
    if not frames:
        return f"{kind}: {text}"
    last = (own or frames)[-1]
    place = f"{Path(last.filename).name}, line {last.lineno}, in {last.name}"
    return f"{kind}: {text} ({place})" if text else f"{kind} ({place})"


def one_line(error: BaseException) -> str:
    """Return an error's text on one line, shortened where it is very long."""
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _file_of(strategy: object) -> str | None:
    try:
        return inspect.getfile(type(strategy))
    except (OSError, TypeError):  # made on the fly: there is no file
        return None
