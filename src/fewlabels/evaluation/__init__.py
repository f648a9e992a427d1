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

__all__ = [
    "AuditedAccuracy",
    "CurvePoint",
    "Gain",
    "accuracy",
    "accuracy_interval",
    "balance_note",
    "expected_gain",
    "learning_curve",
    "settled",
]
