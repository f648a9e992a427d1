"""Predictions for all images, refreshed after every label.

Where there are features, labels spread over their neighbors: that takes milliseconds,
since the graph of the images is remembered. Where there are none, the latest model that
was trained is asked or, before there is one, small images are features enough. It runs
in a process that stays, and keeps the last result.

Shapes: N images, C classes.
"""

from base64 import b64encode
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fewlabels import training
from fewlabels.experiments.evaluation.label_errors import (
    likely_errors,
    stratified_folds,
)
from fewlabels.gram.nodes import directions
from fewlabels.gram.principal import principal_basis
from fewlabels.pool import UNKNOWN, Pool, RowSource, read_rows
from fewlabels.projects import Project
from fewlabels.projects.export import probabilities
from fewlabels.projects.folder import NUM_TO_TELL_APART
from fewlabels.projects.image_index import thumbnails
from fewlabels.projects.snapshot import Snapshot
from fewlabels.projects.training_plan import HEAD, SMALL_SIDE
from fewlabels.rng import stream
from fewlabels.strategies.outward import VOptimal
from fewlabels.training.training import Training
from fewlabels.web.messages import Facts, Order
from fewlabels.web.pictures import ordered_digest
from fewlabels.web.work import learn_quickly, project_job

MOST_SLIPS = 40
"""Labels that are shown to be looked at again."""
NO_MODEL = (
    "There is no model yet; it needs labels of at least two classes, and features or a "
    "training."
)
NO_FEATURES = "This project has no features by which images could be compared."
MOST_DOUBTS = 24
"""Images that the model is likely to be wrong about, and that are shown."""

MOST_DIFFERENCE = 0.55
"""Near copies differ by at most this: distance of their features, in units of the
pool's typical distance of nearest images, plus one minus the correlation of thumbnails.
Of 6,000 images of CIFAR-10, 36 pairs differ by less; 33 of them show the same photo."""

Places = NDArray[np.int64]

_COVERING = VOptimal(kernel="joint", noise=0.3)
_FOLDS = 10
_SAMPLE = 1_000
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Guess:
    """The predicted classes of all images, given the labels of one moment."""

    snapshot: Snapshot
    pool: Pool
    head: Training | None
    """What spreads labels over features, or over small images; None: there are none."""
    shares: NDArray[np.float32]
    """Probabilities, shape (N, C)."""
    by: str | None
    """Name of the model; None: there are too few labels, and no model."""

    @cached_property
    def _rows(self) -> RowSource:
        assert self.head is not None
        return self.head.inputs.of(self.pool, None).rows

    @cached_property
    def sample(self) -> Places:
        """Some of the images, or all if they are few."""
        return np.unique(np.linspace(0, len(self.pool) - 1, _SAMPLE).astype(np.int64))

    @cached_property
    def _center(self) -> torch.Tensor:
        return read_rows(self._rows, self.sample).mean(dim=0)

    def directions(self, places: Places) -> NDArray[np.float32]:
        """Return features as seen from their center, with length one, shape (n, F)."""
        return directions(read_rows(self._rows, places), self._center).numpy()

    @cached_property
    def distance(self) -> float:
        """The typical distance of an image from the one that is nearest to it."""
        near = self.directions(self.sample)
        likeness = near @ near.T
        np.fill_diagonal(likeness, -1.0)
        return max(float(np.median(1.0 - likeness.max(axis=1))), 1e-6)

    @cached_property
    def order(self) -> Places:
        """Images that may be confirmed, surest first: one of each group of copies."""
        asked = {self.snapshot.positions[entry.item] for entry in self.snapshot.open}
        left = [place for place in self.snapshot.candidates if place not in asked]
        free = np.asarray(left, dtype=np.int64)
        sureness = self.shares[free].max(axis=1)
        return free[np.argsort(-sureness, kind="stable")]

    @cached_property
    def classes(self) -> Places:
        """The likeliest class of each image, shape (N,)."""
        return np.asarray(self.shares.argmax(axis=1), dtype=np.int64)

    @cached_property
    def slips(self) -> list[Facts] | None:
        """Labels that are probably wrong, most probable first; None: not comparable."""
        if self.head is None:
            return None
        pool, shares = self.pool, out_of_fold(self.head, self.pool)
        labels = pool.labels[pool.labeled].numpy()
        likeliest = shares.argmax(axis=1)
        return [
            {
                "item": pool.ids[int(pool.labeled[place])],
                "label": pool.classes[labels[place]],
                "other": pool.classes[likeliest[place]],
                "sure": round(float(shares[place].max()), 3),
            }
            for place in likely_errors(shares, labels)[:MOST_SLIPS].tolist()
        ]

    def counts(self, places: Places) -> dict[str, int]:
        """Return how many of some images each class gets."""
        predicted, size = self.classes[places], self.pool.num_classes
        counts = map(int, np.bincount(predicted, minlength=size))
        return dict(zip(self.pool.classes, counts, strict=True))

    def rivals(self, places: Places, number: int, other: str | None) -> Places:
        """Return the likeliest class of images besides one, or ``other`` for all."""
        if other in self.pool.classes:
            return np.full_like(places, self.pool.classes.index(other))
        shares = self.shares[places].copy()
        shares[:, number] = -1.0
        return np.asarray(shares.argmax(axis=1), dtype=np.int64)

    def tiles(self, places: Places, number: int | None = None) -> list[Facts]:
        """Return entries of a grid: of one class, or of each image's likeliest."""
        own = self.classes[places] if number is None else np.full_like(places, number)
        return [
            {
                "item": self.pool.ids[place],
                "class": self.pool.classes[label],
                "sure": round(float(self.shares[place, label]), 3),
            }
            for place, label in zip(places.tolist(), own.tolist(), strict=True)
        ]


_last: dict[str, tuple[tuple[Any, ...], Guess]] = {}


@project_job
def guess(project: Project, *, learns: bool = False) -> Facts:
    """Return the likeliest class of all images, as the labels are now.

    Args:
        project: The project.
        learns: Train the first model before, where that takes seconds.

    Returns:
        ``counts``: how many images without an answer each class gets. ``predictions``:
        the likeliest ``classes`` and how ``sure`` they are, as numbers of 16 bits in
        the order of the images, in base 64; the second are shares of 65,535. ``items``
        is a digest of the images.
    """
    if learns and not project.records():
        learn_quickly(project)
    current = _guess(project)
    if current.by is None:
        return {"by": None, "counts": {}, "predictions": {"by": None}}
    predictions = {
        "by": current.by,
        "items": ordered_digest(item.id for item in current.snapshot.items),
        "classes": _encoded(current.classes),
        "sure": _encoded(np.rint(current.shares.max(axis=1) * 65_535)),
    }
    counts = current.counts(current.order)
    return {"by": current.by, "counts": counts, "predictions": predictions}


@project_job
def review(
    project: Project,
    *,
    name: str | None,
    order: Order,
    other: str | None = None,
    like: str | None,
    count: int,
    without: list[str],
    among: list[str] | None = None,
) -> Facts:
    """Return images that a model predicts as one class, or that may be of it.

    Args:
        project: The project.
        name: The class; None: any.
        order: ``"typical"``: those that together say most about all other images;
            ``"doubt"``: the least sure first; ``"surest"``: the surest first;
            ``"mistakes"``: first those for which another class is almost as likely;
            ``"likely"``: those that are most likely to be of the class, whatever the
            model predicts.
        other: With ``"mistakes"``, which other class; None: any.
        like: Instead, those that are most like this image.
        count: How many.
        without: Images that were looked at and left out.
        among: Only these images; None: all.

    Returns:
        The images, and how many there are. Of near copies the first is among them, and
        none if one of them was looked at before. ``counts``: how many of ``among``
        each class gets.
    """
    guess = _guess(project)
    if guess.by is None:
        return {"by": None, "tiles": [], "num_all": 0, "counts": None}
    positions = guess.snapshot.positions
    free = guess.order
    if among is not None:
        wanted = [positions[item] for item in among if item in positions]
        free = free[np.isin(free, np.array(wanted, int))]
    places = free[::-1] if order == "doubt" else free
    classes = guess.pool.classes
    number = classes.index(name) if name in classes and like is None else None
    if like is not None:
        places = _nearest(guess, like)
    elif number is not None and order == "likely":
        places = places[np.argsort(-guess.shares[places, number], kind="stable")]
    elif number is not None:
        places = places[guess.classes[places] == number]
        if order == "mistakes":
            rivals = guess.rivals(places, number, other)
            odds = guess.shares[places, rivals] / guess.shares[places, number]
            places = places[np.argsort(-odds, kind="stable")]
    passed = np.array([positions[item] for item in without if item in positions], int)
    kept = places[~np.isin(places, passed)]
    if order == "typical" and like is None:
        kept = _typical_first(guess, kept, count)
    shown = _distinct(guess, kept, passed, count)
    tiles = guess.tiles(shown, number)
    if order == "mistakes" and number is not None:
        rivals = guess.rivals(shown, number, other)
        for tile, rival in zip(tiles, rivals.tolist(), strict=True):
            tile["other"] = classes[rival]
    return {
        "by": guess.by,
        "tiles": tiles,
        "num_all": len(kept),
        "counts": None if among is None else guess.counts(free),
    }


@project_job
def second_looks(project: Project) -> Facts:
    """Return what is worth a second look.

    Returns:
        ``slips``: labels that are probably wrong, most probable first, judged by models
        that did not see them; None if they could not be computed, for the ``reason``.
        ``at_once``: how many of them to show at a time.
        ``doubts``: images that the model is least sure about, its likeliest mistakes.
        Images that measure take no part.
    """
    guess = _guess(project)
    if guess.by is None:
        return {"slips": None, "doubts": [], "reason": NO_MODEL}
    return {
        "slips": guess.slips,
        # People slip about once in 20 labels; further down the list most are right.
        "at_once": max(5, len(guess.pool.labeled) // 20),
        "doubts": guess.tiles(guess.order[::-1][:MOST_DOUBTS]),
        "reason": NO_FEATURES if guess.slips is None else None,
    }


@project_job
def layout(project: Project) -> Facts:
    """Return a place in the plane for each image: like ones are near each other.

    Returns:
        ``x`` and ``y``: numbers of 16 bits in base 64, as of :func:`guess`: the
        two main components of the features. ``reason``: why there are none.
    """
    guess = _guess(project)
    if guess.head is None:
        return {"reason": NO_FEATURES}
    num_images = len(guess.pool)
    basis = principal_basis(guess.directions(guess.sample), 2)
    blocks = np.array_split(np.arange(num_images), -(-num_images // _SAMPLE))
    plane = np.zeros((num_images, 2), np.float32)
    for block in blocks:
        plane[block, : basis.shape[1]] = guess.directions(block) @ basis
    low, high = plane.min(axis=0), plane.max(axis=0)
    numbers = np.rint((plane - low) / np.maximum(high - low, 1e-12) * 65_535)
    return {
        "items": ordered_digest(item.id for item in guess.snapshot.items),
        **{name: _encoded(numbers[:, axis]) for axis, name in enumerate("xy")},
    }


def _encoded(column: NDArray[Any]) -> str:
    return b64encode(column.astype("<u2").tobytes()).decode()


def out_of_fold(head: Training, pool: Pool) -> NDArray[np.float32]:
    """Return probabilities of labeled images from models that did not see their labels.

    Args:
        head: What learns from the labels.
        pool: Images and labels.

    Returns:
        Shape (n, C), in the order of ``pool.labeled``. A row is NaN where all that the
        other labels name is one class, or where none of them names this class.
    """
    items = pool.labeled.numpy()
    labels = pool.labels[pool.labeled].numpy()
    folds = stratified_folds(labels, _FOLDS)
    shares = np.full((len(items), pool.num_classes), np.nan, dtype=np.float32)
    for fold in np.unique(folds):
        is_out = folds == fold
        rest = np.unique(labels[~is_out])
        if len(rest) < NUM_TO_TELL_APART:
            continue
        left = pool.labels.clone()
        left[items[is_out]] = UNKNOWN
        shares[is_out] = _shares(head, replace(pool, labels=left), items[is_out])
        shares[is_out & ~np.isin(labels, rest)] = np.nan
    return shares


def _guess(project: Project) -> Guess:
    """Return the current guess; the same one while nothing has changed."""
    snapshot = project.snapshot()
    head, records = _head(project), project.records()
    model = records[-1] if records and head is None else None
    labels = (snapshot.labels_digest, len(snapshot.verdicts), snapshot.classes)
    counts = (len(snapshot.items), len(snapshot.rounds))
    moment = (*labels, *counts, None if model is None else model.name)
    before, known = _last.get(str(project.folder), (None, None))
    if known is not None and before == moment:
        return known
    # Of many images, listing the files takes longer than all that follows.
    is_same = known is not None and known.snapshot.items == snapshot.items
    pool = snapshot.pool(
        known.pool.images if known and is_same else project.images(snapshot)
    )
    near, by = head or _over_pixels(project), None
    shares = np.zeros((len(pool), pool.num_classes), np.float32)
    if model is not None:
        classifier = project.classifier(model, pool)
        rows = torch.cat(list(probabilities(classifier, pool.images)))
        shares[:, : rows.shape[1]] = rows  # a class that is younger has no share
        by = model.name
    elif near and snapshot.can_teach:
        shares = _shares(near, pool, np.arange(len(pool)))
        by = "labels nearby"
    guess = Guess(snapshot, pool, near, shares, by)
    _last[str(project.folder)] = (moment, guess)
    return guess


def _head(project: Project) -> Training | None:
    """Return what spreads labels as quickly as a project's own training, if any."""
    chosen = project.chosen_trainer()
    known = training.built_in(chosen.name, chosen.options)
    if known is None or not known.inputs.has_features:
        is_quick = known is not None and known.num_steps is None
        return _over_pixels(project) if is_quick else None
    name = training.variant(chosen.name, learner=HEAD, alignment="")
    given = {"encoder", "encoder_options"} & chosen.options.keys()
    options = {key: chosen.options[key] for key in given}
    return None if name is None else training.make(name, **options)


def _over_pixels(project: Project) -> Training | None:
    """Return what spreads labels over small images themselves, until there is more."""
    if max(project.settings.shape[1:], default=SMALL_SIDE + 1) > SMALL_SIDE:
        return None
    return training.make(f"frozen-{HEAD}", encoder="pixels")


def _shares(head: Training, pool: Pool, items: Places) -> NDArray[np.float32]:
    """Return probabilities of some images, given the labels of a pool."""
    classifier = head.fit(pool, stream(0, "guess"))
    logits = classifier.outputs(pool.images, torch.from_numpy(items)).logits
    return logits.softmax(dim=1).numpy().astype(np.float32)


def _distinct(guess: Guess, places: Places, passed: Places, count: int) -> Places:
    """Return the first of some images that are near copies of none before them.

    Two images are near copies if their features are close for this pool (in units of
    the typical distance of an image from its nearest one) and the lightness of their
    8 x 8 parts correlates, which neither brightness nor a small crop changes much.
    Images that were labeled or passed over come before all others.
    """
    if guess.head is None:
        return places[:count]

    def looks(some: Places) -> NDArray[np.float32]:
        """Return rows whose products are likeness of features plus correlation."""
        parts = thumbnails([guess.snapshot.items[place] for place in some.tolist()])
        return np.hstack([guess.directions(some) / np.sqrt(guess.distance), parts])

    answered = {verdict.item for verdict in guess.snapshot.verdicts}
    known = [guess.snapshot.positions[item] for item in sorted(answered)]
    before = looks(np.concatenate([passed, np.array(known, dtype=np.int64)]))
    kept: list[int] = []
    for start in range(0, len(places), _BLOCK):
        some = places[start : start + _BLOCK]
        before = np.vstack([before, looks(some)])
        last = len(before) - len(some)
        difference = 1.0 / guess.distance + 1.0 - before[last:] @ before.T
        is_copy = np.tril(difference <= MOST_DIFFERENCE, last - 1).any(axis=1)
        kept += some[~is_copy].tolist()
        if len(kept) >= count:
            break
    return np.array(kept[:count], dtype=np.int64)


def _typical_first(guess: Guess, places: Places, count: int) -> Places:
    """Return images so that the first ones together say most about all others.

    They cover the class; doubt has no part in it, since most of what the model doubts
    would have to be corrected. Without features the order has no meaning.
    """
    if guess.head is None or not len(places):
        return np.sort(places)
    classifier = guess.head.fit(guess.pool, stream(0, "guess"))
    pool = replace(guess.pool, candidates=torch.from_numpy(np.sort(places)))
    number = min(count, len(places))
    query = _COVERING.select(classifier, pool, number, stream(0, "review"))
    first = query.indices.numpy()
    return np.concatenate([first, places[~np.isin(places, first)]])


def _nearest(guess: Guess, item: str) -> Places:
    """Return images without an answer, those most like a given one first."""
    if guess.head is None or item not in guess.snapshot.positions:
        return guess.order[:0]
    (own,) = guess.directions(np.array([guess.snapshot.positions[item]]))
    likeness = guess.directions(guess.order) @ own
    return guess.order[np.argsort(-likeness, kind="stable")]
