"""How good a classifier is, on data that no decision used, and how sure that is."""

from fewlabels.evaluation.balance import balance_note
from fewlabels.evaluation.curves import (
    CurvePoint,
    Gain,
    expected_gain,
    learning_curve,
)
from fewlabels.evaluation.intervals import AuditedAccuracy, accuracy_interval
from fewlabels.evaluation.measuring import accuracy, settled
from fewlabels.evaluation.penalties import Penalties, penalty_matrix

__all__ = [
    "AuditedAccuracy",
    "CurvePoint",
    "Gain",
    "Penalties",
    "accuracy",
    "accuracy_interval",
    "balance_note",
    "expected_gain",
    "learning_curve",
    "penalty_matrix",
    "settled",
]
