"""What a model makes of all images, refreshed after every label.

Where there are features, labels spread over their neighbors: that takes milliseconds,
since the graph of the images is remembered. Where there are none, the latest model that
was trained is asked or, before there is one, small images are features enough. It runs
in a process that stays, and keeps the last result.

Shapes: N images, C classes.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from fewlabels import training
from fewlabels.jobs import startable
from fewlabels.naming import AllowCode
from fewlabels.pool import UNKNOWN, Pool
from fewlabels.projects import Project
from fewlabels.projects.models import NUM_TO_TELL_APART
from fewlabels.projects.planning import HEAD, SMALL_SIDE
from fewlabels.projects.predicting import probabilities
from fewlabels.projects.snapshot import Snapshot
from fewlabels.rng import stream
from fewlabels.training.training import Training
from fewlabels.web.work import unwarned

MOST_SLIPS = 40
"""Labels that are shown to be looked at again."""
MOST_DOUBTS = 24
"""Images that the model is likely to be wrong about, and that are shown."""

_FOLDS = 5
_SURE = 0.6


@dataclass(frozen=True, eq=False)
class Guess:
    """What is believed of each image, given the labels of one moment."""

    snapshot: Snapshot
    pool: Pool
    head: Training | None
    """What spreads labels over features, or over small images; None: there are none."""
    shares: NDArray[np.float32]
    """Probabilities, shape (N, C)."""
    by: str
    """Who guesses."""

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Images that may be confirmed, surest first: one of each group of copies."""
        asked = {self.snapshot.positions[one.item] for one in self.snapshot.open}
        left = [one for one in self.snapshot.candidates if one not in asked]
        free = np.asarray(left, dtype=np.int64)
        sureness = self.shares[free].max(axis=1)
        return free[np.argsort(-sureness, kind="stable")]

    @cached_property
    def classes(self) -> NDArray[np.int64]:
        """The likeliest class of each image, shape (N,)."""
        return np.asarray(self.shares.argmax(axis=1), dtype=np.int64)

    @cached_property
    def slips(self) -> list[dict[str, Any]]:
        """Labels that the others speak against, the likeliest slips first."""
        return [] if self.head is None else _slips(self, self.head)

    def counts(self) -> list[int]:
        """Return how many images that nobody has spoken of each class gets."""
        found = self.classes[self.order]
        counts = np.bincount(found, minlength=self.pool.num_classes)
        return [int(count) for count in counts]

    def tiles(self, places: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Return what a wall shows of some images."""
        return [
            {
                "item": self.pool.ids[place],
                "class": self.pool.classes[self.classes[place]],
                "sure": round(float(self.shares[place].max()), 3),
            }
            for place in places.tolist()
        ]


_last: dict[str, tuple[tuple[Any, ...], Guess | None]] = {}


@startable
def guess(folder: str, *, allow_code: AllowCode) -> dict[str, Any]:
    """Return how many images each class gets, as the labels are now."""
    found = _guess(folder, allow_code)
    if found is None:
        return {"by": None, "counts": []}
    return {"by": found.by, "counts": found.counts()}


@startable
def wall(
    folder: str,
    *,
    name: str | None,
    like: str | None,
    count: int,
    without: list[str],
    allow_code: AllowCode,
) -> dict[str, Any]:
    """Return images that a model takes for one class, surest first.

    Args:
        folder: The project's.
        name: The class; None: any.
        like: Instead, those that are most like this image.
        count: How many.
        without: Images that were looked at and left out.
        allow_code: What ``project.json`` may import.

    Returns:
        The images, and how many there are.
    """
    found = _guess(folder, allow_code)
    if found is None:
        return {"by": None, "tiles": [], "num_all": 0}
    places = found.order
    if like is not None:
        places = _nearest(found, like)
    elif name in found.pool.classes:
        number = found.pool.classes.index(name)
        places = places[found.classes[places] == number]
    passed = set(without)
    kept = [one for one in places.tolist() if found.pool.ids[one] not in passed]
    tiles = found.tiles(np.asarray(kept[:count], dtype=np.int64))
    return {"by": found.by, "tiles": tiles, "num_all": len(kept)}


@startable
def second_looks(
    folder: str, *, allow_code: AllowCode
) -> dict[str, list[dict[str, Any]]]:
    """Return what is worth a second look.

    Returns:
        ``slips``: labels that the others speak against, the likeliest slips first; each
        was left out once, with a fifth of all. ``doubts``: images that the model is
        least sure about, its likeliest mistakes. What measures takes no part.
    """
    found = _guess(folder, allow_code)
    if found is None:
        return {"slips": [], "doubts": []}
    doubts = found.order[::-1][:MOST_DOUBTS]
    return {"slips": found.slips, "doubts": found.tiles(doubts)}


@startable
def suggestions(
    folder: str, *, items: list[str], allow_code: AllowCode
) -> dict[str, dict[str, Any]]:
    """Return the likeliest class of some images, by id, and how sure it is.

    Not of rounds with images that measure: a suggestion would sway the label that is to
    judge it, and suggestions for the others alone would tell which measure.
    """
    found = _guess(folder, allow_code)
    if found is None:
        return {}
    positions, rounds = found.snapshot.positions, found.snapshot.rounds
    measured = (one for one in rounds if any(o.role == "audit" for o in one.items))
    hidden = {one.item for asked in measured for one in asked.items}
    known = [item for item in items if item in positions and item not in hidden]
    places = np.asarray([positions[item] for item in known], dtype=np.int64)
    return {one["item"]: one for one in found.tiles(places)}


def _slips(found: Guess, head: Training) -> list[dict[str, Any]]:
    """Compare each label with what the others say of its image."""
    asked = {o.item for o in found.snapshot.verdicts if o.is_asked}
    labeled = found.pool.labeled
    told: list[tuple[float, dict[str, Any]]] = []
    for number in range(_FOLDS):
        out = labeled[number::_FOLDS]
        labels = found.pool.labels.clone()
        labels[out] = UNKNOWN
        if len(set(labels.tolist()) - {UNKNOWN}) < NUM_TO_TELL_APART:
            continue
        shares = _spread(head, replace(found.pool, labels=labels))[out.numpy()]
        for place, row in zip(out.tolist(), shares, strict=True):
            said, other = int(found.pool.labels[place]), int(row.argmax())
            is_asked = found.pool.ids[place] in asked  # and so can be changed
            if is_asked and other != said and row[other] >= _SURE:
                facts = {"item": found.pool.ids[place], "label": said, "other": other}
                told.append((float(row[other]), facts))
    told.sort(key=lambda one: -one[0])
    names = found.pool.classes
    return [
        {
            "item": one["item"],
            "label": names[one["label"]],
            "other": names[one["other"]],
            "sure": round(sure, 3),
        }
        for sure, one in told[:MOST_SLIPS]
    ]


def _guess(folder: str, allow_code: AllowCode) -> Guess | None:
    """Return what is believed now; None if there are too few labels, or no model."""
    with Project.open(folder, allow_code=allow_code) as project, unwarned():
        snapshot = project.snapshot()
        head, records = _head(project), project.records()
        model = records[-1] if records and head is None else None
        labels = (snapshot.labels_digest, len(snapshot.verdicts), snapshot.classes)
        counts = (len(snapshot.items), len(snapshot.rounds))
        moment = (*labels, *counts, None if model is None else model.name)
        before, known = _last.get(folder, (None, None))
        if before == moment:
            return known
        # Of many images, listing the files takes longer than all that follows.
        is_same = known is not None and known.snapshot.items == snapshot.items
        pool = snapshot.pool(
            known.pool.images if known and is_same else project.images(snapshot)
        )
        found, near = None, head or _over_pixels(project)
        if model is not None:
            classifier = project.classifier(model, pool)
            rows = torch.cat(list(probabilities(classifier, pool.images)))
            # A class that is younger than the model has no share.
            whole = F.pad(rows, (0, pool.num_classes - rows.shape[1])).numpy()
            found = Guess(snapshot, pool, near, whole, model.name)
        elif near and len(set(snapshot.labels) - {None}) >= NUM_TO_TELL_APART:
            shares = _spread(near, pool)
            found = Guess(snapshot, pool, near, shares, "labels nearby")
        _last[folder] = (moment, found)
        return found


def _head(project: Project) -> Training | None:
    """Return what spreads labels as quickly as a project's own training, if any."""
    chosen = project.chosen_trainer()
    known = training.built_in(chosen.name, chosen.options)
    if known is None or not known.inputs.has_features:
        is_quick = known is not None and known.num_steps is None
        return _over_pixels(project) if is_quick else None
    name = training.variant(chosen.name, learner=HEAD, alignment="")
    told = {"encoder", "encoder_options"} & chosen.options.keys()
    options = {one: chosen.options[one] for one in told}
    return None if name is None else training.make(name, **options)


def _over_pixels(project: Project) -> Training | None:
    """Return what spreads labels over small images themselves, until there is more."""
    if max(project.settings.shape[1:], default=SMALL_SIDE + 1) > SMALL_SIDE:
        return None
    return training.make(f"frozen-{HEAD}", encoder="pixels")


def _spread(head: Training, pool: Pool) -> NDArray[np.float32]:
    classifier = head.fit(pool, stream(0, "guess"))
    logits = classifier.outputs(pool.images, torch.arange(len(pool))).logits
    return logits.softmax(dim=1).numpy().astype(np.float32)


def _nearest(found: Guess, item: str) -> NDArray[np.int64]:
    """Return images that nobody has spoken of, those most like one of them first."""
    if found.head is None or item not in found.snapshot.positions:
        return found.order[:0]
    rows = np.asarray(found.head.inputs.of(found.pool, None).rows, dtype=np.float32)
    rows = rows - rows.mean(axis=0)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    likeness = rows[found.order] @ rows[found.snapshot.positions[item]]
    return found.order[np.argsort(-likeness, kind="stable")]
