"""BAIT: the set whose Fisher information explains the whole pool's best.

Features are the Fisher information of the last layer, the objective is the trace of
what the set leaves of the pool's, the search is greedy, forward and back (Ash, Goel,
Krishnamurthy and Kakade, 2021).

Time grows with the cube of classes times features. Wide rows are therefore taken in
their leading principal components, which hardly changes what the set explains of whole
rows (`benchmarks/query_speed.py` measures both).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from fewlabels import gram
from fewlabels.errors import UsageError
from fewlabels.gram.principal import principal_components
from fewlabels.naming import check_known
from fewlabels.pool import Pool, Query, Record, Round
from fewlabels.protocols import Classifier, Outputs
from fewlabels.search import Information, check_size, minimize_remainder
from fewlabels.strategies.inputs import (
    Considered,
    by_chunks,
    check_classes,
    check_part,
    considered,
)

Likelihood = Literal["categorical", "binary"]

_MOST_PARAMETERS = 5_000


@dataclass(frozen=True)
class Bait:
    """Minimize tr[(λ I + information of labeled and chosen items)⁻¹ that of all]."""

    ignores_order: ClassVar[bool] = True
    likelihood: Likelihood = "categorical"
    """All classes, or the cheap form: whether the most likely class is right."""
    regularization: float = 1.0
    """λ: what counts as known of every parameter before any label."""
    oversample: float = 2.0
    """How many times the items wanted are added, before the worst are taken out."""
    max_pool: int = 10_000
    """How many candidates are looked at; the binary form looks at all."""
    components: int = 64
    """Principal components of wider features that are kept; the binary form takes the
    features as they are."""

    def __post_init__(self) -> None:
        """Refuse a misspelt likelihood, and numbers that make no sense."""
        check_known("likelihood", self.likelihood, Likelihood)
        check_part(max_pool=self.max_pool, components=self.components)
        if not 0 < self.regularization < float("inf") or not self.oversample >= 1:
            raise UsageError(
                f"regularization is {self.regularization} and oversample is "
                f"{self.oversample}; the information has to be invertible before any "
                "label, and at least the items wanted are added: give a finite "
                "regularization above 0 and an oversample of at least 1."
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
        outputs = classifier.outputs(pool.images, torch.arange(len(pool)))
        check_classes(outputs.logits)
        is_wide = outputs.features.shape[1] > self.components
        if is_wide and self.likelihood == "categorical":
            short = principal_components(outputs.features, self.components)
            outputs = replace(outputs, features=short)
        asked = self._looked_at(pool.candidates, outputs, generator, at_least=size)
        everything = self._looked_at(torch.arange(len(pool)), outputs, generator)
        total = len(pool.labeled) + size
        indices, remainder = minimize_remainder(
            self._information(outputs, asked.items, size / total),
            known=self._information(outputs, pool.labeled, 1 / total).total(),
            regularization=self.regularization,
            target=self._mean_information(outputs, everything.items),
            candidates=asked.items,
            size=size,
            oversample=self.oversample,
            generator=generator,
        )
        record: Record = {"remainder": remainder, **asked.record}
        if everything.record:
            record = {**record, "target": everything.record["subsample"]}
        return Query(indices, -remainder, record)

    def _mean_information(self, outputs: Outputs, items: Tensor) -> Tensor:
        return self._information(outputs, items, 1 / len(items)).total()

    def _information(
        self, outputs: Outputs, items: Tensor, weight: float
    ) -> Information:
        """Return the items' information, times ``weight``."""
        rows, logits = outputs.features[items], outputs.logits[items]
        if self.likelihood == "binary":
            factors = by_chunks(gram.binary_factors, logits)
        else:
            factors = gram.class_factors(logits)
        return Information(rows, weight**0.5 * factors)

    def _looked_at(
        self, items: Tensor, outputs: Outputs, generator: Generator, at_least: int = 1
    ) -> Considered:
        """Return what the form can look at, or say that it can do nothing."""
        if self.likelihood == "binary":
            return Considered(items, {})
        num_classes, num_features = outputs.logits.shape[1], outputs.features.shape[1]
        if num_classes * num_features > _MOST_PARAMETERS:
            raise UsageError(
                f"{num_classes} classes times {num_features} features are "
                f"{num_classes * num_features} parameters, and their information is a "
                f"square matrix of that side, inverted; at most {_MOST_PARAMETERS} "
                "fit. Choose likelihood='binary', whose matrix has the side "
                "of all features, or fewer components."
            )
        return considered(items, self.max_pool, generator, at_least=at_least)
