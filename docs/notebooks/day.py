"""A day of research: own data, strategy, kernel and loss. Ctrl-C, and start again."""

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


npc = {"name": "npc", "kernel": "day:Cosine"}
settings = {"data": "day:digits", "start": 10, "query": 10, "budget": 30}
settings["trainer"] = {"name": "day:EntropyMinimum", "steps": 60, "ema_decay": 0.9}
experiment = bench.Experiment(
    name="day",
    conditions=[{"settings": settings}],
    strategies=["random", "margin", "day:Farthest", npc],
    seeds=[0, 1, 2],
)

if __name__ == "__main__":
    for ended in bench.run(experiment, "bench"):  # what is missing, on all cores
        print(ended, flush=True)
    frame = bench.read_results("bench").to_frame()
    means = frame.groupby(["num_labeled", "strategy"])["accuracy"].mean().unstack()
    print(means.to_string())
    means.plot().figure.savefig("curves.png")
