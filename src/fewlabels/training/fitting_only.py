"""Trainers from outside: ``fit`` is all they need."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Generator

from fewlabels.identity import Identity, identity
from fewlabels.pool import Pool
from fewlabels.protocols import Classifier, ignore


@dataclass(frozen=True)
class FittingOnly:
    """A trainer with plain answers to what it does not answer itself."""

    trainer: Any

    @property
    def identity(self) -> Identity:
        """That of the trainer."""
        return identity(self.trainer)

    @property
    def num_steps(self) -> int | None:
        """Its ``steps``, if that is a number."""
        steps = getattr(self.trainer, "steps", None)
        return steps if isinstance(steps, int) else None

    def check(self, pool: Pool) -> None:
        """Ask the trainer, if it checks anything."""
        if hasattr(self.trainer, "check"):
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
        classifier: Classifier = self.trainer.fit(
            pool, generator, workspace=workspace, on_checkpoint=on_checkpoint
        )
        return classifier
