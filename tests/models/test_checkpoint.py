"""Weights are written whole, and only fitting weights are read."""

import os

import pytest
import torch
from safetensors.torch import save_file

from fewlabels import models, rng
from fewlabels.errors import DataError, StorageError
from fewlabels.models import checkpoint


def network(seed=0, num_classes=4, name="wrn-10-1"):
    return models.build(name, (1, 8, 8), num_classes, rng.stream(seed, "weights"))


def same(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_round_trip(tmp_path):
    saved, other = network(0), network(1)
    saved(torch.rand(4, 1, 8, 8, generator=rng.stream(0, "x")))  # moves the statistics
    checkpoint.write(
        saved.state_dict(), tmp_path / "m.safetensors", {"made": "by test"}
    )
    assert not same(saved, other)
    assert checkpoint.metadata(tmp_path / "m.safetensors") == {"made": "by test"}
    assert checkpoint.read_into(other.state_dict(), tmp_path / "m.safetensors") == {
        "made": "by test"
    }
    assert same(saved, other)
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


def test_equal_networks_make_equal_files(tmp_path):
    words = {str(number): "word" for number in range(20)}
    for name in ("a", "b"):
        checkpoint.write(network(0).state_dict(), tmp_path / name, words)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    checkpoint.write(network(0).state_dict(), path, {})
    before = path.read_bytes()

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(StorageError, match="disk is full"):
        checkpoint.write(network(1).state_dict(), path, {})
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


def test_half_a_file_is_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    checkpoint.write(network(0).state_dict(), path, {})
    content = path.read_bytes()
    target = network(1)
    for length in (0, 5, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match="cannot be read as a safetensors file"):
            checkpoint.read_into(target.state_dict(), path)
    assert same(target, network(1))


@pytest.mark.parametrize("content", [b"not a checkpoint", b"\x80\x04pickle" * 99])
def test_a_foreign_file_is_refused(tmp_path, content):
    path = tmp_path / "m.safetensors"
    path.write_bytes(content)
    with pytest.raises(DataError, match="Train again"):
        checkpoint.read_into(network().state_dict(), path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "none.safetensors", tmp_path):
        with pytest.raises(DataError, match="cannot be read"):
            checkpoint.read_into(network().state_dict(), path)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"num_classes": 7}, r"'head\.\w+' has shape \(7.*, not \(4"),
        ({"name": "wrn-16-1"}, "has shape .*, not "),
    ],
)
def test_another_network_is_refused(tmp_path, other, message):
    path = tmp_path / "m.safetensors"
    checkpoint.write(network(**other).state_dict(), path, {})
    target = network(3)
    with pytest.raises(DataError, match=message):
        checkpoint.read_into(target.state_dict(), path)
    assert same(target, network(3))


@pytest.mark.parametrize(
    "words", ["[]", "[1]", "3", '{"a": 1}', "not JSON", "[" * 9999]
)
def test_words_beside_tensors_that_are_none_are_refused(tmp_path, words):
    path = tmp_path / "x.safetensors"
    save_file({"a": torch.zeros(1)}, path, metadata={"fewlabels": words})
    with pytest.raises(DataError, match="has no valid metadata"):
        checkpoint.metadata(path)
    with pytest.raises(DataError, match="has no valid metadata"):
        checkpoint.read_into({"a": torch.zeros(1)}, path)
