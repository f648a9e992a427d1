"""modAL: our strategies as its callables. modAL itself is not imported."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError

from fewlabels.adapters.probabilities import logits_of
from fewlabels.protocols import Strategy
from fewlabels.rng import stream
from fewlabels.strategies.arrays import select


@dataclass(frozen=True, kw_only=True)
class ModalQuery:
    """A strategy of fewlabels as a ``query_strategy`` of modAL's ``ActiveLearner``.

    It keeps no state: the same learner and pool give the same answer however often it
    is called, and each further label gives other random numbers.

    Example:
        >>> from types import SimpleNamespace
        >>> learner = SimpleNamespace(X_training=None)
        >>> rows = np.random.default_rng(0).normal(size=(50, 8))
        >>> indices, _ = ModalQuery(strategy="npc", seed=0)(learner, rows, 3)
        >>> len(set(indices.tolist()))
        3
    """

    strategy: str | Strategy
    """A built-in name, ``"package.module:Name"``, or an object."""
    seed: int
    """What all random numbers come from."""
    options: Mapping[str, Any] | None = None
    """Options of the strategy, where it is given by name."""
    embed: Callable[[Any], ArrayLike] | None = None
    """Maps samples to features, one row each; None: samples are features."""

    def __call__(
        self, learner: Any, X_pool: Any, n_instances: int = 1
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Choose samples of the pool.

        Args:
            learner: modAL's learner. What it was trained on counts as labeled; one that
                is not fitted, or predicts no probabilities, gives no logits.
            X_pool: The samples to choose from.
            n_instances: How many to choose.

        Returns:
            Distinct positions in ``X_pool``, and metrics as modAL wants them: they
            count down from the first choice to the last.
        """
        trained_on = learner.X_training
        parts = [X_pool] if trained_on is None else [X_pool, trained_on]
        rows = [np.asarray(self.embed(p) if self.embed else p) for p in parts]
        features = np.concatenate(rows)
        labeled = np.arange(len(rows[0]), len(features))
        chosen = select(
            self.strategy,
            features=features,
            logits=_logits(learner, parts),
            labeled=labeled,
            labels=_class_numbers(learner) if len(labeled) else None,
            candidates=np.arange(len(rows[0])),
            size=n_instances,
            seed=stream(self.seed, "modal", len(labeled)),
            options=self.options,
        )
        return chosen, np.arange(len(chosen), 0, -1)


def _logits(learner: Any, parts: Sequence[Any]) -> NDArray[Any] | None:
    """Return logits of all samples; None where the learner has no predictions."""
    try:
        return np.concatenate([logits_of(learner.predict_proba(p)) for p in parts])
    except (AttributeError, NotFittedError):
        return None


def _class_numbers(learner: Any) -> NDArray[np.int64] | None:
    """Return the learner's labels as columns of its predictions, if it says how."""
    classes = getattr(getattr(learner, "estimator", None), "classes_", None)
    labels = np.asarray(learner.y_training)
    if classes is None or labels.ndim != 1:
        return None
    return np.searchsorted(classes, labels)
