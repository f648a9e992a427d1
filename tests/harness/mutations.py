"""Damage files of a run and of a project: it is noticed, or changes nothing.

A small run and a small project are made once. Then, again and again, a copy is taken,
one of its files is changed at random (a bit, a digit, a byte, an end, two lines, a
stretch of bytes), and the copy is used as its owner would. It may be refused with a
sentence, or all may come out as it was; of ``project.json``, which people edit, a
warning may say what was changed. It must never come out otherwise without a word, nor
with a traceback.

Run ``python -m tests.harness.mutations``; 300 mutations take some minutes.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from fewlabels.data import load
from fewlabels.errors import FewlabelsError, SettingsChangedWarning
from fewlabels.experiments.runs import RunFolder, execute
from fewlabels.experiments.settings import Choice, RunSettings
from fewlabels.projects import Project, predict

REFUSED, SAME, TOLD = "refused with a sentence", "the same", "told"
SILENT, CRASHED = "silently different", "crashed"
_SETTINGS = RunSettings(
    data=Choice(name="digits"),
    strategy=Choice(name="margin"),
    trainer=Choice(name="supervised", options={"steps": 6, "checkpoint_every": 2}),
    start=10,
    query=5,
    budget=20,
)
_DIGITS = b"0123456789"
_LEFT_OUT = (".html", ".lock", "-lock", ".png", ".csv", ".md")


@dataclass(frozen=True)
class Subject:
    """Something with files that people go on with later."""

    name: str
    folder: Path
    """Its files; they are copied, and stay as they are."""
    use: Callable[[Path], Any]
    """Uses a copy, and returns all that came of it."""


@dataclass(frozen=True)
class Outcome:
    """What came of one mutation."""

    subject: str
    file: str
    mutation: str
    verdict: str


# --------------------------------------------------------------------------- subjects


def subjects(place: Path) -> Iterator[Subject]:
    """Make what is damaged: a finished run, one in its last round, a project.

    Args:
        place: An empty folder.

    Yields:
        Each of them.
    """
    finished = place / "run"
    use_run(finished)
    yield Subject("finished run", finished, use_run)
    begun = place / "begun"
    shutil.copytree(finished, begun)
    rounds = RunFolder(begun).rounds_file
    *lines, _ = rounds.read_bytes().splitlines(keepends=True)
    rounds.write_bytes(b"".join(lines))
    yield Subject("run in its last round", begun, use_run)
    yield Subject("project", _project(place), use_project)


def use_run(path: Path) -> Any:
    """Give the same command again; return what the run came to."""
    for _ in execute(_SETTINGS, path, load("digits")):
        pass
    folder = RunFolder(path)
    lines = [line.model_dump() for line in folder.lines()]
    return folder.start(), lines


def use_project(path: Path) -> Any:
    """Look at a project, train, and use its models; return all that was seen."""
    with Project.open(path) as project:
        snapshot = project.snapshot()
        trained = project.train()
        pool = snapshot.pool(project.images(snapshot))
        everything = torch.arange(len(pool))
        classifiers = [project.classifier(one, pool) for one in project.records()]
        logits = [one.outputs(pool.images, everything).logits for one in classifiers]
        models = [project.models_folder / one.name for one in project.records()]
        return (
            project.settings,
            snapshot.classes,
            [(one.id, one.path, one.group) for one in snapshot.items],
            snapshot.known,
            snapshot.audit,
            [(one.step, one.items, one.options) for one in snapshot.rounds],
            list(project.store.events()),
            trained.is_new,
            project.records(),
            [one.tolist() for one in logits],
            [predict(one, project.images_folder).labels for one in models],
        )


def _project(place: Path) -> Path:
    """Make a project with two rounds of labels and two models."""
    images = place / "images"
    images.mkdir()
    for number in range(30):
        pixels = [(number * 7 + 31 * i) % 256 for i in range(64)]
        Image.frombytes("L", (8, 8), bytes(pixels)).save(images / f"{number:02d}.png")
    folder = place / "project"
    trainer = Choice(name="supervised", options={"steps": 4})
    options: dict[str, Any] = {"budget": 16, "audit": 4, "query": 4, "seed": 0}
    with Project.create(
        folder, images, ("even", "odd"), strategy="random", trainer=trainer, **options
    ) as project:
        for _ in range(2):
            asked = project.ask()
            path_of = {item.id: item.path for item in project.store.items()}
            rows = ["file_name,label"]
            for one in asked.items:
                name = path_of[one.item]
                rows.append(f"{name},{('even', 'odd')[int(Path(name).stem) % 2]}")
            told = place / "answers.csv"
            told.write_text("\n".join(rows) + "\n")
            project.tell(told, annotator="ann")
            project.train()
    return folder


# -------------------------------------------------------------------------- mutations


def mutated(content: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Change some bytes.

    Args:
        content: At least one byte.
        chance: Decides how.

    Returns:
        What was done, in a few words, and the bytes.
    """
    kinds = [_flip, _delete, _cut, _overwrite]
    if not content.startswith(b"SQLite") and b"\n" in content:
        kinds += [_digit, _swap, _digit]
    return chance.choice(kinds)(content, chance)


def _flip(content: bytes, chance: random.Random) -> tuple[str, bytes]:
    at, bit = chance.randrange(len(content)), chance.randrange(8)
    changed = bytes([content[at] ^ 1 << bit])
    return f"bit {bit} of byte {at}", content[:at] + changed + content[at + 1 :]


def _delete(content: bytes, chance: random.Random) -> tuple[str, bytes]:
    at = chance.randrange(len(content))
    return f"byte {at} left out", content[:at] + content[at + 1 :]


def _cut(content: bytes, chance: random.Random) -> tuple[str, bytes]:
    at = chance.randrange(len(content))
    return f"cut at {at}", content[:at]


def _overwrite(content: bytes, chance: random.Random) -> tuple[str, bytes]:
    at, length = chance.randrange(len(content)), chance.choice((1, 2, 16, 512))
    noise = chance.randbytes(len(content[at : at + length]))
    end = content[at + length :]
    return f"{length} bytes at {at} overwritten", content[:at] + noise + end


def _digit(content: bytes, chance: random.Random) -> tuple[str, bytes]:
    places = [at for at, byte in enumerate(content) if byte in _DIGITS]
    if not places:
        return _flip(content, chance)
    at = chance.choice(places)
    digit = bytes([chance.choice(_DIGITS.replace(content[at : at + 1], b""))])
    return f"another digit at {at}", content[:at] + digit + content[at + 1 :]


def _swap(content: bytes, chance: random.Random) -> tuple[str, bytes]:
    lines = content.splitlines(keepends=True)
    if len(lines) < 2:
        return _flip(content, chance)
    one, other = chance.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return f"lines {one} and {other} swapped", b"".join(lines)


# ------------------------------------------------------------------------- experiment


def files_of(folder: Path) -> list[Path]:
    """Return the files that may decide something, relative to their folder."""
    found = (one for one in folder.rglob("*") if one.is_file() and one.stat().st_size)
    names = sorted(one.relative_to(folder) for one in found)
    return [one for one in names if not one.name.endswith(_LEFT_OUT)]


def outcomes(place: Path, number: int, seed: int) -> Iterator[Outcome]:
    """Mutate again and again.

    Args:
        place: An empty folder to work in.
        number: How many mutations, shared among the subjects.
        seed: Decides which.

    Yields:
        What came of each.
    """
    chance = random.Random(seed)
    known = [(one, one.use(_copied(one, place))) for one in subjects(place)]
    for turn in range(number):
        subject, expected = known[turn % len(known)]
        copy = _copied(subject, place)
        file = chance.choice(files_of(copy))
        mutation, content = mutated((copy / file).read_bytes(), chance)
        if content == (copy / file).read_bytes():
            continue
        (copy / file).write_bytes(content)
        verdict = SAME
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                if subject.use(copy) != expected:
                    verdict = SILENT
            if any(one.category is SettingsChangedWarning for one in caught):
                verdict = TOLD  # people may edit the settings of a project
        except FewlabelsError:
            verdict = REFUSED
        except Exception:  # noqa: BLE001 - whatever it is, it is no sentence
            verdict = CRASHED
        yield Outcome(subject.name, str(file), mutation, verdict)


def _copied(subject: Subject, place: Path) -> Path:
    """Return a fresh copy, at the same distance from its images."""
    copy = place / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(subject.folder, copy)
    return copy


def main() -> None:
    """Mutate, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write every outcome here, as JSON")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        found = list(outcomes(Path(place), given.number, given.seed))
    for (subject, verdict), count in sorted(
        Counter((one.subject, one.verdict) for one in found).items()
    ):
        print(f"{subject}: {count} {verdict}")
    for one in found:
        if one.verdict in {SILENT, CRASHED}:
            print(f"{one.verdict}: {one.subject}, {one.file}, {one.mutation}")
    if given.out:
        lines = [f"{json.dumps(asdict(one))}\n" for one in found]
        given.out.write_text("".join(lines))
    sys.exit(any(one.verdict in {SILENT, CRASHED} for one in found))


if __name__ == "__main__":
    main()
