"""Kill every command of a project, two hundred times: nothing is lost or doubled.

A project lives through ``init`` and two rounds of ``ask``, ``tell``, ``train``,
``status``, ``export`` and ``predict``. Each of these is done in a child process that is
killed (SIGKILL) twice, at a random moment or just before a random change to the file
system, and is then repeated to its end. After each kill everything that was
acknowledged has to be there, and what was interrupted has to be there wholly or not at
all. At the end of each life rounds, labels, weights and predictions have to be those of
a project that was never killed.

Run ``python -m tests.harness.killed_project``; five minutes or so.
"""

import argparse
import csv
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from fewlabels.errors import FewlabelsError
from fewlabels.experiments.settings import Choice
from fewlabels.files import replace_text
from fewlabels.projects import Project, predict
from fewlabels.projects.export import check_replaceable
from fewlabels.projects.store.records import LABELS
from fewlabels.report import write_project_report

NUM_IMAGES, CLASSES = 24, ("even", "odd")
VERBS = ("ask", "tell", "train", "status", "export", "predict")
TRAINER = Choice(
    name="supervised", options={"steps": 12, "save_every": 0.0, "accelerator": "cpu"}
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
STEPS = frozenset({"os.mkdir", "os.rename", "os.remove", "os.rmdir", "sqlite3.connect"})


class Steps:
    """Counts what a process does to files below a folder, and kills it on the way."""

    def __init__(self, folder: Path, fatal: int | None) -> None:
        """Listen, and let the process die just before step ``fatal``."""
        self.folder, self.fatal, self.number = folder, fatal, 0
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "ctypes.dlsym":  # two folders are exchanged
            is_step = arguments[1] == "renameat2"
        elif event == "open":
            path, _, flags = arguments
            is_step = bool(flags & WRITING) and self._is_below(path)
        else:
            is_step = event in STEPS and self._is_below(arguments[0])
        if is_step:
            if self.number == self.fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            self.number += 1

    def _is_below(self, path: object) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        return Path(os.fsdecode(path)).absolute().is_relative_to(self.folder)


def started(
    folder: Path, work: Callable[[], object], fatal: int | None = None
) -> tuple[int, int]:
    """Do some work in a child, which dies just before a step.

    Args:
        folder: Where steps count.
        work: What the child does.
        fatal: Number of the step, from zero; None: it lives.

    Returns:
        The child, and where it tells in the end how many steps there were.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            steps = Steps(folder, fatal)
            work()
            os.write(writer, str(steps.number).encode())
            code = 0
        except FewlabelsError as error:
            print(error, file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    os.close(writer)
    return child, reader


def num_steps(folder: Path, work: Callable[[], object]) -> int:
    """Do some work in a child to its end and return its number of steps."""
    child, reader = started(folder, work)
    if was_killed(child):
        raise RuntimeError("the work was killed by somebody else")
    told = os.read(reader, 20)
    os.close(reader)
    return int(told)


def was_killed(child: int) -> bool:
    """Wait for the end of a child; return whether it was killed."""
    status = os.waitpid(child, 0)[1]
    if status and not os.WIFSIGNALED(status):
        raise RuntimeError("the work failed")
    return os.WIFSIGNALED(status)


def killed_at(step: int, folder: Path, work: Callable[[], object]) -> bool:
    """Do some work in a child that dies just before a step; whether it came to it.

    Args:
        step: Number of the step, from zero.
        folder: Where steps count.
        work: What the child does.

    Returns:
        False if the work was done before that step.
    """
    child, reader = started(folder, work, step)
    os.close(reader)
    return was_killed(child)


def killed_after(seconds: float, folder: Path, work: Callable[[], object]) -> bool:
    """Do some work in a child and kill it after some time; whether it was at work."""
    child, reader = started(folder, work)
    os.close(reader)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return was_killed(child)


@dataclass
class Life:
    """A project, and what its commands have acknowledged."""

    place: Path
    done: list[str] = field(default_factory=list)
    """Commands that came to their end."""
    told: dict[str, str] = field(default_factory=dict)
    """The label of each file that was acknowledged."""

    def __post_init__(self) -> None:
        """Make the images."""
        self.folder, self.images = self.place / "project", self.place / "images"
        self.out, self.table = self.place / "out", self.place / "predictions.csv"
        self.query = self.place / "query.csv"
        self.images.mkdir(parents=True)
        for number in range(NUM_IMAGES):
            pixels = np.random.default_rng(number).integers(0, 256, (8, 8), np.uint8)
            Image.fromarray(pixels).save(self.images / f"{number:02d}.png")

    def do(self, verb: str) -> None:
        """Do what a command does."""
        if verb == "init":
            if (self.folder / "project.json").exists():
                return  # the kill came after the last step that counts
            Project.create(
                self.folder,
                self.images,
                CLASSES,
                budget=12,
                audit=3,
                query=4,
                strategy="random",
                trainer=TRAINER,
            ).close()
            return
        if verb == "predict":
            predict(self.out / "model", self.images).write(self.table)
            return
        with Project.open(self.folder) as project:
            if verb == "ask":
                project.write_query(project.ask(), self.query)
            elif verb == "tell":
                project.tell(self.query, annotator="ann")
            elif verb == "train":
                project.train()
            elif verb == "status":
                project.status()
            else:
                project.export(
                    self.out,
                    as_is=True,
                    also=lambda new: write_project_report(new / "report.html", project),
                )

    def acknowledge(self, verb: str) -> None:
        """Note that a command came to its end; answer what is asked."""
        self.done.append(verb)
        if verb == "tell":
            self.told |= answers(self.query)
        if verb == "ask":
            fill(self.query)

    def faults(self, verb: str) -> list[str]:
        """Compare the project with what was acknowledged; ``verb`` may be half done."""
        if "init" not in self.done and not (self.folder / "project.json").exists():
            return []
        wrong = []
        with Project.open(self.folder) as project:
            snapshot, records = project.snapshot(), project.records()
            given = list(project.store.events())
        labels = {
            one.item.rpartition("@")[0]: CLASSES[one.class_number or 0]
            for one in snapshot.verdicts
        }
        half = self.told | (answers(self.query) if verb == "tell" else {})
        if labels not in (self.told, half):
            wrong.append(f"{len(labels)} labels, not {len(self.told)} or {len(half)}")
        if sum(event.kind in LABELS for event in given) != len(labels):
            wrong.append("a label is there twice")
        if len(snapshot.items) != NUM_IMAGES:
            wrong.append(f"{len(snapshot.items)} images")
        for what, number, by in (
            ("rounds", len(snapshot.rounds), "ask"),
            ("models", len(records), "train"),
        ):
            before = self.done.count(by)
            if number not in {before, before + (verb == by)}:
                wrong.append(f"{number} {what}, not {before}")
        return wrong + self._export_faults()

    def _export_faults(self) -> list[str]:
        """Look at what other programs would find."""
        wrong = []
        if "export" in self.done or self.out.exists():
            try:
                check_replaceable(self.out)
                known = json.loads((self.out / "manifest.json").read_text())["sha256"]
                if missing := [one for one in known if not (self.out / one).exists()]:
                    wrong.append(f"an export without {missing}")
                predict(self.out / "model", self.images)
            except (FewlabelsError, OSError) as error:
                wrong.append(f"an export that is none: {error}")
        if "predict" in self.done or self.table.exists():
            with self.table.open() as file:
                if (num_rows := len(list(csv.DictReader(file)))) != NUM_IMAGES:
                    wrong.append(f"{num_rows} predictions")
        return wrong

    def outcome(self) -> dict[str, Any]:
        """Return what has to be the same with and without kills."""
        with Project.open(self.folder) as project:
            rounds = [[one.item for one in r.items] for r in project.store.rounds()]
            names = [record.name for record in project.records()]
        weights = [self.folder / "models" / one / "model.safetensors" for one in names]
        return {
            "rounds": rounds,
            "labels": sorted(self.told.items()),
            "weights": [path.read_bytes() for path in weights],
            "exported": (self.out / "predictions.parquet").read_bytes(),
            "predicted": self.table.read_text(),
        }


def answers(query: Path) -> dict[str, str]:
    """Return the labels in a file of answers."""
    with query.open(newline="") as file:
        rows = csv.DictReader(file)
        return {row["file_name"]: row["label"] for row in rows if row["label"]}


def fill(query: Path) -> None:
    """Write the truth into a file that asks."""
    with query.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["label"] = CLASSES[int(row["file_name"][:2]) % 2]
    with query.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)


@dataclass
class Tally:
    """What the kills came to."""

    wanted: int
    chance: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    """How long a command takes by itself."""
    steps: dict[str, int] = field(default_factory=dict)
    """How often it changes something."""

    def live(self, life: Life, *, num_kills: int, rounds: int) -> None:
        """Lead a life in which each command is killed some times before it is done."""
        for verb in ("init", *VERBS * rounds):
            work = partial(life.do, verb)
            kills = 0
            while kills < num_kills and self.kills.total() < self.wanted:
                if not self._killed(life.place, verb, work):
                    break  # it was done already
                kills += 1
                self.kills[verb] += 1
                self.wrong += [f"{verb}: {one}" for one in life.faults(verb)]
            else:
                begin = time.monotonic()
                num_now = num_steps(life.place, work)  # few, if a kill came late
                self.steps[verb] = max(num_now, self.steps.get(verb, 1))
                self.seconds[verb] = time.monotonic() - begin
            life.acknowledge(verb)
            self.wrong += [f"after {verb}: {one}" for one in life.faults("")]

    def _killed(self, place: Path, verb: str, work: Callable[[], object]) -> bool:
        """Kill a command; whether it was still at work."""
        if self.chance.random() < 0.5:
            moment = self.chance.uniform(0, self.seconds[verb])
            return killed_after(moment, place, work)
        return killed_at(self.chance.randrange(self.steps[verb]), place, work)


def survive(place: Path, wanted: int, seed: int, *, rounds: int = 2) -> dict[str, Any]:
    """Kill so many times and return what came of it.

    Args:
        place: An empty folder.
        wanted: How many kills.
        seed: Seed of their moments.
        rounds: How often a life does each command.

    Returns:
        Figures; ``faults`` lists what was lost, doubled or mixed.
    """
    torch.set_num_threads(1)
    tally = Tally(wanted, random.Random(seed))
    first = Life(place / "first")
    for verb in ("init", *VERBS):  # in this process, which then need not import more
        first.do(verb)
        first.acknowledge(verb)
    whole = Life(place / "whole")
    tally.live(whole, num_kills=0, rounds=rounds)
    expected, lives, num_left = whole.outcome(), 0, 0
    begin = time.monotonic()
    while tally.kills.total() < wanted:
        life = Life(place / f"life-{lives}")
        if lives % 2:
            life.folder.mkdir()  # where a project begins may be there already
        tally.live(life, num_kills=2, rounds=rounds)
        found = life.outcome()
        tally.wrong += [
            f"{what} are not those of a life without kills"
            for what, value in expected.items()
            if found[what] != value
        ]
        num_left += sum(1 for _ in life.place.rglob("*.partial"))
        lives += 1
        print(f"{tally.kills.total()} kills, {len(tally.wrong)} faults", flush=True)
        shutil.rmtree(life.place)
    return {
        "kills": tally.kills.total(),
        "kills of each command": dict(tally.kills),
        "projects": lives,
        "leftovers of killed writers": num_left,
        "faults": tally.wrong,
        "seconds": round(time.monotonic() - begin),
        "seed": seed,
    }


def main() -> None:
    """Kill, go on, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        figures = survive(Path(name).resolve(), arguments.kills, arguments.seed)
    text = json.dumps(figures, indent=1) + "\n"
    print(text)
    if arguments.out:
        replace_text(arguments.out, text)
    sys.exit(bool(figures["faults"]))


if __name__ == "__main__":
    main()
