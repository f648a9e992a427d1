from .budgets import Saving as Saving, area_under_curve as area_under_curve
from .budgets import curve_band as curve_band, labels_saved as labels_saved
from .budgets import retraining_noise as retraining_noise
from .choices import chance_overlap as chance_overlap, class_coverage as class_coverage
from .choices import overlap_across_trials as overlap_across_trials
from .choices import overlap_of_differences as overlap_of_differences
from .choices import overlap_of_unions as overlap_of_unions
from .choices import overlap_per_trial as overlap_per_trial
from .choices import redundant_share as redundant_share
from .comparisons import LabelGain as LabelGain, PairedTest as PairedTest
from .comparisons import Welch as Welch, corrected as corrected, holm as holm
from .comparisons import label_gains as label_gains, paired_tests as paired_tests
from .comparisons import penalty_checkpoints as penalty_checkpoints
from .comparisons import penalty_matrix as penalty_matrix, welch as welch
from .measurement import AuditedAccuracy as AuditedAccuracy, Change as Change
from .measurement import Confidences as Confidences, CurvePoint as CurvePoint
from .measurement import Gain as Gain, Rights as Rights, accuracy as accuracy
from .measurement import accuracy_interval as accuracy_interval
from .measurement import balance_note as balance_note, calibration as calibration
from .measurement import checks_to_confirm as checks_to_confirm
from .measurement import expected_gain as expected_gain, fall_note as fall_note
from .measurement import lasting_interval as lasting_interval
from .measurement import late_median as late_median, learning_curve as learning_curve
from .measurement import sharpened_interval as sharpened_interval
from .measurement import stopping_advice as stopping_advice
