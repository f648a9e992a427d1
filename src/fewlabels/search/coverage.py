"""Sets near which much of the pool lies: greedy coverage, evaluated lazily.

To compare all pairs of 20,000 wide rows takes half a minute. Where rows are given and
candidates are many, what each adds is therefore estimated first, by leading principal
components, and only those that come out best are tried with whole rows.

Shapes: n candidates, c candidates tried together, F numbers in a row.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

import torch
from numpy.typing import ArrayLike
from torch import Generator, Tensor

from fewlabels.gram.principal import principal_components
from fewlabels.progress import each, track
from fewlabels.protocols import Kernel
from fewlabels.search import covering
from fewlabels.search.inputs import known_sets

Closeness = Callable[[Tensor], Tensor]
"""Maps squared distances to numbers from 0 to 1 that do not grow with them."""

_CHUNK_ROWS = 2**12
_CHUNK_COLUMNS = 2**9
_FEW_COLUMNS = 2**5  # tried again first: most often the best is among them
_TRIED_COLUMNS = 2**6  # of those that an estimate puts first
_MOST_COLUMNS = 2**10  # that are remembered
_NUM_DRAWN = 2**11  # candidates that others are first weighed by, and that are kept
_NUM_COMPONENTS = 128  # by which they are
_IN_CACHE = 2**8  # columns, and four times as many rows, that stay near the processor
_TINY = 1e-30
_ROUNDING = 1e-12
_JUST_BELOW = 1 - 1e-9  # keeps a radius clear of the distance it was taken from


def maximize_coverage(
    kernel: Kernel,
    closeness: Closeness,
    *,
    weights: Tensor,
    labeled: ArrayLike,
    candidates: ArrayLike,
    size: int,
    generator: Generator,
    rows: Tensor | None = None,
) -> tuple[Tensor, float]:
    """Add the candidate near which most is that nothing is near yet, ``size`` times.

    Raises Σ_x w(x) max_{s in L ∪ S} k(x, s) over the candidates x greedily. What an
    item adds never grows, so old gains bound new ones, and only items that could be
    best are tried again (Minoux, 1978): the choice is that of trying all. Once nothing
    is gained any more, the rest is chosen farthest first.

    Args:
        kernel: The kernel whose distances count.
        closeness: The function of squared distances that makes k.
        weights: What covering each candidate is worth, shape (n,), not negative.
        labeled: Indices labeled already; may be empty.
        candidates: Indices to choose from, and to cover, shape (n,).
        size: How many to choose.
        generator: Decides between equal gains.
        rows: Single rows of the candidates that have the kernel's distances, (n, F):
            of more than 4,096 only those are then tried that an estimate puts first.

    Returns:
        The chosen indices in the order of choice, and the covered share of the weight.
    """
    labeled, candidates = known_sets(kernel, labeled, candidates, size)
    covered = torch.zeros(len(candidates), dtype=torch.float64)
    if len(labeled):
        covered = closeness(covering.nearest_squares(kernel, candidates, labeled).cpu())
    given = kernel, closeness, weights, candidates, covered
    if rows is None or len(candidates) <= _CHUNK_ROWS:
        greedy = _LazyGreedy(*given)
    else:
        greedy = _EstimatedGreedy(*given, rows, generator)
    greedy.try_all()
    chosen: list[int] = []
    with track("Covering", size) as advance:
        while len(chosen) < size:
            best = greedy.best(generator)
            if best is None:
                break
            chosen.append(best)
            greedy.add(best)
            advance()
    indices = candidates[torch.tensor(chosen, dtype=torch.int64)]
    if len(chosen) < size:
        rest, _ = covering.farthest_first(
            kernel,
            labeled=torch.cat([labeled, indices]),
            candidates=candidates[greedy.is_free],
            size=size - len(chosen),
            generator=generator,
        )
        indices = torch.cat([indices, rest])
    return indices, greedy.share()


def pure_radius(kernel: Kernel, clusters: Tensor, purity: float) -> float:
    """Return the largest radius at which balls around items rarely mix clusters.

    A ball is pure up to the nearest item of another cluster, so the radius is a
    quantile of these distances.

    Args:
        kernel: The kernel whose distances count; all its items are looked at.
        clusters: Cluster numbers, shape (N,), at least two different ones.
        purity: Least share of the items whose ball holds one cluster only.

    Returns:
        The radius.
    """
    items = torch.arange(len(clusters))
    nearest = torch.full((len(items),), torch.inf, dtype=torch.float64)
    parts = torch.split(items, _CHUNK_ROWS)
    with track("Measuring", len(parts)) as advance:
        for rows in parts:
            for columns in torch.split(items, _CHUNK_COLUMNS):
                squares = covering.squared_distances(kernel, rows, columns).cpu()
                squares[clusters[rows][:, None] == clusters[columns]] = torch.inf
                nearest[rows] = torch.minimum(nearest[rows], squares.amin(dim=1))
            advance()
    num_mixed = min(int((1 - purity) * len(items) + _ROUNDING), len(items) - 1)
    return float(nearest.sort().values[num_mixed].sqrt()) * _JUST_BELOW


@dataclass(eq=False)
class _LazyGreedy:
    """Candidates, what is covered, and what each candidate would add at most."""

    kernel: Kernel
    closeness: Closeness
    weights: Tensor
    candidates: Tensor
    covered: Tensor
    """max_{s in L ∪ S} k(x, s) of each candidate x."""
    lengths: Tensor = field(init=False)
    """k(x, x) of each candidate x."""
    gains: Tensor = field(init=False)
    is_fresh: Tensor = field(init=False)
    is_free: Tensor = field(init=False)

    def __post_init__(self) -> None:
        """Know nothing yet."""
        self.lengths = covering.kernel_diagonal(self.kernel, self.candidates)
        self.gains = torch.full_like(self.covered, torch.inf)
        self.is_fresh = torch.zeros(len(self.covered), dtype=torch.bool)
        self.is_free = torch.ones_like(self.is_fresh)

    def share(self) -> float:
        """Return the covered share of the weight."""
        total = float(self.weights.sum())
        return float(self.weights @ self.covered) / total if total > 0 else 1.0

    def add(self, place: int) -> None:
        """Let one more candidate cover what is near it; all gains become bounds."""
        self.covered = torch.maximum(self.covered, self._near_to(place))
        self.is_free[place] = False
        self.is_fresh[:] = False

    def _near_to(self, place: int) -> Tensor:
        center = self.candidates[place : place + 1]
        squares = covering.nearest_squares(
            self.kernel, self.candidates, center, lengths=self.lengths
        )
        return self.closeness(squares.cpu())

    def try_all(self) -> None:
        """Compute every gain."""
        parts = torch.split(torch.arange(len(self.candidates)), _CHUNK_COLUMNS)
        with track("Weighing", len(parts)) as advance:
            for tried in parts:
                self._try(tried)
                advance()

    def best(self, generator: Generator) -> int | None:
        """Return the place that adds most, a random one of several; None: nothing."""
        self._try_doubtful()
        largest = self._largest()
        if not largest > _ROUNDING * float(self.weights.sum()):
            return None
        is_best = self.is_fresh & (self.gains >= largest * (1 - _ROUNDING))
        places = torch.nonzero(is_best).flatten()
        return int(places[int(torch.randint(len(places), (1,), generator=generator))])

    def _try_doubtful(self) -> None:
        """Try what could be best."""
        count = _FEW_COLUMNS
        while self._try_first(count):
            count = min(2 * count, _CHUNK_COLUMNS)

    def _try_first(self, count: int) -> bool:
        """Try the first places that old gains do not rule out, if there are any."""
        largest = self._largest()
        slack = _ROUNDING * abs(largest) if largest > 0 else 0.0
        is_open = self.is_free & ~self.is_fresh & (self.gains >= largest - slack)
        doubtful = torch.nonzero(is_open).flatten()
        if len(doubtful):
            order = self.gains[doubtful].argsort(descending=True)
            self._try(doubtful[order[:count]])
        return len(doubtful) > 0

    def _try(self, places: Tensor) -> None:
        self.gains[places] = self._gains(places)
        self.is_fresh[places] = True

    def _largest(self) -> float:
        """Return the largest gain that is up to date."""
        fresh = self.gains[self.is_fresh]
        return float(fresh.max()) if len(fresh) else -torch.inf

    @cached_property
    def _near(self) -> Tensor:
        """How close all candidates are to each other, shape (n, n)."""
        measure = partial(covering.squared_distances, self.kernel, self.candidates)
        squares = map(measure, torch.split(self.candidates, _CHUNK_COLUMNS))
        return self.closeness(torch.cat(list(squares), dim=1).cpu())

    def _gains(self, places: Tensor) -> Tensor:
        """Return what each place would add to the coverage, shape (c,)."""
        if len(self.candidates) <= _CHUNK_ROWS:  # they are tried many times
            near = self._near[:, places] - self.covered[:, None]
            return self.weights @ near.clamp_min_(0)
        columns = self.candidates[places], self.lengths[places]
        weigh = partial(_gains, self.kernel, self.closeness, columns)
        everything = (self.candidates, self.lengths, self.covered, self.weights)
        parts = (torch.split(values, _CHUNK_ROWS) for values in everything)
        zeros = torch.zeros(len(places), dtype=torch.float64)
        return sum(each(weigh, list(zip(*parts, strict=True))), zeros)


@dataclass(eq=False)
class _EstimatedGreedy(_LazyGreedy):
    """Candidates of which only those are tried that an estimate puts first."""

    rows: Tensor
    """Single rows with the kernel's distances, shape (n, F)."""
    generator: Generator
    _columns: dict[int, Tensor] = field(default_factory=dict)
    """How close all candidates are to those that were tried."""

    def try_all(self) -> None:
        """Estimate every gain.

        All are weighed by what they add to a random part of the candidates, drawn by
        what is left to cover of each; the best of them then by all candidates; the best
        of these are tried, and estimates scaled by what comes out.
        """
        self.rows_squared = self.rows.square().sum(dim=1)
        short = principal_components(self.rows, _NUM_COMPONENTS)
        everything = torch.arange(len(short))
        open_n = (self.weights * (1 - self.covered)).clamp_min(_TINY)
        count = min(_NUM_DRAWN, len(short))
        drawn = torch.multinomial(
            open_n, count, replacement=True, generator=self.generator
        )
        worth = self.weights[drawn] / open_n[drawn] * (open_n.sum() / count)
        gains = self._weighed(short, everything, drawn, worth.float())
        best = gains.topk(count).indices
        better = self._weighed(short, best, everything, self.weights.float())
        gains = gains.clamp(max=float(better.min())).double()
        gains[best] = better.double()
        best = gains.topk(_TRIED_COLUMNS).indices
        self._try(best)
        scale = float(self.gains[best].sum()) / max(float(gains[best].sum()), _TINY)
        self.gains = self.gains.where(self.is_fresh, scale * gains)

    def _weighed(
        self, short: Tensor, columns: Tensor, items: Tensor, worth: Tensor
    ) -> Tensor:
        """Return about what columns add to the coverage of items, shape (c,)."""
        lengths, covered = self.rows_squared, self.covered.float()
        gains = torch.zeros(len(columns))
        for start in range(0, len(columns), _IN_CACHE):
            some = columns[start : start + _IN_CACHE]
            right, own = -2 * short[some].T, lengths[some]
            for begin in range(0, len(items), 4 * _IN_CACHE):
                part = items[begin : begin + 4 * _IN_CACHE]
                squares = torch.addmm(own, short[part], right)
                squares += lengths[part][:, None]
                near = self.closeness(squares.clamp_min_(0)).sub_(covered[part, None])
                value = worth[begin : begin + 4 * _IN_CACHE]
                gains[start : start + _IN_CACHE] += value @ near.clamp_min_(0)
        return gains

    def _near_to(self, place: int) -> Tensor:
        return self._columns[place].double()

    def _try_doubtful(self) -> None:
        """Try the first of those that could be best; estimates rule nothing out."""
        self._try_first(_TRIED_COLUMNS)

    def _gains(self, places: Tensor) -> Tensor:
        if len(self._columns) > _MOST_COLUMNS:
            self._columns.clear()
        new = [place for place in places.tolist() if place not in self._columns]
        if new:
            lengths = self.rows_squared
            products = self.rows[new] @ self.rows.T
            squares = lengths[new][:, None] + lengths - 2 * products
            near = self.closeness(squares.clamp_min_(0))
            self._columns.update(zip(new, near, strict=True))
        near = torch.stack([self._columns[place] for place in places.tolist()])
        near.sub_(self.covered.float()).clamp_min_(0)
        return (near @ self.weights.float()).double()


def _gains(
    kernel: Kernel,
    closeness: Closeness,
    columns: tuple[Tensor, Tensor],
    part: tuple[Tensor, Tensor, Tensor, Tensor],
) -> Tensor:
    """Return what columns add to the coverage of some candidates, shape (c,)."""
    items, lengths, covered, weights = part
    squares = covering.squares_of(kernel, items, columns[0], lengths, columns[1])
    near = closeness(squares.cpu())
    return weights @ near.sub_(covered[:, None]).clamp_min_(0)
