"""FixMatch against supervised training and label spreading, on thirty digits.

One random label per class, then twenty at random; accuracy on the 500 test digits. The
two trainers share network, weak views, steps, averaging, initial weights and labeled
minibatches, so that the consistency term is all that differs. Label spreading
(scikit-learn) is reported with the setting that is best on these very test images: in
its favor. Defaults of FixMatch were chosen on parts of the pool, with other seeds.

Run ``python benchmarks/digits_ssl.py``; what is in the output file is not run again.
"""

import argparse
import json
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from sklearn.semi_supervised import LabelSpreading

import fewlabels
from fewlabels import rng, training
from fewlabels.evaluation import accuracy
from fewlabels.files import replace_text
from fewlabels.loop import hidden
from fewlabels.pool import Answers, Images, Pool, Split

NUM_RANDOM = 20
MARGIN = 8.0
NEIGHBORS = (3, 5, 7, 10, 15)
GAMMAS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
KERNELS: list[dict[str, Any]] = [
    *({"kernel": "knn", "n_neighbors": number} for number in NEIGHBORS),
    *({"kernel": "rbf", "gamma": gamma} for gamma in GAMMAS),
]
SPREADING = [{**kernel, "alpha": alpha} for kernel in KERNELS for alpha in (0.2, 0.8)]


def labeled_pool(pool: Pool, seed: int) -> Pool:
    """Return the pool with one label per class and twenty more, all at random."""
    order = torch.randperm(len(pool), generator=rng.stream(seed, "digits labels"))
    classes = pool.labels[order]
    firsts = torch.stack(
        [order[classes == number][0] for number in range(pool.num_classes)]
    )
    others = order[~torch.isin(order, firsts)][:NUM_RANDOM]
    indices = torch.cat([firsts, others])
    known = Answers(indices, pool.labels[indices])
    return hidden(pool, len(indices)).with_answers(known)


def spread(setting: Mapping[str, Any], pool: Pool, test: Split) -> float:
    """Spread labels over the pool and return the accuracy on the test split."""
    model = LabelSpreading(max_iter=1000, **setting)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unreached items under a narrow kernel
        model.fit(pixels(pool.images), pool.labels.numpy())
        found = torch.from_numpy(model.predict(pixels(test.images)))
    return float((found == test.labels).double().mean())


def pixels(images: Images) -> Any:
    """Return images as rows of numbers from 0 to 1."""
    return images.read(torch.arange(len(images))).flatten(1).numpy() / 255


def measured(seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return all figures of one seed."""
    whole = fewlabels.load("digits")
    assert whole.test is not None
    pool = labeled_pool(whole, seed)
    shares: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for name in ("fixmatch", "supervised"):
        started = time.perf_counter()
        trainer = training.resolve(name, options)
        classifier = trainer.fit(pool, rng.stream(seed, "train", 0))
        seconds[name] = time.perf_counter() - started
        shares[name] = accuracy(classifier, whole.test)
    for setting in SPREADING:
        shares[json.dumps(setting)] = spread(setting, pool, whole.test)
    percent = {name: 100 * share for name, share in shares.items()}
    return {"accuracy": percent, "seconds": seconds}


def summary(runs: Mapping[str, Any]) -> str:
    """Return the table, and whether the target is met."""
    methods = next(iter(runs.values()))["accuracy"]
    means = {m: mean(run["accuracy"][m] for run in runs.values()) for m in methods}
    best = max((json.dumps(setting) for setting in SPREADING), key=means.__getitem__)
    names = {"fixmatch": "FixMatch", "supervised": "supervised", best: "LabelSpreading"}
    lines = [f"Digits, 30 labels, 500 test images, {len(runs)} seeds", ""]
    for method, name in names.items():
        values = [run["accuracy"][method] for run in runs.values()]
        spread_of = stdev(values) if len(values) > 1 else float("nan")
        seconds = [run["seconds"].get(method) for run in runs.values()]
        cost = f"{mean(seconds):6.1f} s" if None not in seconds else ""
        each = " ".join(f"{value:5.1f}" for value in values)
        lines.append(
            f"{name:15} {means[method]:5.1f} ± {spread_of:3.1f} {cost:9} {each}"
        )
    lead = means["fixmatch"] - means["supervised"]
    is_met = lead >= MARGIN and means["fixmatch"] > means[best]
    lines += [
        "",
        f"LabelSpreading's best setting: {best}",
        f"FixMatch leads supervised training by {lead:.1f} points (target {MARGIN:g}) "
        f"and LabelSpreading by {means['fixmatch'] - means[best]:.1f} (target 0): "
        f"{'met' if is_met else 'MISSED'}.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Run the seeds that the output file lacks, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--steps", type=int, help="steps of both trainers")
    parser.add_argument("--out", type=Path, default=Path("digits_ssl.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    options = {} if arguments.steps is None else {"steps": arguments.steps}
    settings = {
        "settings": repr([training.resolve(n, options) for n in training.names()])
    }
    record = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    if record.get("settings") != settings["settings"]:
        record = {**settings, "runs": {}}  # figures of other settings do not mix
    for seed in arguments.seeds:
        if str(seed) not in record["runs"]:
            record["runs"][str(seed)] = measured(seed, options)
            replace_text(arguments.out, json.dumps(record, indent=1))
    print(summary({str(seed): record["runs"][str(seed)] for seed in arguments.seeds}))


if __name__ == "__main__":
    main()
