"""What the trainers of networks have in common: all but the objective."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Generator

from fewlabels.pool import Pool
from fewlabels.protocols import Classifier, ignore
from fewlabels.training import loop
from fewlabels.training.settings import TrainingSettings


@dataclass(frozen=True, kw_only=True)
class NetworkTrainer(TrainingSettings):
    """Trains a network from scratch by the objective of a subclass."""

    def fit(
        self,
        pool: Pool,
        generator: Generator,
        *,
        workspace: Path | None = None,
        on_checkpoint: Callable[[int, Classifier], None] = ignore,
    ) -> Classifier:
        """Train from scratch; see :class:`fewlabels.protocols.Trainer`.

        Args:
            pool: Labeled and unlabeled images.
            generator: The only source of randomness.
            workspace: Where the finished network is kept and found again.
            on_checkpoint: Called with the step and the averaged network.

        Returns:
            The averaged network as a classifier; untrained, if nothing is labeled.
        """
        return loop.fit(
            self,
            self._objective,
            pool,
            generator,
            workspace=workspace,
            on_checkpoint=on_checkpoint,
        )

    def _objective(self, pool: Pool, key: int) -> loop.Objective:
        """Return the loss of a network at each step."""
        raise NotImplementedError
