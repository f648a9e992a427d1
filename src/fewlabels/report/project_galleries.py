"""Images of a project: the last round, and where the model contradicts a person.

Shapes: n labeled images, C classes that the model knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from fewlabels.data.files import FileImages, common_shape
from fewlabels.integers import count
from fewlabels.pool import Images
from fewlabels.projects import Project
from fewlabels.projects.models import ModelRecord
from fewlabels.projects.snapshot import Snapshot
from fewlabels.report.galleries import Gallery, Item, readable_name
from fewlabels.report.thumbnails import Thumbnails
from fewlabels.report.wording import rough_percent
from fewlabels.store import Kind

_LARGEST_ROUND = 40
_LARGEST_DOUBT = 16
_SIDE = 128


@dataclass(frozen=True)
class Doubt:
    """An image to which the model gives another class than people did."""

    item: str
    given: str
    """The class that people gave."""
    predicted: str
    share: float
    """Probability of the predicted class."""
    share_of_given: float
    """Probability of the class that people gave."""


@dataclass(frozen=True)
class ProjectImages:
    """The images that a page shows."""

    size: Literal["tiny", "small", "large"]
    last_round: Gallery | None
    learned: Gallery | None
    """Doubts about images to learn from."""
    measuring: Gallery | None
    """Doubts about images that measure."""


def project_images(
    project: Project, snapshot: Snapshot, model: ModelRecord | None
) -> ProjectImages:
    """Return the images on a project's page; None for galleries without any."""
    images = project.images(snapshot)
    doubts = () if model is None else find_doubts(project, snapshot, images, model)
    learned = [one for one in doubts if one.item not in snapshot.audit]
    measuring = [one for one in doubts if one.item in snapshot.audit]
    asked = [one.item for one in snapshot.rounds[-1].items] if snapshot.rounds else []
    thumbnails = Thumbnails(snapshot.pool(_pictures(project, snapshot, images)))
    doubtful = (*learned[:_LARGEST_DOUBT], *measuring[:_LARGEST_DOUBT])
    thumbnails.prepare([*asked[:_LARGEST_ROUND], *(one.item for one in doubtful)])
    pictures = _Pictures(snapshot, thumbnails)
    return ProjectImages(
        size=thumbnails.size,
        last_round=pictures.of_round(asked) if asked else None,
        learned=pictures.of_doubts("Training images", learned),
        measuring=pictures.of_doubts("Audit images", measuring),
    )


def find_doubts(
    project: Project, snapshot: Snapshot, images: Images, model: ModelRecord
) -> tuple[Doubt, ...]:
    """Return where a model contradicts people, the least likely labels first."""
    known = [item for item in snapshot.known if item in snapshot.positions]
    if not known:
        return ()
    pool = snapshot.pool(images)
    indices = torch.tensor([snapshot.positions[item] for item in known])
    logits = project.classifier(model, pool).outputs(pool.images, indices).logits
    shares_nC = logits.double().softmax(dim=1)
    found = []
    for item, shares in zip(known, shares_nC.tolist(), strict=True):
        given, predicted = snapshot.known[item], shares.index(max(shares))
        if predicted != given:
            # A class that was added after the training has no share.
            share_of_given = shares[given] if given < len(shares) else 0.0
            names = snapshot.classes[given], snapshot.classes[predicted]
            found.append(Doubt(item, *names, shares[predicted], share_of_given))
    return tuple(sorted(found, key=lambda one: (one.share_of_given, one.item)))


def _pictures(project: Project, snapshot: Snapshot, images: Images) -> Images:
    """Return what people see of the items; rows, where there is nothing to see."""
    if isinstance(images, FileImages):
        return enlarged(images)
    files = project.image_files(snapshot)
    return FileImages(files, common_shape(files, _SIDE)) if files else images


def enlarged(images: FileImages) -> FileImages:
    """Return the images as people can make them out, where the files hold more."""
    channels, height, width = images.shape
    side = max((max(file.height, file.width) for file in images.files), default=0)
    if side <= max(height, width) or max(height, width) >= _SIDE:
        return images
    return FileImages(images.files, (channels, _SIDE, _SIDE))


@dataclass(frozen=True, eq=False)
class _Pictures:
    """Makes galleries."""

    snapshot: Snapshot
    thumbnails: Thumbnails

    def of_round(self, asked: Sequence[str]) -> Gallery:
        step = self.snapshot.rounds[-1].step
        num_answered = sum(self.snapshot.is_answered(item) for item in asked)
        return Gallery(
            heading=f"Round {step}",
            detail=f"{num_answered:,} of {count(len(asked), 'image')} answered",
            items=tuple(self._answered(item) for item in asked[:_LARGEST_ROUND]),
            num_more=max(0, len(asked) - _LARGEST_ROUND),
        )

    def of_doubts(self, heading: str, doubts: Sequence[Doubt]) -> Gallery | None:
        if not doubts:
            return None
        return Gallery(
            heading=heading,
            detail=count(len(doubts), "image"),
            items=tuple(self._doubtful(one) for one in doubts[:_LARGEST_DOUBT]),
            num_more=max(0, len(doubts) - _LARGEST_DOUBT),
        )

    def _answered(self, item: str) -> Item:
        name, picture = self._name(item), self.thumbnails.of(item)
        number = self.snapshot.known.get(item)
        if number is not None:
            return Item(name, self.snapshot.classes[number], "labeled", picture)
        if item in self.snapshot.skipped:
            return Item(name, "skipped", "skipped", picture)
        if not self.snapshot.is_answered(item):
            return Item(name, "open", "open", picture)
        is_unsure = any(
            one.item == item and one.kind is Kind.UNSURE
            for one in self.snapshot.verdicts
        )
        return Item(name, "unsure" if is_unsure else "disputed", "skipped", picture)

    def _doubtful(self, one: Doubt) -> Item:
        return Item(
            name=self._name(one.item),
            caption=one.given,
            state="labeled",
            picture=self.thumbnails.of(one.item),
            detail=f"model: {one.predicted} ({rough_percent(one.share)})",
        )

    def _name(self, item: str) -> str:
        index = self.snapshot.positions.get(item)
        if index is None:
            return readable_name(item)
        return self.snapshot.items[index].path
