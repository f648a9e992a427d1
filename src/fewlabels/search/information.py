"""The set whose Fisher information leaves the least of a target: forward, then back.

Shapes::

    n items to choose from    F features of a row h    k, r of an item's factor A
    D = k F parameters, class by class

The information of an item is (A Aᵀ) ⊗ (h hᵀ). All that the search needs of an item are
the two k x k matrices (I ⊗ h)ᵀ W (I ⊗ h), once for the inverse W = M⁻¹ and once for
T = W (target) W; both follow a change of M by what few columns explain, so a step
costs O(n k r (F + k)) and no n x D matrix is ever built.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from fewlabels.search.blocks import chunks
from fewlabels.search.inputs import check_size
from fewlabels.search.scores import greedy, largest

_CHUNK_ENTRIES = 2**19  # larger ones are fetched from the system every time
_NOTHING = 1e-12
_RESOLVED = 1e-10
_DELICATE = 1e-5  # of an item's trace: less leaves few digits of W (target) W
_ALONE = 1 - 1e-5  # more of it would cost five of the inverse's digits


class Information(NamedTuple):
    """Fisher information (A Aᵀ) ⊗ (h hᵀ) of each item."""

    rows: Tensor
    """The rows h, shape (n, F), any floating type."""
    factors: Tensor
    """The matrices A, shape (n, k, r), float64."""

    @property
    def num_parameters(self) -> int:
        """Side of the information matrix, D = k F."""
        return self.factors.shape[1] * self.rows.shape[1]

    def of(self, places: list[int]) -> "Information":
        """Return that of some items."""
        return Information(self.rows[places], self.factors[places])

    def parts(self) -> list[slice]:
        """Return places whose rows, times k, fit into bounded memory."""
        width = max(self.num_parameters, self.factors[:1].numel())
        return chunks(len(self.rows), width, _CHUNK_ENTRIES)

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield places and their rows in double precision."""
        for part in self.parts():
            yield part, self.rows[part].to(torch.float64)

    def total(self) -> Tensor:
        """Return the sum over all items, shape (D, D)."""
        num_outputs, width = self.factors.shape[1], self.rows.shape[1]
        total = torch.zeros(num_outputs, width, num_outputs, width, dtype=torch.float64)
        for part, h_nF in self.chunks():
            weights = self.factors[part] @ self.factors[part].mT
            for row in range(num_outputs):
                weighted = weights[:, row, :, None] * h_nF[:, None, :]
                total[row] += (h_nF.T @ weighted.flatten(1)).view(width, -1, width)
        return total.view(self.num_parameters, self.num_parameters)

    def largest_trace(self) -> Tensor:
        """Return the largest trace of an item's information."""
        traces = [
            h_nF.square().sum(-1) * self.factors[part].square().sum((-2, -1))
            for part, h_nF in self.chunks()
        ]
        return torch.cat(traces).max()

    def columns(self, place: int) -> Tensor:
        """Return V of one item, shape (D, r): its information is V Vᵀ."""
        h_F = self.rows[place].to(torch.float64)
        factor_kr = self.factors[place]
        return (factor_kr[:, None, :] * h_F[None, :, None]).flatten(0, 1)


def minimize_remainder(
    information: Information,
    *,
    known: Tensor,
    regularization: float,
    target: Tensor,
    size: int,
    oversample: float,
    generator: Generator,
) -> tuple[Tensor, float]:
    """Choose items so that tr[(λ I + known + Σ information)⁻¹ target] becomes small.

    Ash et al. (2021), Algorithm 1: ``oversample * size`` items are added one by one,
    each the one that lowers the trace most; then all but ``size`` are taken out again,
    each the one that raises it least.

    Args:
        information: Of each candidate.
        known: What is known before, shape (D, D), positive semi-definite.
        regularization: λ, above zero.
        target: What is to be explained, shape (D, D), positive semi-definite.
        size: How many to choose.
        oversample: How many times ``size`` are added at first.
        generator: Decides between equal items.

    Returns:
        The places of the chosen items, in the order they were added, and the trace that
        is left.
    """
    check_size(size, len(information.rows))
    design = _Design(information, known, regularization, target)
    num_added = max(size, round(min(oversample * size, len(information.rows))))
    added = greedy(design.gains, design.add, num_added, generator)
    design.narrow(added)
    if design.is_delicate:
        design.renew(list(range(num_added)))
    is_left = torch.ones(num_added, dtype=torch.bool)
    for _ in range(num_added - size):
        losses = design.losses().where(is_left, torch.inf)
        worst = largest(-losses, generator)
        is_left[worst] = False
        design.remove(worst, torch.nonzero(is_left).flatten().tolist())
    if design.is_delicate:
        design.renew(torch.nonzero(is_left).flatten().tolist())
    return torch.tensor(added)[is_left], design.remainder


class _Design:
    """The inverse of what is known, and what each item sees of it."""

    def __init__(
        self,
        information: Information,
        known: Tensor,
        regularization: float,
        target: Tensor,
    ) -> None:
        self._information = information
        # Where an item outweighs the regularization beyond rounding, no inverse is
        # right; so that is raised to what double precision can still tell apart.
        largest_trace = float(information.largest_trace())
        least = max(regularization, _RESOLVED * largest_trace)
        self.is_delicate = least < _DELICATE * largest_trace
        self._start_DD = known.clone()
        self._start_DD.diagonal().add_(least)
        self._target_DD = target
        self._set_known(self._start_DD)

    def _set_known(self, matrix_DD: Tensor) -> None:
        """Replace what is known by a matrix, and compute all that derives from it."""
        self._inverse_DD = torch.cholesky_inverse(torch.linalg.cholesky(matrix_DD))
        self._spread_DD = self._inverse_DD @ self._target_DD @ self._inverse_DD
        self._inverses_nkk = self._seen_by_all(self._inverse_DD)
        self._spreads_nkk = self._seen_by_all(self._spread_DD)
        self.remainder = float((self._inverse_DD * self._target_DD).sum())

    def gains(self) -> Tensor:
        """Return by how much each item would lower the trace, shape (n,)."""
        gains = []
        for part in self._information.parts():
            factors = self._information.factors[part]
            inner = factors.mT @ self._inverses_nkk[part] @ factors
            inner.diagonal(dim1=-2, dim2=-1).add_(1)
            outer = factors.mT @ self._spreads_nkk[part] @ factors
            gains.append(_trace(torch.linalg.solve(inner, outer)))
        return torch.cat(gains)

    def losses(self) -> Tensor:
        """Return by how much the loss of each item would raise the trace, (n,)."""
        factors = self._information.factors
        outer = factors.mT @ self._spreads_nkk @ factors
        return _trace(_freed(factors.mT @ self._inverses_nkk @ factors) @ outer)

    def narrow(self, places: list[int]) -> None:
        """Forget all items but those at ``places``, which are numbered anew."""
        self._information = self._information.of(places)
        self._inverses_nkk = self._inverses_nkk[places]
        self._spreads_nkk = self._spreads_nkk[places]

    def add(self, place: int) -> None:
        """Add the information of one item."""
        columns = self._information.columns(place)
        inner = columns.T @ self._inverse_DD @ columns
        identity = torch.eye(len(inner), dtype=inner.dtype)
        self._change(columns, -torch.linalg.inv(identity + inner))

    def renew(self, places: list[int]) -> None:
        """Compute the inverse anew, for what is known and the items at ``places``."""
        self._set_known(self._start_DD + self._information.of(places).total())

    def remove(self, place: int, rest: list[int]) -> None:
        """Take the information of one item out again, which leaves ``rest``.

        Where the item alone knows a direction, the update would divide by what rounding
        has left there; the inverse is then computed anew.
        """
        columns = self._information.columns(place)
        inner = columns.T @ self._inverse_DD @ columns
        if float(torch.linalg.eigvalsh((inner + inner.mT) / 2)[-1]) < _ALONE:
            self._change(columns, _freed(inner))
        else:
            self.renew(rest)

    def _change(self, columns_Dr: Tensor, core_rr: Tensor) -> None:
        """Replace W by W + U G Uᵀ with U = W V (Woodbury), and T along with it."""
        u_Dr = self._inverse_DD @ columns_Dr
        y_Dr = self._spread_DD @ columns_Dr
        outer_rr = columns_Dr.T @ y_Dr
        self.remainder += float((core_rr * outer_rr).sum())
        # T + Y G Uᵀ + U G Yᵀ + U G (Vᵀ T V) G Uᵀ = T + Z Uᵀ + U Zᵀ
        z_Dr = y_Dr @ core_rr + u_Dr @ (core_rr @ outer_rr @ core_rr) / 2
        self._inverse_DD += u_Dr @ core_rr @ u_Dr.T
        self._spread_DD += z_Dr @ u_Dr.T + u_Dr @ z_Dr.T
        for part, h_nF in self._information.chunks():
            u_nkr, z_nkr = self._seen(h_nF, u_Dr), self._seen(h_nF, z_Dr)
            self._inverses_nkk[part] += u_nkr @ core_rr @ u_nkr.mT
            cross_nkk = z_nkr @ u_nkr.mT
            self._spreads_nkk[part] += cross_nkk + cross_nkk.mT

    def _seen(self, h_nF: Tensor, columns_Dr: Tensor) -> Tensor:
        """Return (I ⊗ h)ᵀ columns for each row, shape (n, k, r)."""
        blocks = columns_Dr.view(-1, h_nF.shape[1], columns_Dr.shape[1])
        return torch.stack([h_nF @ block for block in blocks], dim=1)

    def _seen_by_all(self, matrix_DD: Tensor) -> Tensor:
        """Return (I ⊗ h)ᵀ matrix (I ⊗ h) for each item, shape (n, k, k)."""
        num_items, num_outputs, _ = self._information.factors.shape
        seen = torch.empty(num_items, num_outputs, num_outputs, dtype=torch.float64)
        for part, h_nF in self._information.chunks():
            blocks = matrix_DD.view(num_outputs, h_nF.shape[1], -1)
            for row, block in enumerate(blocks):
                products = (h_nF @ block).view(len(h_nF), num_outputs, -1)
                seen[part, row] = (products * h_nF[:, None, :]).sum(-1)
        return seen


def _freed(inner: Tensor) -> Tensor:
    """Return (I - inner)⁻¹ of Vᵀ W V, whose eigenvalues are below 1 up to rounding."""
    values, vectors = torch.linalg.eigh((inner + inner.mT) / 2)
    left = (1 - values).clamp_min(_NOTHING)
    freed: Tensor = vectors / left[..., None, :] @ vectors.mT
    return freed


def _trace(matrices: Tensor) -> Tensor:
    return matrices.diagonal(dim1=-2, dim2=-1).sum(-1)
