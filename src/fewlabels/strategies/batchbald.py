"""BatchBALD: the set whose labels tell most about which sampled network is right.

Features are predictions of sampled networks, the objective is mutual information, the
search is greedy (Kirsch, van Amersfoort and Gal, 2019).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Generator

from fewlabels.errors import UsageError
from fewlabels.pool import Pool, Query, Round
from fewlabels.protocols import Classifier, check_finite
from fewlabels.search import check_size
from fewlabels.search.joint_entropy import maximize_information
from fewlabels.strategies.inputs import check_classes, check_part, considered


@dataclass(frozen=True)
class BatchBald:
    """Greedily maximize the information of the set's labels about the network."""

    num_samples: int = 20
    """How many networks are sampled."""
    num_configurations: int = 10_000
    """Ways to label the set that are looked at; while there are no more, all are."""
    max_pool: int = 2_000
    """How many candidates can be looked at; each costs all configurations."""

    def __post_init__(self) -> None:
        """Refuse numbers with which nothing can be compared."""
        check_part(max_pool=self.max_pool)
        if self.num_samples < 2 or self.num_configurations < 1:
            raise UsageError(
                f"num_samples is {self.num_samples} and num_configurations "
                f"{self.num_configurations}; give at least 2 networks, whose "
                "predictions are compared, and at least 1 configuration."
            )

    def select(
        self,
        classifier: Classifier,
        pool: Pool,
        size: int,
        generator: Generator,
        *,
        history: Sequence[Round] = (),
    ) -> Query:
        """Choose ``size`` candidates; see :class:`fewlabels.protocols.Strategy`."""
        del history
        check_size(size, len(pool.candidates))
        looked_at = considered(pool.candidates, self.max_pool, generator, at_least=size)
        logits = classifier.sample_logits(
            pool.images, looked_at.items, self.num_samples, generator
        )
        check_classes(logits)
        check_finite("sampled logits", logits)
        positions, information = maximize_information(
            logits, size, generator, num_configurations=self.num_configurations
        )
        is_exact = logits.shape[2] ** (size - 1) <= self.num_configurations
        record = {"exact": is_exact, "samples": self.num_samples, **looked_at.record}
        return Query(looked_at.items[positions], information, record)
