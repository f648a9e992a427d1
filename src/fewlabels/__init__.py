"""From a pile of unlabeled images and a labeling budget to the best classifier."""
