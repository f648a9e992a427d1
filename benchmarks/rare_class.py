"""How many images of a rare class are found per 50 looks?

    FEWLABELS_DATA=DIR OMP_NUM_THREADS=1 python -m benchmarks.rare_class

In each of 20 pools of 4,000 images of CIFAR-10, seen by EfficientNet-Lite0 at 160
pixels, one class (each in turn) has 2 % of the images and the others are even. Known
are five images of it and the labels of 60 random images. Somebody looks at three grids
of 50 images. Those of the class get its label, the others none; they are not shown
again. ``blend`` learns anew after each grid. Images are shown

* at random;
* nearest first: by the cosine of their features to the nearest known one of the class;
* likeliest first: by the probability that ``blend`` gives to the class;
* mixed: by that probability times the distance, one less the cosine, from the nearest
  known one, or its root.

Recorded are the images found so far after each grid and, in the end, the recall of the
class on 200 test images. Three minutes on one core once features are stored.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.confirmed import NUM_CLASSES, Source, fitted, recalls
from numpy.typing import NDArray
from torch import Tensor

from fewlabels.pool import Answers, Pool

RESULT = Path(__file__).parent / "results" / "rare_class.json"
NUM_SEEDS, NUM_IMAGES, NUM_RARE, NUM_KNOWN, NUM_RANDOM = 20, 4_000, 80, 5, 60
LOOKS, NUM_GRIDS = 50, 3
POWERS = {
    "likeliest first": 0.0,
    "mixed, root of the distance": 0.5,
    "mixed, distance": 1.0,
}
RULES = ("random", "nearest first", *POWERS)

Floats = NDArray[np.float64]


def scores(rule: str, pool: Pool, rare: int, draws: np.random.Generator) -> Floats:
    """Return numbers by which all images are ordered, the largest being shown first."""
    if rule == "random":
        return draws.random(len(pool))
    rows: Tensor = pool.images.read(torch.arange(len(pool)))
    rows = torch.nn.functional.normalize(rows - rows.mean(dim=0))
    near = (rows @ rows[pool.labels == rare].T).amax(dim=1).double().numpy()
    if rule == "nearest first":
        return np.asarray(near)
    logits = fitted(pool).outputs(pool.images, torch.arange(len(pool))).logits
    logs = logits.double().log_softmax(dim=1)[:, rare].numpy()
    return np.asarray(logs + POWERS[rule] * np.log(np.maximum(1 - near, 1e-6)))


def hunted(
    rule: str, pool: Pool, truth: Tensor, rare: int, seed: int
) -> tuple[list[int], float]:
    """Return how many images were found after each grid, and the recall in the end."""
    draws, found = np.random.default_rng([seed, 1]), [0]
    for _ in range(NUM_GRIDS):
        free = pool.candidates.numpy()
        order = np.argsort(-scores(rule, pool, rare, draws)[free], kind="stable")
        shown = torch.from_numpy(free[order[:LOOKS]])
        is_rare = truth[shown] == rare
        own = shown[is_rare]
        pool = pool.with_answers(Answers(own, truth[own], skipped=shown[~is_rare]))
        found.append(found[-1] + len(own))
    return found[1:], float(recalls(fitted(pool), pool)[rare])


def main() -> None:
    """Measure all pools, writing the record after each."""
    torch.set_num_threads(1)
    source = Source()
    finds: dict[str, list[list[int]]] = {rule: [] for rule in RULES}
    ends: dict[str, list[float]] = {rule: [] for rule in RULES}
    for seed in range(NUM_SEEDS):
        rare = seed % NUM_CLASSES
        sizes = [round((NUM_IMAGES - NUM_RARE) / (NUM_CLASSES - 1))] * NUM_CLASSES
        sizes[rare] = NUM_RARE
        pool, truth = source.pool(sizes, 1000 + seed)
        known = torch.nonzero(truth == rare).flatten()[:NUM_KNOWN]  # a random order
        pool = pool.with_answers(Answers(known, truth[known]))
        some = pool.candidates[:NUM_RANDOM]
        pool = pool.with_answers(Answers(some, truth[some]))
        for rule in RULES:
            found, recall = hunted(rule, pool, truth, rare, seed)
            finds[rule].append(found)
            ends[rule].append(recall)
        record: dict[str, Any] = {
            "images": NUM_IMAGES,
            "rare": NUM_RARE,
            "seeds": seed + 1,
            "rules": {rule: summary(finds[rule], ends[rule]) for rule in RULES},
        }
        text = json.dumps(record).replace('{"recall"', '\n{"recall"')
        RESULT.write_text(text + "\n", "utf-8")
        print(f"{seed + 1} of {NUM_SEEDS}", flush=True)


def summary(finds: list[list[int]], ends: list[float]) -> dict[str, Any]:
    """Return how many were found in each pool, and the mean recall."""
    looks = [LOOKS * number for number in range(1, NUM_GRIDS + 1)]
    pools = [dict(zip(looks, found, strict=True)) for found in finds]
    return {"recall": round(100 * float(np.mean(ends)), 1), "found": pools}


if __name__ == "__main__":
    main()
