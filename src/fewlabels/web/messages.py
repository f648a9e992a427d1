"""Messages of the page; all others are refused."""

from typing import Annotated, Any, Literal

from pydantic import Field

from fewlabels.experiments.settings import FrozenModel

Facts = dict[str, Any]
"""What is sent to the page, as JSON can hold it."""
Name = Annotated[str, Field(pattern=r"^[0-9a-f]{24}$")]
"""An item, as the page knows it."""
Uuid = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
ClassName = Annotated[str, Field(max_length=200)]
Person = Annotated[str, Field(min_length=1, max_length=80)]
Order = Literal["typical", "doubt", "mistakes", "likely", "surest"]
"""Which images of a class come first."""
Verb = Literal[
    "label", "skip", "unsure", "repeat", "change", "settle", "undo", "add_class"
]


MOST_TILES = 500
"""Images that Review shows at once."""
MOST_BUDGET = 10_000_000
"""Labels that the page lets people plan."""
MOST_CLASSES = 2_000
"""Classes whose order, keys and colors are kept."""
MOST_PASSED = 5_000
"""Images that it leaves out because they were seen."""
MOST_CORNERS = 100
"""Corners of a part of the map."""
MOST_REVISED = 2_000
"""Images whose answers change at once."""

Region = Annotated[
    list[Annotated[float, Field(ge=0, le=1)]], Field(max_length=MOST_CORNERS * 2)
]
"""Corners of a part of the map: x and y of the first, x and y of the next; empty: all
of it."""


class _Message(FrozenModel):
    tab: Uuid
    """Which tab of which browser; leases belong to it."""
    annotator: Person | None = None
    """Who; None: the user of the computer that serves the page."""


class Turn(_Message):
    """A wish for images to label, for more time, or to give them back."""

    count: int = Field(default=12, ge=0, le=100)


class Review(_Message):
    """A wish for images that the model predicts as a class, or for some like one."""

    name: ClassName | None = None
    order: Order = "typical"
    other: ClassName | None = None
    """With the order "mistakes": the class that it may be instead."""
    like: Name | None = None
    region: Region = Field(default=[])
    count: int = Field(default=60, ge=1, le=MOST_TILES)
    without: list[Name] = Field(default=[], max_length=MOST_PASSED)


class Budget(_Message):
    """A new number of labels to give in all."""

    budget: int = Field(ge=1, le=MOST_BUDGET)
    audit: int | None = Field(None, ge=0, le=MOST_BUDGET)
    """How many of them only measure; None: as many as before."""


class ClassLook(FrozenModel):
    """How the page shows a class."""

    letter: Annotated[str, Field(pattern=r"^[a-z]?$")] = ""
    """A key that labels, typed without Shift; empty: none of its own."""
    color: Annotated[str, Field(pattern=r"^(#[0-9a-f]{6})?$")] = ""
    """Empty: one that the page chooses."""
    description: Annotated[str, Field(max_length=500)] = ""


class NamedLook(ClassLook):
    """How the page shows the class of a name."""

    name: ClassName


class ClassLooks(_Message):
    """How the page shows all classes, in this order; others come after them."""

    classes: list[NamedLook] = Field(max_length=MOST_CLASSES)


class ClassChange(_Message):
    """Another name for a class, its end, or its return."""

    uuid: Uuid
    verb: Literal["rename", "merge", "delete", "restore"]
    name: ClassName
    other: ClassName | None = None
    """The new name, or the class to merge it into."""


class Import(_Message):
    """A file with labels, sent as the body; all of this is in the address."""

    uuid: Uuid
    name: Annotated[str, Field(min_length=1, max_length=200)]
    """Its ending is that of the format; no file of this name is opened."""
    add_classes: bool = False
    partial: bool = False
    dry_run: bool = False
    """Only return what would be imported."""


class ImportUndo(_Message):
    """The wish to take back an import."""

    uuid: Uuid | None = None
    """Which; None: the last one that is in force."""


class Action(_Message):
    """One thing that a person did. Sent again, it counts once."""

    uuid: Uuid
    verb: Verb
    item: Name | None = None
    name: ClassName | None = None
    """Name of a class."""
    target: Uuid | None = None
    """The action that an undo takes back; None: the last one that holds."""
    lead_time: Annotated[float, Field(ge=0, le=86_400)] | None = None
    """Seconds that the image was looked at."""


# ----------------------------------------------------------------------------- browsing


class Filter(_Message):
    """Which images to list: those that meet all conditions, in an order."""

    items: list[Name] | None = Field(default=None, max_length=100)
    """Only these."""
    label: ClassName | None = None
    """The class that the annotators agree on."""
    answer: Literal["none", "labeled", "undecided", "skipped", "unsure"] | None = None
    predicted: ClassName | None = None
    sure_from: float = Field(default=0, ge=0, le=1)
    sure_to: float = Field(default=1, ge=0, le=1)
    """How probable the predicted class is; from 0 to 1: whether or not there is one."""
    agreement: Literal["same", "other"] | None = None
    """Whether the label is the predicted class."""
    source: (
        Literal["asked", "confirmed", "corrected", "imported", "measuring"] | None
    ) = None
    person: Person | None = None
    since: float | None = Field(default=None, ge=0, le=1e11)
    until: float | None = Field(default=None, ge=0, le=1e11)
    """When an answer was given, in seconds since 1970. One answer has to meet source,
    person and times."""
    text: str = Field(default="", max_length=200)
    """Part of the name of the file."""
    region: Region = Field(default=[])
    order: Literal["name", "newest", "doubt"] = "name"
    offset: int = Field(default=0, ge=0, le=100_000_000)
    count: int = Field(default=100, ge=0, le=MOST_REVISED)


class ItemWish(_Message):
    """A wish for the history of an image."""

    item: Name


class AnswerChange(_Message):
    """A change of the answers about some images, or its undoing."""

    uuid: Uuid
    items: list[Name] = Field(min_length=1, max_length=MOST_REVISED)
    verb: Literal["label", "unlabel", "skip", "undo", "confirm", "correct"] = "label"
    """To confirm is to label at a glance, as predicted, images without an answer; to
    correct, otherwise than predicted."""
    name: ClassName | None = None
    target: Uuid | None = None
    """The answer that an undo takes back."""
    undoes: Uuid | None = None
    """The change to take back, with the same images."""
