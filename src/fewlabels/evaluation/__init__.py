"""How good a classifier is, on data that no decision used, and how sure that is."""

from typing import TYPE_CHECKING

from fewlabels.deferred import imported_when_used

if TYPE_CHECKING:
    from fewlabels.evaluation.balance import balance_note
    from fewlabels.evaluation.bands import Band, Noise, curve_band, retraining_noise
    from fewlabels.evaluation.budgets import Saving, area_under_curve, labels_saved
    from fewlabels.evaluation.choices import (
        class_balance,
        class_coverage,
        redundant_share,
    )
    from fewlabels.evaluation.comparisons import (
        PairedTest,
        Welch,
        corrected,
        holm,
        paired_tests,
        welch,
    )
    from fewlabels.evaluation.curves import (
        CurvePoint,
        Gain,
        Rights,
        expected_gain,
        fall_note,
        learning_curve,
    )
    from fewlabels.evaluation.intervals import AuditedAccuracy, accuracy_interval
    from fewlabels.evaluation.measuring import accuracy, settled
    from fewlabels.evaluation.overlaps import (
        chance_overlap,
        overlap_across_trials,
        overlap_of_unions,
        overlap_per_trial,
    )
    from fewlabels.evaluation.penalties import (
        Penalties,
        penalty_checkpoints,
        penalty_matrix,
    )
else:
    __getattr__ = imported_when_used(__name__)

__all__ = [
    "AuditedAccuracy",
    "Band",
    "CurvePoint",
    "Gain",
    "Noise",
    "PairedTest",
    "Penalties",
    "Rights",
    "Saving",
    "Welch",
    "accuracy",
    "accuracy_interval",
    "area_under_curve",
    "balance_note",
    "chance_overlap",
    "class_balance",
    "class_coverage",
    "corrected",
    "curve_band",
    "expected_gain",
    "fall_note",
    "holm",
    "labels_saved",
    "learning_curve",
    "overlap_across_trials",
    "overlap_of_unions",
    "overlap_per_trial",
    "paired_tests",
    "penalty_checkpoints",
    "penalty_matrix",
    "redundant_share",
    "retraining_noise",
    "settled",
    "welch",
]
