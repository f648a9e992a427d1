"""Small projects: images as bright as their class, and people who label them."""

import csv

import numpy as np
from PIL import Image

from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project

TRAINER = Choice(name="supervised", options={"steps": 20})
CLASSES = ("dark", "middle", "bright")


def write_images(folder, num_images=40, num_classes=3, side=8):
    """Write images whose brightness is their class; return the class of each."""
    folder.mkdir(parents=True)
    draws = np.random.default_rng(0)
    truth = {}
    for number in range(num_images):
        kind = number % num_classes
        level = 20 + 215 * kind // max(1, num_classes - 1)
        pixels = np.clip(draws.normal(level, 10, (side, side)), 0, 255)
        name = f"{number:03d}.png"
        Image.fromarray(pixels.astype(np.uint8)).save(folder / name)
        truth[name] = kind
    return truth


def create(place, classes=CLASSES, **options):
    truth = write_images(place / "images", num_classes=len(classes))
    wanted = {"budget": 30, "audit": 8, "query": 6, "strategy": "random"} | options
    project = Project.create(
        place / "shades", place / "images", classes, trainer=TRAINER, **wanted
    )
    return project, truth


def answer(project, asked, labels, annotator="anna"):
    """Tell labels, by file name; "skip" and "unsure" are said as such."""
    path = project.write_query(asked, project.folder / "query.csv")
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        word = labels.get(row["file_name"], "")
        is_status = word in {"skip", "unsure"}
        row["label"], row["status"] = ("", word) if is_status else (word, "")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    project.tell(path, annotator=annotator)


def truly(truth, classes=CLASSES):
    return {name: classes[kind] for name, kind in truth.items()}
