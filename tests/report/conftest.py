"""Runs that were never run: folders written by hand, with numbers known beforehand."""

import pytest
import torch

from fewlabels.experiments.runs import RoundLine, RunFolder
from fewlabels.experiments.settings import RunSettings
from fewlabels.pool import ArrayImages, Pool

SECONDS = 1.5


def make_pool(num_items=200, shape=(1, 8, 8), classes=("cat", "dog", "fox"), ids=None):
    count = num_items * shape[0] * shape[1] * shape[2]
    pixels = (torch.arange(count) * 37 % 256).to(torch.uint8)
    names = ids or [f"pets/{index}.png@{index:04x}" for index in range(num_items)]
    return Pool.build(
        ArrayImages(pixels.reshape(num_items, *shape)),
        torch.arange(num_items) % len(classes),
        classes,
        ids=names,
    )


def settings_of(strategy, options=None, **changed):
    choice = {"name": strategy, "options": options or {}}
    settings = {
        "data": {"name": "pets", "options": {}},
        "strategy": choice,
        "trainer": {"name": "fixmatch", "options": {"steps": 400}},
        "start": 3,
        "query": 4,
        "budget": 11,
        "seed": 0,
    }
    return settings | changed


def facts_of(pool, num_test):
    return {
        "data": {
            "num_items": len(pool),
            "num_test": num_test,
            "classes": list(pool.classes),
            "shape": list(pool.images.shape),
            "hash": "f00d" * 16,
        },
        "versions": {"python": "3.11.2", "torch": "2.13.0"},
        "platform": "Linux",
    }


class Writer:
    """Writes a run: a starting set, then rounds that ask for the next items in line."""

    def __init__(self, path, pool, strategy="npc", num_test=500, start=3, **changed):
        self.pool, self.labeled, self.step = pool, list(range(start)), 0
        self.next = start
        self.folder = RunFolder(path)
        path.mkdir(parents=True)
        settings = RunSettings.model_validate(settings_of(strategy, **changed))
        self.folder.begin(settings, facts_of(pool, num_test))
        self.folder.write_start(
            {pool.ids[index]: int(pool.labels[index]) for index in self.labeled}
        )

    def add(self, accuracy, size=4, answers=None, ids=None, median=None, **record):
        asked = list(range(self.next, self.next + size))
        labels = answers or [int(self.pool.labels[index]) for index in asked]
        known = self.pool.labels[self.labeled]
        self.folder.append(
            RoundLine(
                step=self.step,
                num_labeled=len(self.labeled),
                accuracy=accuracy,
                median_accuracy=median,
                ids=tuple(ids or [self.pool.ids[index] for index in asked]),
                indices=tuple(asked),
                labels=tuple(labels),
                class_counts=tuple(
                    torch.bincount(known, minlength=self.pool.num_classes).tolist()
                ),
                kernel=record.get("kernel"),
                value=record.get("value"),
                ceiling=record.get("ceiling"),
                tie=record.get("tie"),
                record=record,
            ),
            {"train_seconds": SECONDS} | ({"query_seconds": 0.25} if size else {}),
        )
        self.labeled += [
            index
            for index, label in zip(asked, labels, strict=True)
            if label is not None and label >= 0
        ]
        self.next += size
        self.step += 1
        return self


@pytest.fixture(autouse=True)
def small_figures(monkeypatch):
    """Let figures for files have few pixels."""
    monkeypatch.setattr("fewlabels.report.figures._DOTS_PER_INCH", 20)


@pytest.fixture
def pool():
    return make_pool()


@pytest.fixture
def npc(tmp_path, pool):
    """A finished run of three rounds with values; the second is a tie."""
    writer = Writer(tmp_path / "npc", pool)
    writer.add(0.742, kernel="last-layer", value=0.5, ceiling=0.8, tie=False)
    writer.add(0.954, kernel="last-layer", value=1.5e-14, ceiling=0.6, tie=True)
    return writer.add(0.972, size=0).folder


@pytest.fixture
def random(tmp_path, pool):
    writer = Writer(tmp_path / "random", pool, "random")
    return writer.add(0.742).add(0.896).add(0.931, size=0).folder
