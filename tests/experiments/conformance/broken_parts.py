"""Trainers, classifiers and kernels that break one promise each, and some none."""

import torch

from fewlabels.errors import UsageError
from fewlabels.gram import last_layer_kernel
from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN
from fewlabels.protocols import Outputs, ignore
from fewlabels.rng import stream


class Means:
    """A classifier that keeps every promise: distances to the mean of each class."""

    module = None

    def __init__(self, means):
        self.means, self.num_classes = means, len(means)

    def outputs(self, images, indices):
        rows = images.read(indices).flatten(1).float() / 255
        return Outputs(rows, -torch.cdist(rows, self.means))

    def sample_logits(self, images, indices, num_samples, generator):
        raise UsageError("There is one classifier only; ask for no samples.")


class Trainer:
    """Keeps every promise; each of the following spoils one thing of it."""

    def fit(self, pool, generator, *, workspace=None, on_checkpoint=ignore):
        every = pool.images.read(torch.arange(len(pool))).flatten(1).float() / 255
        means = [
            every[pool.labels == number].mean(dim=0)
            if (pool.labels == number).any()
            else every.mean(dim=0)
            for number in range(pool.num_classes)
        ]
        noise = 1e-6 * torch.randn(every.shape[1], generator=generator)
        return self.spoiled(torch.stack(means) + noise, pool)

    def spoiled(self, means, pool):
        return Means(means)


class GivesAModule(Trainer):
    def spoiled(self, means, pool):
        return torch.nn.Identity()


class ForgetsClasses(Trainer):
    def spoiled(self, means, pool):
        return Means(means[:-1])


class DrawsAnywhere(Trainer):
    def spoiled(self, means, pool):
        return Means(means + 1e-3 * torch.randn(means.shape))


class GoesOn(Trainer):
    """Begins where its last training ended."""

    before = 0

    def spoiled(self, means, pool):
        self.before = self.before + means
        return Means(self.before)


class Labels(Trainer):
    def spoiled(self, means, pool):
        pool.labels[pool.labels == UNKNOWN] = 0
        return Means(means)


class LearnsNothing(Trainer):
    def spoiled(self, means, pool):
        return Means(torch.rand(means.shape, generator=stream(0, "nothing")))


class GivesNaN(Trainer):
    def spoiled(self, means, pool):
        return Means(means * torch.nan)


class DividesByLabels(Trainer):
    def spoiled(self, means, pool):
        return Means(means * (len(pool.labeled) / len(pool.labeled)))


class ByPosition(Trainer):
    """Allowed: its classifier knows the pool only."""

    def spoiled(self, means, pool):
        everything = Means(means).outputs(pool.images, torch.arange(len(pool)))
        return PrecomputedClassifier(everything.features, everything.logits)


# ---------------------------------------------------------------------- classifiers


class Spoiled(Means):
    """A classifier over the digits; each of the following spoils its outputs."""

    def __init__(self):
        super().__init__(torch.rand(10, 64, generator=stream(0, "means")))

    def outputs(self, images, indices):
        found = super().outputs(images, indices)
        return self.spoiled(found.features, found.logits)

    def spoiled(self, features, logits):
        return Outputs(features, logits)


class Pair(Spoiled):
    def spoiled(self, features, logits):
        return features, logits


class Flat(Spoiled):
    def spoiled(self, features, logits):
        return Outputs(features, logits.flatten())


class WithGradients(Spoiled):
    def spoiled(self, features, logits):
        return Outputs(features, logits.requires_grad_())


class Infinite(Spoiled):
    def spoiled(self, features, logits):
        return Outputs(features, logits / 0)


class Training(Spoiled):
    def spoiled(self, features, logits):
        return Outputs(features, torch.nn.functional.dropout(logits))


class Normalizing(Spoiled):
    def spoiled(self, features, logits):
        return Outputs(features, logits - logits.mean(dim=0))


class Sorting(Spoiled):
    def outputs(self, images, indices):
        return super().outputs(images, indices.sort().values)


class Samples(Spoiled):
    def sample_logits(self, images, indices, num_samples, generator):
        logits = self.outputs(images, indices).logits
        return logits + torch.randn(num_samples, 1, 1)


# -------------------------------------------------------------------------- kernels


class Kernel:
    """A kernel that is read from a matrix; each of the following spoils it."""

    rank_bound = None

    def __init__(self):
        rows = torch.randn(50, 8, generator=stream(0, "kernel"), dtype=torch.float64)
        self.matrix = self.spoiled(rows @ rows.T)
        self.num_items = len(self.matrix)

    def spoiled(self, matrix):
        return matrix

    def diagonal(self, items):
        return self.matrix.diagonal()[items]

    def block(self, rows, columns):
        return self.matrix[rows[..., :, None], columns[..., None, :]]


class Single(Kernel):
    def spoiled(self, matrix):
        return matrix.float()


class Lopsided(Kernel):
    def spoiled(self, matrix):
        return matrix + torch.triu(matrix, 1)


class Negative(Kernel):
    def spoiled(self, matrix):
        return matrix - torch.eye(len(matrix), dtype=torch.float64)


class OtherDiagonal(Kernel):
    def diagonal(self, items):
        return super().diagonal(items) + 1


class OneBlockOnly(Kernel):
    def block(self, rows, columns):
        return self.matrix[rows.flatten()][:, columns.flatten()]


class Scaled(Kernel):
    def block(self, rows, columns):
        return super().block(rows, columns) * rows.shape[-1] / 40


class Noisy(Kernel):
    def block(self, rows, columns):
        found = super().block(rows, columns)
        return found + 1e-12 * torch.randn(1, dtype=torch.float64)


class Boastful(Kernel):
    rank_bound = 3


class OtherForm(Kernel):
    def inner_product(self):
        rows = torch.randn(50, 8, generator=stream(1, "kernel"))
        return last_layer_kernel(rows, 2).inner_product()


def last_layer():
    """Make a kernel of this package, with options."""
    rows = torch.randn(50, 8, generator=stream(0, "kernel"))
    return last_layer_kernel(rows, 3)


class Ambiguous(Kernel):
    def fit(self, pool, generator):
        return None
