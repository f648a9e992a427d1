"""How long training and asking take, and how much memory, measured from outside."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torch import Generator

from fewlabels.identity import Identity, identity
from fewlabels.pool import Pool, Query, Round
from fewlabels.protocols import Classifier, Strategy, Trainer, ignore
from fewlabels.runs.memory import peak_memory


@dataclass
class Stopwatch:
    """Seconds spent per kind of work since the last reading.

    Work inside other work counts once, as what it is itself.
    """

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    megabytes: dict[str, float] = field(default_factory=dict)
    """The most that the process held during some kinds of work."""

    @contextmanager
    def running(self, work: str) -> Iterator[None]:
        """Count the time of the block as time of ``work``."""
        begin, counted = time.perf_counter(), sum(self.seconds.values())
        try:
            yield
        finally:
            inside = sum(self.seconds.values()) - counted
            self.seconds[work] += time.perf_counter() - begin - inside

    def reading(self) -> dict[str, Any]:
        """Return seconds, megabytes and the time of day, and begin anew."""
        spent = {f"{work}_seconds": round(s, 3) for work, s in self.seconds.items()}
        spent |= {f"{work}_peak_mb": peak for work, peak in self.megabytes.items()}
        self.seconds.clear()
        self.megabytes.clear()
        return spent | {"finished": datetime.now(UTC).isoformat(timespec="seconds")}


@dataclass(frozen=True)
class TimedTrainer:
    """A trainer whose time is taken, without that of measuring its checkpoints."""

    trainer: Trainer
    watch: Stopwatch

    @property
    def identity(self) -> Identity:
        """That of the trainer."""
        return identity(self.trainer)

    @property
    def num_steps(self) -> int | None:
        """That of the trainer."""
        return self.trainer.num_steps

    def check(self, pool: Pool) -> None:
        """Let the trainer check."""
        self.trainer.check(pool)

    def fit(
        self,
        pool: Pool,
        generator: Generator,
        *,
        workspace: Path | None = None,
        on_checkpoint: Callable[[int, Classifier], None] = ignore,
    ) -> Classifier:
        """Train; see :class:`fewlabels.protocols.Trainer`."""

        def measured(step: int, classifier: Classifier) -> None:
            with self.watch.running("measure"):
                on_checkpoint(step, classifier)

        with self.watch.running("train"):
            return self.trainer.fit(
                pool, generator, workspace=workspace, on_checkpoint=measured
            )


@dataclass(frozen=True)
class TimedStrategy:
    """A strategy whose time and memory are taken."""

    strategy: Strategy
    watch: Stopwatch

    def select(
        self,
        classifier: Classifier,
        pool: Pool,
        size: int,
        generator: Generator,
        *,
        history: Sequence[Round] = (),
    ) -> Query:
        """Choose; see :class:`fewlabels.protocols.Strategy`."""
        with self.watch.running("query"), peak_memory() as peak:
            query = self.strategy.select(
                classifier, pool, size, generator, history=history
            )
            megabytes = peak()
        if megabytes is not None:
            self.watch.megabytes["query"] = megabytes
        return query
