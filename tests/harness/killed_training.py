"""Kill a training twenty times and let it go on: the weights must be the same bits.

A child process trains FixMatch with DARP on digits in a workspace. After a random
number of steps it gets SIGKILL, and the same program starts again; twenty times. Every
step that is done is counted. In the end the weights are compared with those of an
uninterrupted training.

Run ``python tests/harness/killed_training.py``; three minutes or so.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import fewlabels
from fewlabels import rng, training
from fewlabels.experiments.acquisition import check_plan, hidden, starting_answers
from fewlabels.pool import Pool
from fewlabels.training import loop
from fewlabels.training.learner import Minibatch

MODEL = "model.safetensors"
MOST = 1.3
LEAST_RESUMED = 15


def child(folder: Path, log: Path, name: str, steps: int, save_every: float) -> None:
    """Train in a folder, writing the number of each step to a file beforehand."""
    torch.set_num_threads(1)
    advance = loop.Stepper.advance
    with log.open("a") as file:

        def counted(self: loop.Stepper, step: int, minibatch: Minibatch) -> loop.Loss:
            file.write(f"{step}\n")
            file.flush()
            return advance(self, step, minibatch)

        # To count the steps of a training that is not told about it.
        loop.Stepper.advance = counted  # type: ignore[method-assign]
        options = {"steps": steps, "save_every": save_every, "accelerator": "cpu"}
        trainer = training.resolve(name, options)
        trainer.fit(digits(), rng.stream(0, "train", 0), workspace=folder)


def digits() -> Pool:
    """Return the digits with thirty labels."""
    pool = fewlabels.load("digits")
    check_plan(pool, start=30, query=1, budget=30)
    trainer = training.resolve("supervised")
    return hidden(pool, 30).with_answers(starting_answers(pool, 30, 0, trainer=trainer))


def lines(log: Path) -> list[int]:
    """Return the numbers of the steps done so far."""
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def started(arguments: argparse.Namespace, folder: Path) -> subprocess.Popen[bytes]:
    """Start the child."""
    words = [
        sys.executable, __file__, "--child", str(folder),
        "--trainer", arguments.trainer,
        "--steps", str(arguments.steps), "--save-every", str(arguments.save_every),
    ]  # fmt: skip
    return subprocess.Popen(words)


def killed(arguments: argparse.Namespace, folder: Path, steps: int) -> bool:
    """Run the child for some steps, kill it at once; whether it was still at work."""
    log = folder / "steps.txt"
    until = len(lines(log)) + steps
    process = started(arguments, folder)
    while len(lines(log)) < until and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def main() -> None:
    """Kill, go on, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--trainer", default="fixmatch-darp")
    parser.add_argument("--save-every", type=float, default=0.3, help="seconds")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        log = arguments.child / "steps.txt"
        options = (arguments.trainer, arguments.steps, arguments.save_every)
        child(arguments.child, log, *options)
        return
    with tempfile.TemporaryDirectory() as name:
        check(arguments, Path(name))


def check(arguments: argparse.Namespace, place: Path) -> None:
    """Train twice, once with kills, and print what is asked for."""
    whole, broken = place / "whole", place / "broken"
    whole.mkdir()
    broken.mkdir()
    assert started(arguments, whole).wait() == 0
    moments = random.Random(arguments.seed)
    longest = int(1.6 * arguments.steps / (arguments.kills + 1))
    resumed_from = []
    for number in range(arguments.kills):
        before = len(lines(broken / "steps.txt"))
        assert killed(arguments, broken, moments.randint(0, longest)), "it was done"
        done = lines(broken / "steps.txt")
        first = done[before] if len(done) > before else 0
        print(f"kill {number + 1:2}: from step {first:4} to {done[-1]:4}", flush=True)
        resumed_from += [first] if number else []
    before = len(lines(broken / "steps.txt"))
    assert started(arguments, broken).wait() == 0
    done = lines(broken / "steps.txt")
    resumed_from.append(done[before])
    is_same = (whole / MODEL).read_bytes() == (broken / MODEL).read_bytes()
    past = sum(step > 0 for step in resumed_from)
    ratio = len(done) / arguments.steps
    print(f"same bits: {is_same}")
    print(
        f"resumed past step 0: {past} of {arguments.kills} (at least {LEAST_RESUMED})"
    )
    print(
        f"steps executed: {len(done)}, {ratio:.3f} x {arguments.steps} (at most {MOST})"
    )
    met = is_same and past >= LEAST_RESUMED and ratio <= MOST
    print("met" if met else "MISSED")
    sys.exit(not met)


if __name__ == "__main__":
    main()
