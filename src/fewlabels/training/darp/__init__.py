"""DARP: pseudo-labels moved as little as possible to wanted numbers per class.

Kim et al., "Distribution Aligning Refinery of Pseudo-label for Imbalanced
Semi-supervised Learning" (NeurIPS 2020). Pure functions over tensors.
"""

from fewlabels.training.darp import targets
from fewlabels.training.darp.refinement import (
    Masking,
    Refinement,
    Solver,
    Weighting,
    refine,
    solve,
)

__all__ = [
    "Masking",
    "Refinement",
    "Solver",
    "Weighting",
    "refine",
    "solve",
    "targets",
]
