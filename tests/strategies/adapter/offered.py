"""The strategies that other libraries can use."""

from fewlabels import strategies

WANT_SAMPLES = {"batchbald"}  # other libraries have one classifier, not several samples
OFFERED = [name for name in strategies.names() if name not in WANT_SAMPLES]
NEED_LABELS = {"dal"}  # it learns to tell labeled items from others
