from .budgets import (
    Saving as Saving,
    area_under_curve as area_under_curve,
    curve_band as curve_band,
    labels_saved as labels_saved,
    retraining_noise as retraining_noise,
)
from .choices import (
    chance_overlap as chance_overlap,
    class_coverage as class_coverage,
    overlap_across_trials as overlap_across_trials,
    overlap_of_unions as overlap_of_unions,
    overlap_per_trial as overlap_per_trial,
    redundant_share as redundant_share,
)
from .comparisons import (
    PairedTest as PairedTest,
    Welch as Welch,
    corrected as corrected,
    holm as holm,
    paired_tests as paired_tests,
    penalty_checkpoints as penalty_checkpoints,
    penalty_matrix as penalty_matrix,
    welch as welch,
)
from .measurement import (
    Change as Change,
    Confidences as Confidences,
    CurvePoint as CurvePoint,
    Gain as Gain,
    Rights as Rights,
    balance_note as balance_note,
    checks_to_confirm as checks_to_confirm,
    expected_gain as expected_gain,
    fall_note as fall_note,
    lasting_interval as lasting_interval,
    learning_curve as learning_curve,
    sharpened_interval as sharpened_interval,
    stopping_advice as stopping_advice,
    AuditedAccuracy as AuditedAccuracy,
    accuracy as accuracy,
    accuracy_interval as accuracy_interval,
    late_median as late_median,
)
