"""scikit-activeml: our strategies in its loop, and its strategies in ours.

Needs scikit-activeml; written against version 1.0.1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator

from fewlabels.errors import UsageError
from fewlabels.names import DEFAULT_STRATEGY
from fewlabels.pool import UNKNOWN, Pool, Query, Round
from fewlabels.protocols import Classifier, Outputs, Strategy
from fewlabels.rng import fork, stream
from fewlabels.search import check_size
from fewlabels.strategies.arrays import select
from fewlabels.strategies.inputs import check_classes, check_labels_given

try:
    from skactiveml.base import SingleAnnotatorPoolQueryStrategy, SkactivemlClassifier
    from skactiveml.utils import (
        MISSING_LABEL,
        ExtLabelEncoder,
        check_equal_missing_label,
        check_scalar,
        check_type,
    )
    from sklearn.base import clone
except ModuleNotFoundError as error:
    message = (
        f"This adapter needs scikit-activeml, which cannot be imported ({error}). Run: "
        "pip install 'scikit-activeml>=1.0.1,<2'"
    )
    raise UsageError(message) from error

_SEEDS = 2**32  # numpy.random.RandomState takes no larger ones


class FewlabelsQuery(SingleAnnotatorPoolQueryStrategy):  # type: ignore[misc]  # untyped
    """A strategy of fewlabels as a query strategy of scikit-activeml.

    Args:
        strategy: A built-in name, ``"package.module:Name"``, or an object.
        options: Options of the strategy, where it is given by name.
        clf_embedding_flag_name: How ``clf.predict_proba`` is asked for embeddings: the
            name of a flag, or keyword arguments; it then returns probabilities and
            embeddings. None: ``X`` is the embedding, unless it returns both anyway.
        missing_label: What stands in ``y`` where there is no label.
        random_state: Seed, as everywhere in scikit-activeml.

    Example:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(50, 8))
        >>> y = np.full(50, np.nan)
        >>> y[:2] = [0, 1]
        >>> chosen = FewlabelsQuery("npc", random_state=0).query(X, y, batch_size=3)
        >>> len(set(chosen.tolist()) - {0, 1})
        3
    """

    def __init__(
        self,
        strategy: str | Strategy = DEFAULT_STRATEGY,
        options: Mapping[str, Any] | None = None,
        clf_embedding_flag_name: str | dict[str, Any] | None = None,
        missing_label: Any = MISSING_LABEL,
        random_state: Any = None,
    ) -> None:
        super().__init__(missing_label=missing_label, random_state=random_state)
        self.strategy = strategy
        self.options = options
        self.clf_embedding_flag_name = clf_embedding_flag_name

    def query(
        self,
        X: Any,
        y: Any,
        clf: Any = None,
        fit_clf: bool = True,  # noqa: FBT001, FBT002 - scikit-activeml's signature
        sample_weight: ArrayLike | None = None,
        candidates: ArrayLike | None = None,
        batch_size: int = 1,
        return_utilities: bool = False,  # noqa: FBT001, FBT002 - the same
    ) -> NDArray[np.int64] | tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Choose which samples to label next.

        Args:
            X: All samples, labeled or not, shape (N, ...).
            y: Their labels, shape (N,), with ``missing_label`` where there is none.
            clf: A classifier of scikit-activeml; None for strategies that look at
                features only. It is not changed.
            fit_clf: Whether a copy of the classifier is fitted first.
            sample_weight: Weights for fitting it, shape (N,).
            candidates: Positions in ``X`` to choose from; all unlabeled by default.
                Rows of features raise ``MappingError``: a choice depends on the pool.
            batch_size: How many samples to choose.
            return_utilities: Whether utilities are returned, too.

        Returns:
            ``batch_size`` distinct positions in ``X``; with utilities, also shape
            (batch_size, N): row b counts down from the b-th choice to the last, and is
            0 for other candidates and NaN for what is labeled, chosen before or no
            candidate. The strategies value sets, so there is no finer number.
        """
        X, y, candidates, batch_size, return_utilities = self._validate_data(
            X, y, candidates, batch_size, return_utilities, reset=True
        )
        _, positions = self._transform_candidates(
            candidates, X, y, enforce_mapping=True, allow_only_unlabeled=True
        )
        check_scalar(fit_clf, "fit_clf", bool)
        features, logits, classes = X, None, None
        if clf is not None:
            check_type(clf, "clf", SkactivemlClassifier)
            check_equal_missing_label(clf.missing_label, self.missing_label_)
            if fit_clf:
                weights = () if sample_weight is None else (sample_weight,)
                clf = clone(clf).fit(X, y, *weights)
            features, logits = self._outputs(clf, X)
            classes = clf.classes_
        numbers = ExtLabelEncoder(classes, self.missing_label_).fit_transform(y)
        labeled = np.flatnonzero(numbers >= 0)
        chosen = select(
            self.strategy,
            features=np.reshape(features, (len(X), -1)),
            logits=logits,
            labeled=labeled,
            labels=numbers[labeled],
            candidates=positions,
            size=batch_size,
            seed=stream(int(self.random_state_.randint(2**31)), "query"),
            options=self.options,
        )
        if not return_utilities:
            return chosen
        utilities = np.full((batch_size, len(X)), np.nan)
        utilities[:, positions] = 0
        utilities[:, chosen] = np.arange(batch_size, 0, -1)
        for place in range(batch_size):
            utilities[place:, chosen[:place]] = np.nan
        return chosen, utilities

    def _outputs(self, clf: Any, X: Any) -> tuple[Any, NDArray[Any]]:
        """Return features and logits of all samples."""
        flag = self.clf_embedding_flag_name
        if flag is not None:
            check_type(flag, "clf_embedding_flag_name", dict, str)
        asked = {flag: True} if isinstance(flag, str) else flag or {}
        answer = clf.predict_proba(X, **asked)
        if isinstance(answer, tuple):
            return answer[1], _logits(answer[0])
        if asked:
            raise UsageError(
                f"{type(clf).__name__} returned no embeddings for {asked}; correct "
                "clf_embedding_flag_name, or leave it out."
            )
        return X, _logits(answer)


def _logits(probabilities: ArrayLike) -> NDArray[Any]:
    """Return logarithms of probabilities (N, C), finite where a probability is zero."""
    given = np.asarray(probabilities)
    if given.dtype.kind != "f":
        given = given.astype(np.float64)
    logits: NDArray[Any] = np.log(np.maximum(given, np.finfo(given.dtype).tiny))
    return logits


@dataclass(frozen=True)
class PeerStrategy:
    """A query strategy of scikit-activeml as a strategy of fewlabels.

    It sees the classifier's features as ``X``, the labels so far as ``y`` and, if it
    wants one, a classifier that predicts what ours predicts and cannot be fitted. Items
    with equal features are taken to have equal predictions.

    Where items have copies, a batch of Badge 1.0.1 may name an item twice; the peer is
    then asked for the rest among what remains, and the record says how often.
    """

    query_strategy: Any
    """An object such as ``skactiveml.pool.Badge()``; it is copied, never changed."""

    def __post_init__(self) -> None:
        """Refuse what is not a query strategy for single annotators."""
        if not isinstance(self.query_strategy, SingleAnnotatorPoolQueryStrategy):
            raise UsageError(
                f"query_strategy {self.query_strategy!r} is not for one annotator."
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
        peer = clone(self.query_strategy)
        seed = fork(generator) % _SEEDS
        settings = {"random_state": seed, "missing_label": MISSING_LABEL}
        for name in peer.get_params():  # those of its parts are called part__name
            if (last := name.rpartition("__")[2]) in settings:
                peer.set_params(**{name: settings[last]})
        outputs = classifier.outputs(pool.images, torch.arange(len(pool)))
        arguments = _arguments(peer, outputs, pool)
        chosen: list[int] = []
        num_queries = 0
        while len(chosen) < size:
            rest = pool.candidates[~torch.isin(pool.candidates, torch.tensor(chosen))]
            answer = peer.query(
                **arguments, candidates=rest.numpy(), batch_size=size - len(chosen)
            )
            chosen += dict.fromkeys(int(index) for index in answer)
            num_queries += 1
        record = {"peer": type(peer).__name__, "asked": num_queries}
        return Query(torch.tensor(chosen, dtype=torch.int64), record=record)


def _arguments(peer: Any, outputs: Outputs, pool: Pool) -> dict[str, Any]:
    """Return what the peer's ``query`` takes of what there is to give."""
    rows = outputs.features[:].detach().cpu()
    X = (rows if rows.dtype == torch.float64 else rows.float()).numpy()
    check_labels_given(pool)
    y = pool.labels.to(torch.float64, copy=True).cpu().numpy()
    y[y == UNKNOWN] = MISSING_LABEL
    given: dict[str, Any] = {"X": X, "y": y, "fit_clf": False}
    taken = _parameters(peer)
    if "clf" in taken:
        check_classes(outputs.logits)
        probabilities = outputs.logits.double().softmax(dim=-1).cpu().numpy()
        given["clf"] = _FrozenClassifier(X, probabilities)
    known = {*given, "candidates", "batch_size"}
    wanting = [
        name
        for name, parameter in taken.items()
        if parameter.default is Parameter.empty and name not in known
    ]
    if wanting:
        raise UsageError(
            f"{type(peer).__name__}.query needs {', '.join(wanting)}; choose another."
        )
    return {name: value for name, value in given.items() if name in taken}


def _parameters(peer: Any) -> dict[str, Parameter]:
    """Return the parameters of ``query``, and of the strategy that a wrapper wraps."""
    own = signature(peer.query).parameters
    named = {n: p for n, p in own.items() if p.kind is not Parameter.VAR_KEYWORD}
    wrapped = getattr(peer, "query_strategy", None)
    if len(named) < len(own) and wrapped is not None:
        return _parameters(wrapped) | named
    return named


class _FrozenClassifier(SkactivemlClassifier):  # type: ignore[misc]  # untyped
    """Predictions that were made before, found by the row of features."""

    def __init__(self, features: NDArray[Any], probabilities: NDArray[Any]) -> None:
        self.classes_ = np.arange(probabilities.shape[1])
        super().__init__(classes=self.classes_)
        self.features = features
        self.probabilities = probabilities
        rows = range(len(features) - 1, -1, -1)  # of equal rows the first one stays
        self._places = {features[row].tobytes(): row for row in rows}

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        """Refuse: training is the business of our trainers."""
        del X, y, sample_weight
        raise UsageError("The strategy fits; choose one that takes fit_clf=False.")

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of rows of the pool."""
        rows = np.ascontiguousarray(X, dtype=self.features.dtype)
        try:
            places = [self._places[row.tobytes()] for row in rows]
        except KeyError as error:
            raise UsageError(
                "The strategy predicts a row that is not in the pool; choose another."
            ) from error
        return self.probabilities[places]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely classes of rows of the pool."""
        classes: NDArray[Any] = self.predict_proba(X).argmax(axis=1)
        return classes
