"""Draw what every strategy picks on the same points of the plane.

    python scripts/strategies_picture.py
    python scripts/strategies_picture.py --out picks.png --seed 3

Shapes: N points, C classes, K sampled classifiers.
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import fewlabels
from fewlabels import strategies
from fewlabels.errors import DegenerateGramWarning

OUT = Path(__file__).resolve().parent.parent / "docs" / "images" / "strategies.png"
NUM_PICKS, NUM_SAMPLES, NUM_COLUMNS = 8, 20, 4
GROUPS = (
    # center, spread, angle in degrees, number of points, class
    ((-2.2, 1.2), (0.75, 0.75), 0, 170, 0),
    ((1.9, 1.9), (1.30, 0.28), 25, 120, 1),
    ((0.6, -1.9), (0.55, 0.55), 0, 110, 2),
    ((3.6, -1.2), (0.22, 0.22), 0, 45, 1),
    ((-3.6, -2.3), (0.16, 0.16), 0, 25, 2),
)
OPTIONS = {
    "albl": {"arms": [{"name": "badge", "first": "uniform"}, {"name": "random"}]}
}
"""One arm answers the query, so they are others than those that have a panel."""
NUM_OUTLIERS = 14
LABELED_PER_CLASS = 2
SHADES = ("#dbe7f6", "#fbe6d2", "#dff0dd")
DOTS = ("#8fb1dd", "#eeb27c", "#93c68d")
PICKED, INK = "#c2185b", "#222222"

Numbers = NDArray[np.float64]


def main(arguments: list[str] | None = None) -> int:
    """Draw the picture and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    problem = Scene(options.seed)
    picture(problem).savefig(options.out, dpi=100, metadata={"Software": None})
    print(f"wrote {options.out}")
    return 0


class Scene:
    """Points in groups of unequal size and density, some outliers, six labels."""

    def __init__(self, seed: int) -> None:
        """Draw the points, choose the labeled ones and fit the classifiers."""
        self.seed = seed
        random = np.random.default_rng(seed)
        parts = [_group(random, *group[:4]) for group in GROUPS]
        parts.append(random.uniform((-5, -3.6), (5, 4), size=(NUM_OUTLIERS, 2)))
        self.points = np.concatenate(parts)
        counts = [group[3] for group in GROUPS]
        classes = np.repeat([group[4] for group in GROUPS], counts)
        first = [np.flatnonzero(classes == c)[:LABELED_PER_CLASS] for c in range(3)]
        self.labeled = np.concatenate(first)
        self.labels = classes[self.labeled]
        self.classifier = _fitted(self.points[self.labeled], self.labels)
        self.samples = np.stack([self._sampled(random) for _ in range(NUM_SAMPLES)])

    def _sampled(self, random: np.random.Generator) -> Numbers:
        """Return logits of a classifier fitted to jittered labeled points."""
        jittered = self.points[self.labeled] + random.normal(
            scale=0.6, size=(len(self.labeled), 2)
        )
        return _logits(_fitted(jittered, self.labels), self.points)

    def picks(self, name: str) -> NDArray[np.int64]:
        """Return what a strategy picks."""
        wants_samples = name == "batchbald"
        logits = (
            self.samples if wants_samples else _logits(self.classifier, self.points)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateGramWarning)
            return fewlabels.select(
                name,
                features=self.points,
                logits=logits,
                labeled=self.labeled,
                labels=self.labels,
                size=NUM_PICKS,
                seed=self.seed,
                options=OPTIONS.get(name),
            )


def picture(problem: Scene) -> Figure:
    """Draw a panel per strategy."""
    names = strategies.names()
    num_rows = -(-len(names) // NUM_COLUMNS)
    figure = Figure(figsize=(11, 2.55 * num_rows + 0.35), layout="constrained")
    panels = figure.subplots(num_rows, NUM_COLUMNS, squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        _panel(axes, problem, name)
    panels[0].scatter([], [], s=60, c=PICKED, label=f"picked ({NUM_PICKS})")
    panels[0].scatter([], [], s=45, marker="X", c=INK, label="labeled")
    panels[0].scatter([], [], s=16, c="#999999", label="candidate")
    for axes in panels[len(names) :]:
        axes.set_axis_off()
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=11)
    return figure


def _panel(axes: Axes, problem: Scene, name: str) -> None:
    _regions(axes, problem)
    predicted = problem.classifier.predict(problem.points)
    axes.scatter(
        *problem.points.T, s=7, c=np.array(DOTS)[predicted], linewidths=0, zorder=2
    )
    axes.scatter(
        *problem.points[problem.labeled].T,
        s=34,
        marker="X",
        c=INK,
        linewidths=0.6,
        edgecolors="white",
        zorder=3,
    )
    axes.scatter(
        *problem.points[problem.picks(name)].T,
        s=46,
        c=PICKED,
        linewidths=0.9,
        edgecolors="white",
        zorder=4,
    )
    axes.set_title(name, fontsize=12, color=INK, pad=4)
    axes.set(xlim=(-5.2, 5.2), ylim=(-3.8, 4.2), xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set_color("#cccccc")


def _regions(axes: Axes, problem: Scene) -> None:
    """Shade the plane by predicted class."""
    across, up = np.meshgrid(np.linspace(-5.2, 5.2, 261), np.linspace(-3.8, 4.2, 201))
    places = np.stack([across.ravel(), up.ravel()], axis=1)
    predicted = problem.classifier.predict(places).reshape(across.shape)
    axes.pcolormesh(
        across,
        up,
        predicted,
        cmap=ListedColormap(SHADES),
        vmin=0,
        vmax=2,
        shading="nearest",
        rasterized=True,
        zorder=0,
    )


def _group(
    random: np.random.Generator,
    center: tuple[float, float],
    spread: tuple[float, float],
    angle: float,
    count: int,
) -> Numbers:
    turn = np.deg2rad(angle)
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    return random.normal(size=(count, 2)) * spread @ rotation + center


def _fitted(points: Numbers, labels: NDArray[np.int64]) -> LogisticRegression:
    return LogisticRegression(C=0.3).fit(points, labels)


def _logits(classifier: LogisticRegression, points: Numbers) -> Numbers:
    return np.log(classifier.predict_proba(points))


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
