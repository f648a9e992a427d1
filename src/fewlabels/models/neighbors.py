"""A network without weights: the nearest rows of the pool vote.

Shapes: n rows, D numbers per row, M nodes, R of them that vote, K neighbors, C classes.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from fewlabels.gram.graph import NeighborGraph
from fewlabels.gram.nodes import Nodes, directions, row_hashes
from fewlabels.models.network import Dense, Network

FLOOR = -10.0
"""Logarithm of the least probability."""

_MINUTE = 1e-3
_SAME = 1e-10
_CHUNK = 512
_IN_CACHE = 256

Votes = dict[bytes, tuple[Tensor, Tensor]]
"""The nodes that vote on a chunk of rows and their weights, by the hashes of the rows.
They do not depend on labels, and take long to compute."""


class Neighbors(Network):
    """A vote of the nearest rows of a pool, by what is believed about each of them.

    A row of the pool itself gets what is believed about it. Another gets the mean of
    its neighbors' probabilities, by the weights that edges of the graph have.

    The features are directions, centered and scaled, and behind them the logarithms of
    probabilities, so small that distances do not see them; the last layer makes logits
    of these and has nothing to learn. All tensors but that layer's are buffers.
    """

    rows: Tensor

    def __init__(
        self,
        row_size: int,
        num_classes: int,
        num_neighbors: int,
        num_voters: int,
        num_nodes: int,
    ) -> None:
        """Reserve the tensors; every class is equally likely everywhere.

        Args:
            row_size: Numbers in a row, or in an image (D).
            num_classes: Number of classes (C).
            num_neighbors: How many vote on a new row (K).
            num_voters: How many rows are kept (R): the first nodes.
            num_nodes: How many rows are remembered by their hashes (M).
        """
        super().__init__()
        self.num_neighbors = num_neighbors
        self.votes: Votes = {}
        single = torch.float32
        self.origin = nn.Buffer(torch.zeros(1, dtype=single))
        self.center = nn.Buffer(torch.zeros(row_size, dtype=single))
        self.spread = nn.Buffer(torch.ones(1, dtype=single))
        self.rows = nn.Buffer(torch.zeros(num_voters, row_size, dtype=single))
        self.reach = nn.Buffer(torch.ones(num_voters, dtype=single))
        self.hashes = nn.Buffer(torch.zeros(num_nodes, dtype=torch.int64))
        even = torch.full((num_nodes, num_classes), -math.log(num_classes))
        self.beliefs = nn.Buffer(even.to(single))
        self.head = Dense(row_size + num_classes, num_classes)
        with torch.no_grad():
            self.head.weight.zero_()
            # Not torch.eye: on the meta device, where networks are built before they
            # are loaded, it imports torch's compiler, which takes seconds.
            self.head.weight.diagonal(row_size).fill_(1 / _MINUTE)
            self.head.bias.zero_()
        self.requires_grad_(requires_grad=False)

    @property
    def num_voters(self) -> int:
        """How many rows are kept (R)."""
        return len(self.rows)

    def set_nodes(self, nodes: Nodes) -> None:
        """Copy how rows become directions, and the hashes of all nodes."""
        self.origin.fill_(nodes.origin)
        self.center.copy_(nodes.center)
        self.spread.fill_(nodes.spread)
        self.hashes.copy_(torch.from_numpy(nodes.hashes))

    def set_beliefs(self, graph: NeighborGraph, beliefs: Tensor) -> None:
        """Set what is believed about the nodes of a graph.

        Directions of voters, and their votes as far as they are known, do not depend on
        beliefs: they are cached with the graph, shared and not copied.

        Args:
            graph: The graph.
            beliefs: Logarithms of probabilities, shape (M, C).
        """
        number = self.num_voters
        voters = np.arange(number)
        self.rows = graph.remember(("voters", number), lambda: graph.nodes.read(voters))
        self.votes = graph.remember(("votes", number), dict)
        self.reach.copy_(torch.from_numpy(graph.reach[:number]))
        self.beliefs.copy_(beliefs)

    def embed(self, images: Tensor) -> Tensor:
        """Return directions and, minute, logarithms of probabilities: (n, D + C)."""
        unit = directions(images.flatten(start_dim=1), self.origin)
        return self._features(unit, self._count_votes(unit, *self._votes(unit)))

    def recall(self, images: Tensor) -> Tensor:
        """Return the features; rows of the pool are looked up, not searched for."""
        rows = images.flatten(start_dim=1)
        # In parts that stay near the processor; row by row nothing changes.
        near = torch.split(rows, _IN_CACHE)
        hashes = torch.cat([row_hashes(part) for part in near])
        places = torch.searchsorted(self.hashes, hashes).clamp(max=len(self.hashes) - 1)
        beliefs = self.beliefs[places]
        new = torch.nonzero(self.hashes[places] != hashes).flatten()
        if len(new) and not self.rows.any():  # nobody votes
            new = new[:0]
        for part in torch.split(new, _CHUNK):
            unit = directions(rows[part], self.origin)
            key = hashes[part].cpu().numpy().tobytes()
            if key not in self.votes:
                if len(self.votes) == 256:  # chunks are remembered
                    self.votes.clear()
                self.votes[key] = self._votes(unit)
            beliefs[part] = self._count_votes(unit, *self.votes[key])
        parts = zip(near, torch.split(beliefs, _IN_CACHE), strict=True)
        return torch.cat(
            [self._features(directions(part, self.origin), b) for part, b in parts]
        )

    def _votes(self, unit: Tensor) -> tuple[Tensor, Tensor]:
        """Return which nodes vote on some directions, and their weights, (n, K)."""
        count = min(self.num_neighbors, self.num_voters)
        near_nK = (unit @ self.rows.T).topk(count, dim=1).indices
        squares_nK = (unit[:, None] - self.rows[near_nK]).square().sum(dim=2)
        own_reach = squares_nK.amax(dim=1, keepdim=True).sqrt()
        scale_nK = (own_reach * self.reach[near_nK]).clamp(min=_SAME)
        weights_nK = torch.exp(-(squares_nK / scale_nK).clamp(max=50))
        is_same = (squares_nK <= _SAME).to(weights_nK)
        is_known = is_same.amax(dim=1, keepdim=True)
        weights_nK = torch.where(is_known > 0, is_same, weights_nK)
        return near_nK, weights_nK / weights_nK.sum(dim=1, keepdim=True)

    def _count_votes(self, unit: Tensor, near_nK: Tensor, weights_nK: Tensor) -> Tensor:
        """Return logarithms of probabilities by a vote, shape (n, C)."""
        del unit
        return self._mean(self.beliefs.exp(), near_nK, weights_nK).log()

    @staticmethod
    def _mean(values: Tensor, near_nK: Tensor, weights_nK: Tensor) -> Tensor:
        """Return the mean of what neighbors have, by their weights, shape (n, C)."""
        return (weights_nK[:, :, None] * values[near_nK]).sum(dim=1)

    def _features(self, unit: Tensor, beliefs: Tensor) -> Tensor:
        centered = (unit - self.center) / self.spread
        return torch.cat([centered, beliefs * _MINUTE], dim=1)


class BlendNetwork(Neighbors):
    """Neighbors that vote, mixed with a regression on directions and neighbors.

    A row of the pool gets what is believed about it. Another gets a mixture: what label
    spreading alone believes about its neighbors, and softmax of slopes times its
    direction plus the mean height of its neighbors.
    """

    def __init__(self, row_size: int, num_classes: int, *sizes: int) -> None:
        """Reserve the tensors, as :class:`Neighbors` does."""
        super().__init__(row_size, num_classes, *sizes)
        single, shape = torch.float32, (self.num_voters, num_classes)
        self.weight = nn.Buffer(torch.ones(1, dtype=single))
        """Of spreading, from 0 to 1."""
        self.spread_beliefs = nn.Buffer(torch.zeros(shape, dtype=single))
        """Its logarithms of probabilities of those who vote, shape (R, C)."""
        self.slopes = nn.Buffer(torch.zeros(num_classes, row_size, dtype=single))
        """What each number of a centered direction adds."""
        self.heights = nn.Buffer(torch.zeros(shape, dtype=single))
        """What each of those who vote adds, shape (R, C)."""
        self.offsets = nn.Buffer(torch.zeros(num_classes, dtype=single))
        """Added to logarithms of the mixed probabilities."""

    def _count_votes(self, unit: Tensor, near_nK: Tensor, weights_nK: Tensor) -> Tensor:
        """Return logarithms of probabilities, shape (n, C)."""
        spread_nC = self._mean(self.spread_beliefs.exp(), near_nK, weights_nK)
        scores_nC = (unit - self.center) @ self.slopes.T
        scores_nC = scores_nC + self._mean(self.heights, near_nK, weights_nK)
        floored_nC = scores_nC.log_softmax(dim=1).clamp(min=FLOOR).softmax(dim=1)
        mixed_nC = self.weight * spread_nC + (1 - self.weight) * floored_nC
        return (mixed_nC.log() + self.offsets).log_softmax(dim=1)
