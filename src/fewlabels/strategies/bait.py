"""BAIT: the set whose Fisher information explains the whole pool's best.

Features are the Fisher information of the last layer, the objective is the trace of
what the set leaves of the pool's, the search is greedy, forward and back (Ash, Goel,
Krishnamurthy and Kakade, 2021).

Time grows with the cube of classes times features. Wide rows are therefore taken in
their leading principal components, which hardly changes what the set explains of whole
rows (`benchmarks/query_speed.py` measures both).
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from fewlabels import gram
from fewlabels.errors import Count, Limits, Positive, UsageError
from fewlabels.gram.principal import principal_components
from fewlabels.pool import Query, Record
from fewlabels.protocols import Outputs
from fewlabels.search import Information, minimize_remainder
from fewlabels.strategies.inputs import BuiltIn, Request, by_chunks, sample_record

Likelihood = Literal["categorical", "binary"]

_MOST_PARAMETERS = 5_000


@dataclass(frozen=True)
class Bait(BuiltIn):
    """Minimize tr[(λ I + information of labeled and chosen items)⁻¹ that of all]."""

    ignores_order: ClassVar[bool] = True
    likelihood: Likelihood = "categorical"
    """All classes, or the cheap form: whether the most likely class is right."""
    regularization: Positive = 1.0
    """λ: what counts as known of every parameter before any label."""
    oversample: Annotated[float, Limits(at_least=1)] = 2.0
    """How many times the items wanted are added, before the worst are taken out."""
    max_pool: Count = 10_000
    """How many candidates are looked at; the binary form looks at all."""
    components: Count = 64
    """Principal components of wider features that are kept; the binary form takes the
    features as they are."""

    def choose(self, request: Request) -> Query:
        """Choose greedily, forward and back."""
        pool, size = request.pool, request.size
        outputs, limit = request.predictions(), len(pool)
        if self.likelihood == "categorical":
            limit = self.max_pool
            if outputs.features.shape[1] > self.components:
                short = principal_components(outputs.features, self.components)
                outputs = replace(outputs, features=short)
            num_classes, width = outputs.logits.shape[1], outputs.features.shape[1]
            if num_classes * width > _MOST_PARAMETERS:
                raise UsageError(
                    f"{num_classes} x {width} parameters are more than "
                    f"{_MOST_PARAMETERS}; choose likelihood='binary'."
                )
        candidates, subsample = request.candidates(limit)
        everything = request.part_of(torch.arange(len(pool)), limit)
        total = len(pool.labeled) + size
        places, remainder = minimize_remainder(
            self._information(outputs, candidates, size / total),
            known=self._information(outputs, pool.labeled, 1 / total).total(),
            regularization=self.regularization,
            target=self._information(outputs, everything, 1 / len(everything)).total(),
            size=size,
            oversample=self.oversample,
            generator=request.generator,
        )
        record: Record = {"remainder": remainder, **subsample}
        if target := sample_record(len(everything), len(pool), limit):
            record = {**record, "target": target["subsample"]}
        return Query(candidates[places], -remainder, record)

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
