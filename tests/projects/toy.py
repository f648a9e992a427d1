"""A project on a handful of pictures that trains in a blink."""

import atexit
import csv
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from tests.data.pictures import save

from fewlabels.errors import SettingsChangedWarning
from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project

QUICK = Choice(name="supervised", options={"steps": 5})
CLASSES = ("even", "odd")


def pictures(folder, numbers=range(24)):
    """Save a picture per number; nothing but its name tells its class."""
    for number in numbers:
        save(folder / f"{number:02d}.png", number)
    return folder


def begin(place, **options):
    """Begin a project in ``place/project`` on the pictures in ``place/images``."""
    images = place / "images"
    if not images.exists():
        pictures(images)
    defaults = {"budget": 12, "audit": 3, "query": 4, "strategy": "random"}
    options = {**defaults, "trainer": QUICK, **options}
    return Project.create(place / "project", images, CLASSES, **options)


@cache
def _untouched():
    """A project that was just begun; nobody works in it."""
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    begin(Path(folder.name)).close()
    return folder.name


def begun(place):
    """Return what ``begin(place)`` gives: made once, and copied."""
    shutil.copytree(_untouched(), place, dirs_exist_ok=True)
    return Project.open(place / "project")


def paths(project, asked):
    """Return the names of the files that are asked about, in their order."""
    path_of = {item.id: item.path for item in project.store.items()}
    return [path_of[one.item] for one in asked.items]


def truth(name):
    """Return the class of a picture."""
    return CLASSES[int(name.rpartition("/")[2][:2]) % 2]


def write(path, rows, columns=("file_name", "label", "status", "annotator")):
    """Write a table of answers; each row may end early."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def answer(project, asked, *, annotator="ann"):
    """Tell the truth about everything that is asked; return what came of it."""
    rows = [(name, truth(name)) for name in paths(project, asked)]
    file = write(project.folder / "answers.csv", rows)
    return project.tell(file, annotator=annotator)


def go_on(project, **options):
    """Ask and answer; return what was asked."""
    asked = project.ask(**options)
    answer(project, asked)
    return asked


def num_events(project):
    """Return how many events the label store holds."""
    return sum(1 for _ in project.store.events())


class Halves(torch.nn.Module):
    """An encoder of one's own: the mean of each quarter of a picture."""

    def forward(self, images):
        return torch.nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


ENCODER = Halves()


def changed(project, **settings):
    """Change settings as their owner would, and open the project anew."""
    project.settings.model_copy(update=settings).write(project.folder)
    project.close()
    with pytest.warns(SettingsChangedWarning):
        return Project.open(project.folder)
