"""A day of research: own data, strategy, kernel and loss; stop, resume, plot."""

from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy, normalize
from torch.utils.data import TensorDataset

from fewlabels.experiments import bench
from fewlabels.pool import Query
from fewlabels.training.learner import Learner, Loss
from fewlabels.training.views import View


def digits():
    images, labels = map(torch.tensor, load_digits(return_X_y=True))
    images = images.view(-1, 1, 8, 8) / 16
    return [TensorDataset(images[i::2], labels[i::2]) for i in range(2)]  # pool, test


@dataclass(frozen=True)
class Farthest:
    def select(self, classifier, pool, size, generator, *, history=()):
        rows = classifier.outputs(pool.images, torch.arange(len(pool))).features
        near = torch.cdist(rows[pool.candidates], rows[pool.labeled]).amin(dim=1)
        return Query(pool.candidates[near.argsort(descending=True)[:size]])


class Cosine:
    rank_bound = None

    def __init__(self, outputs, pool):
        self.rows, self.num_items = normalize(outputs.features[:].double()), len(pool)

    def diagonal(self, items):
        return self.block(items[..., None], items[..., None])[..., 0, 0]

    def block(self, rows, columns):
        return (self.rows[rows] @ self.rows[columns].mT + 1).pow(3)


@dataclass(frozen=True, kw_only=True)
class EntropyMinimum(Learner):
    mu: int = 2
    views = {"labeled": View("weak", is_labeled=True), "unlabeled": View("weak")}

    def loss(self, step):
        labeled, unlabeled = step.outputs("labeled", "unlabeled")
        rows = unlabeled.logits.log_softmax(dim=1)
        entropy = -(rows.exp() * rows).sum(dim=1).mean()
        supervised = cross_entropy(labeled.logits, step.minibatch.labels)
        return Loss.of(supervised, entropy, weight=0.1)


if __name__ == "__main__":
    npc = {"name": "npc", "kernel": "day:Cosine"}
    settings = {"data": "day:digits", "start": 10, "query": 10, "budget": 30}
    settings["trainer"] = {"name": "day:EntropyMinimum", "steps": 60, "ema_decay": 0.9}
    conditions, compared = (
        [{"settings": settings}],
        ["random", "margin", "day:Farthest"],
    )
    experiment = bench.Experiment(
        name="day", conditions=conditions, strategies=[*compared, npc], seeds=[0, 1, 2]
    )
    for _ in bench.run(experiment, "bench"):
        break  # as Ctrl-C or a crash would
    print([ended.error for ended in bench.run(experiment, "bench")])  # what was missing
    frame = bench.read_results("bench").to_frame()
    axes = frame.groupby(["labels", "strategy"])["accuracy"].mean().unstack().plot()
    axes.figure.savefig("curves.png")
