from .coverage import (
    Closeness as Closeness,
    maximize_coverage as maximize_coverage,
    pure_radius as pure_radius,
)
from .covering import (
    Centers as Centers,
    FirstCenter as FirstCenter,
    farthest_first as farthest_first,
    k_means_plus_plus as k_means_plus_plus,
    smallest_distance as smallest_distance,
    smallest_radius as smallest_radius,
)
from .inputs import (
    ClusterDraws as ClusterDraws,
    Draws as Draws,
    WeightedDraws as WeightedDraws,
    uniform_subsets as uniform_subsets,
)
from .eigenvalue import (
    Method as Method,
    SearchResult as SearchResult,
    check_random_only as check_random_only,
    maximize_smallest_eigenvalue as maximize_smallest_eigenvalue,
)
from .information import (
    Information as Information,
    minimize_remainder as minimize_remainder,
)
from .posterior import (
    Posterior as Posterior,
    maximize_change as maximize_change,
    maximize_determinant as maximize_determinant,
    minimize_variance as minimize_variance,
)
from .inputs import check_size as check_size
from .scores import top as top
