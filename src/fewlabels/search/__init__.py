"""Subset search over any kernel or score; pure functions.

An index is a position in the whole pool. Draws are keyed by their number: the set of
draw ``i`` is the same however draws are split into chunks or spread over processes.
"""

from fewlabels.search.change import maximize_change
from fewlabels.search.coverage import Closeness, maximize_coverage, pure_radius
from fewlabels.search.covering import (
    FirstCenter,
    farthest_first,
    k_means_plus_plus,
    smallest_distance,
)
from fewlabels.search.determinant import maximize_determinant
from fewlabels.search.draws import (
    ClusterDraws,
    Draws,
    WeightedDraws,
    uniform_subsets,
)
from fewlabels.search.eigenvalue import (
    Method,
    check_random_only,
    check_tie_tolerance,
    maximize_smallest_eigenvalue,
)
from fewlabels.search.information import Information, minimize_remainder
from fewlabels.search.k_center import Centers, smallest_radius
from fewlabels.search.posterior import Posterior
from fewlabels.search.result import SearchResult
from fewlabels.search.scores import check_size, top
from fewlabels.search.variance import minimize_variance

__all__ = [
    "Centers",
    "Closeness",
    "ClusterDraws",
    "Draws",
    "FirstCenter",
    "Information",
    "Method",
    "Posterior",
    "SearchResult",
    "WeightedDraws",
    "check_random_only",
    "check_size",
    "check_tie_tolerance",
    "farthest_first",
    "k_means_plus_plus",
    "maximize_change",
    "maximize_coverage",
    "maximize_determinant",
    "maximize_smallest_eigenvalue",
    "minimize_remainder",
    "minimize_variance",
    "pure_radius",
    "smallest_distance",
    "smallest_radius",
    "top",
    "uniform_subsets",
]
