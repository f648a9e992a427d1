"""Measure whether the default strategy leads with the default encoder, too.

The study of practical budgets (benchmarks/practical.py) has features of
EfficientNet-Lite0; the default encoder is Lite2. Ten fresh pools each of CIFAR-10 and
of CIFAR-100 in its 20 groups, the learner ``blend``, no label at first, 20, 20, 40, 40
and 40 asked for: random labels and ``variance-reduction``, paired by pool.

``FEWLABELS_DATA=DIR python -m benchmarks.default_encoder`` does what the record lacks;
about three quarters of a core-hour. Writes benchmarks/results/default_encoder.json and
prints leads with 95 % intervals.
"""

import argparse
import json
from pathlib import Path

import torch
from benchmarks.practical import SOURCES
from benchmarks.study import RESULTS

import fewlabels
from fewlabels import data, files
from fewlabels.experiments.evaluation import paired_tests
from fewlabels.models.encoders import ENCODER
from fewlabels.training import resolve

RECORD = RESULTS / "default_encoder.json"
POOLS = range(1400, 1410)
STRATEGIES = "random", "variance-reduction"
QUERIES = [20, 20, 40, 40, 40]


def main() -> None:
    """Run what the record lacks, and print the leads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=Path, default=RECORD)
    path = parser.parse_args().record
    torch.set_num_threads(1)
    options = {"encoder": ENCODER, "encoder_options": {"size": 160}}
    trainer = resolve("frozen-blend", options)
    record = json.loads(path.read_text("utf-8")) if path.exists() else {"runs": {}}
    sources = [source for source in SOURCES if source.name in {"cifar10", "20 groups"}]
    for number in POOLS:
        for source in sources:
            runs = (
                record["runs"].setdefault(source.name, {}).setdefault(str(number), {})
            )
            if len(runs) == len(STRATEGIES):
                continue
            choice = source.pool(number)
            pool = data.load(choice.name, **choice.options)
            for strategy in STRATEGIES:
                rounds = fewlabels.run(
                    pool,
                    strategy=strategy,
                    trainer=trainer,
                    start=0,
                    query=QUERIES,
                    budget=sum(QUERIES),
                    seed=number,
                )
                runs[strategy] = {
                    str(step.num_labeled): round(100 * step.accuracy, 2)
                    for step in rounds
                    if step.num_labeled
                }
            files.replace_text(path, json.dumps(record, indent=1) + "\n")
            print(source.name, number, runs, flush=True)
    leads = record["leads"] = dict[str, list[float]]()
    for name, pools in record["runs"].items():
        for labels in pools[str(POOLS[0])]["random"]:
            values = {
                s: [runs[s][labels] for runs in pools.values()] for s in STRATEGIES
            }
            [test] = paired_tests(values, against="random")
            lead = [round(n, 1) for n in (test.difference, test.low, test.high)]
            leads[f"{name}, {labels} labels"] = lead
    files.replace_text(path, json.dumps(record, indent=1) + "\n")
    print(json.dumps(leads, indent=1))


if __name__ == "__main__":
    main()
