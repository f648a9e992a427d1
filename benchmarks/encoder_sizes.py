"""The built-in encoders and the sizes of their inputs: accuracy and time.

One pool of 4,000 images and 2,000 test images of CIFAR-10, and one of CIFAR-100 in its
20 groups (as in benchmarks.practical); the learner ``blend`` on 40, 160 and 640 random
labels, ten times, the same labels for all encoders. CIFAR's images have 32 pixels: a
larger input only makes them larger. Photographs with more detail may gain more.

Time is processor time for an image on one thread: the least of three turns, in which
all encoders embed 32 images one after another.

``FEWLABELS_DATA=DIR python -m benchmarks.encoder_sizes`` does what the record lacks;
about a quarter of a core-hour. Writes benchmarks/results/encoder_sizes.json.

``python -m benchmarks.encoder_sizes --recommended`` measures the encoders with short
names, whose weights do not change the time and are random here, and writes
benchmarks/results/encoder_times.json.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from benchmarks.practical import SOURCES, Source
from benchmarks.study import RESULTS
from tests.harness import torchvision

from fewlabels import data, files, rng, training
from fewlabels.experiments.acquisition import hidden
from fewlabels.experiments.evaluation import accuracy
from fewlabels.models import encoders
from fewlabels.models.catalog import RECOMMENDED
from fewlabels.pool import Answers, Pool

RECORD, TIMES = RESULTS / "encoder_sizes.json", RESULTS / "encoder_times.json"
LABELS = (40, 160, 640)
DRAWS = 10
POOL = 1300
"""Its number; the study and the other benchmarks drew others."""
COMPARED = (
    ("efficientnet-lite0", 160),
    ("efficientnet-lite2", 160),
    ("efficientnet-lite0", 224),
    ("efficientnet-lite0", 96),
    ("efficientnet-lite2", 224),
)
TIMED, TURNS = 32, 3


def loaded(source: Source) -> Pool:
    """Return the pool of a data set."""
    choice = source.pool(POOL)
    return data.load(choice.name, **choice.options)


def accuracies(pool: Pool, name: str, size: int) -> dict[str, list[float]]:
    """Return the accuracies with an encoder, by number of labels."""
    options = {"encoder": name, "encoder_options": {"size": size}}
    trainer = training.resolve("frozen-blend", options)
    found: dict[str, list[float]] = {str(number): [] for number in LABELS}
    for draw in range(DRAWS):
        order = torch.randperm(len(pool), generator=rng.stream(draw, "random labels"))
        for number in LABELS:
            items = order[:number]
            answers = Answers(items, pool.labels[items])
            labeled = hidden(pool, number).with_answers(answers)
            fitted = trainer.fit(labeled, rng.stream(0, "train"))
            found[str(number)].append(round(100 * accuracy(fitted, pool.test), 2))
    return found


def milliseconds(pool: Pool) -> dict[str, float]:
    """Return the processor time for an image, by encoder and size."""
    images = pool.images.read(torch.arange(TIMED))
    least: dict[str, float] = {}
    for _ in range(TURNS):
        for name, size in COMPARED:
            encoder = encoders.resolve(name, size=size)
            begun = time.process_time()
            encoder.embed(images)
            spent = 1000 * (time.process_time() - begun) / TIMED
            key = f"{name}, {size}"
            least[key] = min(least.get(key, spent), spent)
    return {key: round(spent, 2) for key, spent in least.items()}


def times_of_recommended() -> dict[str, float]:
    """Return the processor time for an image, in milliseconds, by short name.

    The least of two turns of eight images; of two, where an image takes a second.
    """
    with torchvision.emptied():
        import timm
    quickest = "efficientnet-lite0"
    networks = {quickest: encoders.resolve(quickest, size=160).module}
    for name, facts in RECOMMENDED.items():
        architecture = facts.source.removeprefix("timm/").partition(".")[0]
        if name == "bioclip2":
            architecture = "vit_large_patch14_clip_224"
        given = {"dynamic_img_size": True} if name.startswith("dinov2") else {}
        if facts.source:
            network = timm.create_model(architecture, num_classes=0, **given)
            networks[name] = network.eval()
    least: dict[str, float] = {}
    for _ in range(2):
        for name, network in networks.items():
            side, number = RECOMMENDED[name].side, 2 if name == "bioclip2" else 8
            images = torch.zeros(number, 3, side, side)
            begun = time.process_time()
            with torch.no_grad():
                network(images)
            spent = 1000 * (time.process_time() - begun) / number
            least[name] = min(least.get(name, spent), spent)
    return {name: round(spent, 1) for name, spent in least.items()}


def main() -> None:
    """Measure what the record lacks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--recommended", action="store_true")
    arguments = parser.parse_args()
    path = arguments.record
    torch.set_num_threads(1)
    if arguments.recommended:
        found = {"milliseconds an image": times_of_recommended()}
        TIMES.write_text(json.dumps(found, indent=1) + "\n")
        return
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    sources = [source for source in SOURCES if source.name in {"cifar10", "20 groups"}]
    pools = {source.name: loaded(source) for source in sources}
    if "milliseconds an image" not in record:
        record["milliseconds an image"] = milliseconds(pools["cifar10"])
        print(record, flush=True)
    for source, pool in pools.items():
        for name, size in COMPARED:
            key, own = f"{name}, {size}", record.setdefault(source, {})
            if key in own:
                continue
            begun = time.process_time()
            own[key] = accuracies(pool, name, size)
            seconds = time.process_time() - begun
            means = {n: sum(a) / len(a) for n, a in own[key].items()}
            print(f"{source}, {key}: {means}, {seconds:.0f} s", flush=True)
            with files.replace_file(path) as partial:
                partial.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
