"""DARP: pseudo-labels moved as little as possible to wanted class counts.

Kim et al., "Distribution Aligning Refinery of Pseudo-label for Imbalanced
Semi-supervised Learning" (NeurIPS 2020). Pure functions over tensors.
"""

from fewlabels.training.darp.refinement import Refinement, refine, solve

__all__ = ["Refinement", "refine", "solve"]
