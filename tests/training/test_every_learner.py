"""Every learner of the table that takes steps learns, and can be stopped anywhere."""

import multiprocessing
import os
import random
import signal
import time
from functools import cache

import pytest
import torch
from tests.training.conftest import NUM_ITEMS, changed, tiny_pool
from tests.training.test_resume import StoppedError, stop_before  # noqa: F401
from tests.training.test_workspace import fit, same

from fewlabels import rng
from fewlabels.training import loop, make, names, options

NAMES = [name for name in names() if "steps" in options(name)]
FROZEN = [name for name in NAMES if name.startswith("frozen-")]
FEW = [name for name in NAMES if not name.endswith("-da")]
FEW = [name for name in FEW if (name in FROZEN) == name.endswith("-darp")]
"""Each learner over images, and with a memory besides its own over features."""


def trainer_of(name, steps, folder):
    """Return a training that is over in a moment and saves its state in each step."""
    wanted = {
        "steps": steps,
        "minibatch_size": 4,
        "mu": 2,
        "save_every": 0.0,
        "threshold": 0.6,
        "ramp_up": 0.5,
        "consistency_weight": 1.0,
        "ema_decay": 0.8,
        "warmup": 0.2,
        "refine_every": 3,
        "encoder": "tests.models.toy:Means",
        "cache": str(folder),
    }
    return make(name, **{n: wanted[n] for n in options(name) if n in wanted})


@cache
def pool():
    return tiny_pool(shape=(1, 8, 8))


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    return tmp_path_factory.mktemp("features")


@pytest.mark.parametrize("name", FEW)
def test_it_goes_on_where_it_was(tmp_path, name, features, stop_before):  # noqa: F811
    done, stop_at = stop_before
    trainer = trainer_of(name, 6, features)
    expected = fit(None, trainer, pool())
    stop_at(4)
    with pytest.raises(StoppedError):
        fit(tmp_path, trainer, pool())
    done.clear()
    assert same(fit(tmp_path, trainer, pool()), expected)
    assert done == [3, 4, 5]


@pytest.mark.parametrize(
    "name", [n for n in FROZEN if not n.endswith(("-da", "-darp"))]
)
def test_it_learns(name, features):
    trainer = trainer_of(name, 40, features)
    outputs = fit(None, trainer, pool()).outputs(pool().images, torch.arange(NUM_ITEMS))
    found = outputs.logits.argmax(dim=1)
    assert (found == torch.arange(NUM_ITEMS) % 2).float().mean() > 0.9


def trained(name, folder, steps, save_every=0.0):
    """Train, writing the number of each step to a file beforehand."""
    torch.set_num_threads(1)
    advance = loop.Stepper.advance
    with (folder / "steps.txt").open("a") as file:

        def counted(self, step, minibatch):
            file.write(f"{step}\n")
            file.flush()
            return advance(self, step, minibatch)

        loop.Stepper.advance = counted
        trainer = trainer_of(name, steps, folder.parent / "features")
        trainer = changed(trainer, save_every=save_every)
        trainer.fit(pool(), rng.stream(0, "train"), workspace=folder)


def lines(folder):
    log = folder / "steps.txt"
    return log.read_text().split() if log.exists() else []


def killed(context, name, folder, steps, after):
    """Kill a process that trains, once it has begun some steps."""
    until = len(lines(folder)) + after
    process = context.Process(target=trained, args=(name, folder, steps))
    process.start()
    while len(lines(folder)) < until and process.is_alive():
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_it_survives_being_killed_five_times(tmp_path, name):
    """SIGKILL at five moments; what is kept has the bits of an untroubled training."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "lightning_fabric"])
    steps, moments = 30, random.Random(name)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    first_steps = []
    for _ in range(5):
        begun = len(lines(broken))
        killed(context, name, broken, steps, moments.randint(3, 6))
        first_steps.append(int(lines(broken)[begun]))
    for folder, save_every in ((whole, 1e9), (broken, 0.0)):
        arguments = (name, folder, steps, save_every)
        process = context.Process(target=trained, args=arguments)
        process.start()
        process.join()
        assert process.exitcode == 0
    assert lines(whole) == [str(step) for step in range(steps)]
    assert first_steps[0] == 0 < first_steps[-1]
    kept = [(folder / "model.safetensors").read_bytes() for folder in (whole, broken)]
    assert kept[0] == kept[1]
