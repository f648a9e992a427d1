"""A finished training is found again, and only by the training it belongs to."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from tests.training.conftest import changed, tiny_pool

from fewlabels import rng
from fewlabels.errors import DamagedWarning, RunInUseError
from fewlabels.training import loop, make, training

TRAINER = make("fixmatch", steps=4, minibatch_size=4, mu=1)


@pytest.fixture
def counted(monkeypatch):
    """Number of optimizer steps taken since the test began."""
    steps = []
    advance = loop.Stepper.advance

    def counting(self, step, minibatch):
        steps.append(step)
        return advance(self, step, minibatch)

    monkeypatch.setattr(loop.Stepper, "advance", counting)
    return steps


def fit(folder, trainer=TRAINER, pool=None, seed=0, **options):
    pool = tiny_pool() if pool is None else pool
    return trainer.fit(pool, rng.stream(seed, "train"), workspace=folder, **options)


@cache
def undisturbed(trainer):
    """What a training ends with that nobody stops, made once for all tests."""
    return fit(None, trainer)


def same(one, other):
    own, others = one.module.state_dict(), other.module.state_dict()
    return all(torch.equal(own[name], others[name]) for name in own)


def test_the_same_fit_is_loaded(tmp_path, counted):
    folder = tmp_path / "round" / "0"
    first = fit(folder)
    assert len(counted) == 4
    seen = []
    second = fit(folder, on_checkpoint=lambda step, _: seen.append(step))
    assert len(counted) == 4
    assert same(first, second)
    assert seen == [4]
    assert not second.module.training
    assert [path.name for path in folder.glob("[!.]*")] == ["model.safetensors"]


@pytest.mark.parametrize(
    "change",
    [
        {"trainer": changed(TRAINER, learning_rate=0.01)},
        {"trainer": make("supervised", steps=4, minibatch_size=4)},
        {"pool": tiny_pool(labeled=7)},
        {"seed": 1},
    ],
)
def test_another_fit_trains_anew(tmp_path, counted, change):
    fit(tmp_path)
    anew = fit(tmp_path, **change)
    assert len(counted) == 8
    assert same(anew, fit(tmp_path, **change))
    assert len(counted) == 8


def test_other_labels_train_anew(tmp_path, counted):
    fit(tmp_path)
    pool = tiny_pool()
    labels = torch.where(pool.labels >= 0, 1 - pool.labels, pool.labels)
    fit(tmp_path, pool=replace(pool, labels=labels))
    assert len(counted) == 8


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_a_damaged_file_trains_anew_and_is_replaced(tmp_path, counted, share):
    first = fit(tmp_path)
    path = tmp_path / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.warns(DamagedWarning, match=r"model\.safetensors.*counts as none"):
        assert same(first, fit(tmp_path))
    assert len(counted) == 8
    assert path.read_bytes() == content


def test_a_changed_byte_is_found_out(tmp_path, counted):
    first = fit(tmp_path)
    path = tmp_path / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-3000] ^= 0x55
    path.write_bytes(content)
    with pytest.warns(DamagedWarning, match="not those that were written"):
        assert same(first, fit(tmp_path))


def test_two_processes_in_one_workspace_are_kept_apart(tmp_path):
    with (
        training.hold_workspace(tmp_path),
        pytest.raises(RunInUseError, match="Another"),
    ):
        fit(tmp_path)


def test_a_workspace_may_be_a_string(tmp_path):
    fit(str(tmp_path))
    assert (tmp_path / "model.safetensors").exists()


def test_the_workspace_changes_nothing(tmp_path):
    assert same(fit(tmp_path), fit(None))
