"""Two processes train as one that sees its minibatch in two groups."""

import copy
import os
import pickle
import shutil
import subprocess
import sys
import types
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from lightning_fabric import Fabric
from safetensors.torch import load_file
from tests.training.conftest import tiny_pool

from fewlabels import progress, rng
from fewlabels.errors import TrainingError, UsageError
from fewlabels.models import as_input, checkpoint
from fewlabels.training import devices, loop, resolve
from fewlabels.training.devices import ProcessGroup
from fewlabels.training.loop import averaged, cosine_factor, sgd
from fewlabels.training.training import TrainingTask

STEPS = 5


class Heard:
    """Counts what is told of a training."""

    def __init__(self):
        self.steps, self.told, self.ends = 0, [], 0

    def start(self, task, total, done):
        return 0

    def advance(self, handle, amount):
        self.steps += amount

    def tell(self, step, figures):
        self.told.append(step)

    def finish(self, handle):
        self.ends += 1


class Group(ProcessGroup):
    """One of the two groups of a minibatch, in a single process."""

    def __init__(self, number):
        super().__init__(Fabric(accelerator="cpu"))
        object.__setattr__(self, "number", number)

    @property
    def rank(self):
        return self.number

    @property
    def size(self):
        return 2


def task_of(trainer, pool):
    key = rng.fork(rng.stream(0, "train"))
    return TrainingTask(trainer, pool, trainer.inputs.of(pool, None), key, None)


def by_groups(trainer, pool):
    """Yield the state after each step of a training that sees two groups in turn."""
    task = task_of(trainer, pool)
    schedule, network = trainer.schedule, task.build_network().train()
    average = averaged(network, schedule.ema_decay)
    optimizer = sgd(
        network, schedule.learning_rate, schedule.momentum, schedule.weight_decay
    )
    memories = None
    for step in range(schedule.steps):
        for group in optimizer.param_groups:
            group["lr"] = schedule.learning_rate * cosine_factor(step, schedule.steps)
        copies = [copy.deepcopy(network) for _ in range(2)]
        groups = [loop.Stepper(task, Group(i), own) for i, own in enumerate(copies)]
        for one in groups:
            one.module = one.learning.train()
        memories = memories or [one.memory for one in groups]
        for one, memory in zip(groups, memories, strict=True):
            one.memory = memory
        share_memory(groups, step)
        for one in groups:
            found = one.step(step, one.minibatch(step))
            one.learner.loss(found).total.backward()
        twins = [one.learning.network for one in groups]
        for own, *others in parameters(network, twins):
            own.grad = torch.zeros_like(own)  # in the layout of the weights
            own.grad.copy_(torch.stack([other.grad for other in others]).mean(dim=0))
        for own, *others in buffers(network, twins):
            if own.is_floating_point():
                own.copy_(torch.stack(others).mean(dim=0))
            else:
                own.copy_(others[0])
        optimizer.step()
        average.update_parameters(network)
        yield average.module, copy.deepcopy(memories[0])


def share_memory(groups, step):
    """Let each group know, as gathering does, what the other one predicts."""
    if not groups[0].memory:
        return
    rows, items = [], []
    for one in groups:
        minibatch = one.minibatch(step)
        inputs = [minibatch.views[name] for name in ("labeled", "weak", "strong")]
        blind = copy.deepcopy(one.learning)  # its statistics do not count
        with torch.no_grad():
            logits = blind(as_input(torch.cat(inputs))).logits
        sizes = [len(part) for part in inputs]
        rows.append(logits.split(sizes)[1].softmax(dim=1))
        items.append(minibatch.items)
    for one in groups:
        gathered = iter([torch.cat(items), torch.cat(rows)])
        object.__setattr__(one.group, "gather", lambda _, parts=gathered: next(parts))


def parameters(network, twins):
    return zip(*(m.parameters() for m in (network, *twins)), strict=True)


def buffers(network, twins):
    return zip(*(m.buffers() for m in (network, *twins)), strict=True)


COMMON = {
    "steps": STEPS,
    "minibatch_size": 4,
    "accelerator": "cpu",
    "save_every": 0.0,
    "checkpoint_every": 1,
}
CASES = {
    "supervised": {},
    "fixmatch": {"threshold": 0.5, "mu": 2},
    "fixmatch-darp": {"threshold": 0.5, "warmup": 0.0, "refine_every": 2},
}


@pytest.mark.filterwarnings("default")  # as in a process that is not forked
@pytest.mark.parametrize(
    ("name", "method"),
    [
        *(pytest.param(name, "spawn", marks=pytest.mark.slow) for name in CASES),
        ("fixmatch-darp", "fork"),  # which does all that the others do
    ],
)
def test_two_processes_equal_one_that_normalizes_by_groups(
    tmp_path, name, method, monkeypatch
):
    """Forked processes are not for trainings that people wait for, but begin sooner."""
    monkeypatch.setattr(devices, "_METHOD", method)
    options = COMMON | CASES[name]
    heard, checkpoints = Heard(), []

    def keep(step, classifier):
        checkpoints.append(step)
        state = tmp_path / "state.safetensors"
        if state.exists():
            shutil.copy(state, tmp_path / f"at-{step}.safetensors")

    with progress.reporting(heard):
        resolve(name, options | {"devices": 2}).fit(
            tiny_pool(num_classes=3),
            rng.stream(0, "train"),
            workspace=tmp_path,
            on_checkpoint=keep,
        )
    assert (heard.steps, heard.told, heard.ends) == (5, [5], 1)
    assert checkpoints == [1, 2, 3, 4, 5]
    states = list(by_groups(resolve(name, options), tiny_pool(num_classes=3)))
    found = load_file(tmp_path / "model.safetensors")
    for key, value in states[-1][0].state_dict().items():
        torch.testing.assert_close(found[key], value, rtol=0, atol=1e-5, msg=key)
    kept_states = list(tmp_path.glob("at-*.safetensors"))
    assert len(kept_states) >= STEPS - 2
    for kept in kept_states:
        step = int(checkpoint.metadata(kept)["step"])
        for key, value in states[step - 1][1].items():
            read = load_file(kept)[f"memory.{key}"]
            torch.testing.assert_close(read, value, rtol=0, atol=1e-5, msg=key)


def refuse(step, classifier):
    raise RuntimeError("the listener is unwell")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)]
)
def test_faults_and_the_end_of_several_processes_arrive(tmp_path, method, monkeypatch):
    monkeypatch.setattr(devices, "_METHOD", method)
    options = {"steps": 40, "minibatch_size": 4, "devices": 2, "accelerator": "cpu"}
    wild = resolve("supervised", options | {"learning_rate": 1e30})
    with pytest.raises(TrainingError, match="The loss is"):
        wild.fit(tiny_pool(), rng.stream(0, "train"))
    tame = resolve("supervised", options | {"steps": 10**6, "checkpoint_every": 2})
    with pytest.raises(RuntimeError, match="the listener is unwell"):
        tame.fit(tiny_pool(), rng.stream(0, "train"), on_checkpoint=refuse)
    asked = []
    with pytest.raises(progress.Canceled), progress.stopping(lambda: bool(asked)):
        tame.fit(
            tiny_pool(),
            rng.stream(0, "train"),
            workspace=tmp_path,
            on_checkpoint=lambda step, _: asked.append(step),
        )
    assert int(checkpoint.metadata(tmp_path / "state.safetensors")["step"]) >= 2


def test_a_training_can_be_sent_to_processes_that_are_not_forked():
    task = task_of(resolve("fixmatch-darp", COMMON), tiny_pool())
    sent = pickle.loads(ForkingPickler.dumps(task))
    assert sent.settings == task.settings
    expected = task.build_network().state_dict()
    for key, value in sent.build_network().state_dict().items():
        assert torch.equal(value, expected[key])


def test_devices_that_are_not_there_are_explained():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    trainer = resolve("supervised", {"accelerator": "cuda", "steps": 2})
    with pytest.raises(
        UsageError, match=r"'cuda' cannot train on 1 .*accelerator='cpu'"
    ):
        trainer.fit(tiny_pool(), rng.stream(0, "train"))


def test_brain_floats_train():
    trainer = resolve(
        "fixmatch", COMMON | {"precision": "bf16-mixed", "threshold": 0.5}
    )
    exact = resolve("fixmatch", COMMON | {"threshold": 0.5})
    pool = tiny_pool()
    found = trainer.fit(pool, rng.stream(0, "train")).module.head.weight
    expected = exact.fit(pool, rng.stream(0, "train")).module.head.weight
    assert found.dtype == torch.float32
    assert not torch.equal(found, expected)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.05)


LAUNCHED = """
import sys
from pathlib import Path

from fewlabels import rng
from fewlabels.training import resolve
from tests.training.conftest import tiny_pool

options = {"steps": 5, "minibatch_size": 4, "accelerator": "cpu", "devices": 2}
told = []
made = resolve("fixmatch-darp", options | {"checkpoint_every": 5}).fit(
    tiny_pool(num_classes=3),
    rng.stream(0, "train"),
    workspace=Path(sys.argv[1]) / "launched",
    on_checkpoint=lambda step, _: told.append(step),
)
if __name__ == "__main__":
    total = sum(float(one.double().sum()) for one in made.module.parameters())
    print(f"checkpoints {told}, weights {total:.17g}")
"""


@pytest.mark.slow  # three processes that import everything
def test_processes_that_torchrun_starts_train_the_same_network(tmp_path):
    (tmp_path / "script.py").write_text(LAUNCHED)
    program = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*program, "--nproc-per-node", "2", tmp_path / "script.py", tmp_path],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    first, second = sorted(done.stdout.splitlines(), key=len)
    assert "checkpoints []" in first
    assert "checkpoints [5]" in second
    assert first.split("weights")[1] == second.split("weights")[1]
    options = {"steps": 5, "minibatch_size": 4, "accelerator": "cpu", "devices": 2}
    resolve("fixmatch-darp", options | {"checkpoint_every": 5}).fit(
        tiny_pool(num_classes=3), rng.stream(0, "train"), workspace=tmp_path / "own"
    )
    one, other = (
        load_file(tmp_path / place / "model.safetensors")
        for place in ("launched", "own")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


ROWS = """
import sys
import torch
from fewlabels import data, rng
from fewlabels.training import resolve

def trained(devices):
    draws = torch.Generator().manual_seed(0)
    labels = [i % 3 if i < 12 else -1 for i in range(40)]
    pool = data.load(torch.randn(40, 6, generator=draws), labels)
    options = {"network": "mlp-8", "steps": 30, "minibatch_size": 4}
    trainer = resolve("supervised", options | {"accelerator": "cpu", "devices": devices})
    return trainer.fit(pool, rng.stream(0, "train")).module.state_dict()

if __name__ == "__main__":
    torch.save(trained(2), sys.argv[1])
"""


@pytest.mark.slow  # three processes that import everything
def test_two_processes_of_torchrun_equal_a_single_one(tmp_path):
    """Without chance in the views and without batch normalization: to 1e-5, since the
    gradients of a minibatch are added in another order."""
    script, made = tmp_path / "script.py", tmp_path / "made.pt"
    script.write_text(ROWS)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", script, made),
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    module = types.ModuleType("single")
    exec(ROWS, vars(module))
    single, both = module.trained(1), torch.load(made, weights_only=True)
    for name, value in single.items():
        torch.testing.assert_close(both[name], value, rtol=0, atol=1e-5)


def test_as_many_processes_as_devices(monkeypatch):
    for name, value in (
        ("TORCHELASTIC_RUN_ID", "x"),
        ("RANK", "1"),
        ("WORLD_SIZE", "4"),
        ("LOCAL_WORLD_SIZE", "2"),
    ):
        monkeypatch.setenv(name, value)
    assert not devices.is_first()
    with pytest.raises(UsageError, match=r"devices is 2; give 4"):
        resolve("supervised", {"steps": 2, "devices": 2}).fit(
            tiny_pool(), rng.stream(0, "train")
        )
