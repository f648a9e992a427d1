"""Two query strategies from the literature, as we read them, for comparison only."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fewlabels.pool import Pool, Query, Round
from fewlabels.protocols import Classifier
from fewlabels.search.clusters import k_means
from fewlabels.strategies import Margin, TypiClust
from fewlabels.strategies.inputs import Request, unit_rows


@dataclass(frozen=True)
class TypiClustThenMargin:
    """TypiClust while there are few labels per class, then margin (Doucet et al. 2024).

    "Bridging Diversity and Uncertainty in Active Learning with Self-Supervised
    Pre-Training". When to switch depends on their budgets; here it is one number.
    """

    labels_per_class: int = 4

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
        is_early = len(pool.labeled) < self.labels_per_class * pool.num_classes
        chooser = TypiClust() if is_early else Margin()
        return chooser.select(classifier, pool, size, generator, history=history)


@dataclass(frozen=True)
class DropQuery:
    """Cluster what changes its class when features are dropped (Gupte et al. 2024).

    "Revisiting Active Learning in the Era of Vision Foundation Models": candidates
    whose predicted class changes in more than half of ``num_draws`` passes with dropout
    on the inputs of the head are clustered, and the one nearest to each center is asked
    about. Where too few change, those that change most often fill up.
    """

    num_draws: int = 3
    share: float = 0.75

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
        items = pool.candidates
        request = Request(classifier, pool, size, generator)
        outputs = classifier.outputs(pool.images, items)
        rows, origin = request.label_free_rows(outputs, items)
        is_wavering = torch.ones(len(items), dtype=torch.bool)
        if len(pool.labeled):
            changes = self._changes(
                classifier, torch.as_tensor(rows), origin, generator
            )
            is_wavering = changes > self.num_draws / 2
            if int(is_wavering.sum()) < size:
                is_wavering = changes >= changes.sort(descending=True).values[size - 1]
        free = torch.nonzero(is_wavering).flatten()
        unit = unit_rows(outputs.features[:][free])
        clusters = k_means(unit, size, generator)
        chosen = []
        for number in range(size):
            members = torch.nonzero(clusters == number).flatten()
            if len(members):
                middle = unit[members].mean(dim=0)
                distances = (unit[members] - middle).square().sum(dim=1)
                chosen.append(int(members[distances.argmin()]))
        left = [one for one in range(len(free)) if one not in set(chosen)]
        chosen += left[: size - len(chosen)]  # of clusters that are empty
        return Query(items[free[torch.tensor(chosen)]])

    def _changes(
        self, classifier: Classifier, rows: Tensor, origin: float, generator: Generator
    ) -> Tensor:
        """Return how often each row changes its class when some of it is dropped."""
        network = classifier.module
        assert network is not None

        def classes(given: Tensor) -> Tensor:
            parts = [network(part).argmax(dim=1) for part in given.split(1024)]
            return torch.cat(parts)

        before = classes(rows)
        changes = torch.zeros(len(rows))
        for _ in range(self.num_draws):
            kept = torch.rand(rows.shape, generator=generator) >= self.share
            dropped = origin + (rows - origin) * kept / (1 - self.share)
            changes += (classes(dropped) != before).float()
        return changes
