"""What the trainers of networks have in common: all but the objective."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Generator

from fewlabels.pool import Pool
from fewlabels.protocols import Classifier, ignore
from fewlabels.training import fitting
from fewlabels.training.objective import Recipe


@dataclass(frozen=True, kw_only=True)
class NetworkTrainer(Recipe):
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
            workspace: Where the training is kept, finished or not, and found again.
            on_checkpoint: Called with the step and the averaged network.

        Returns:
            The averaged network as a classifier; untrained, if nothing is labeled.
        """
        self.check(pool)
        folder = None if workspace is None else Path(workspace)
        return fitting.fit(self, pool, generator, folder, on_checkpoint)
