"""What holds for every kernel, whatever its formula."""

import numpy as np
import pytest
import torch
from tests.gram.toy import normal, value_of, whole
from torch import nn

from fewlabels.errors import ShapeError
from fewlabels.gram import (
    last_layer_kernel,
    ntk_kernel,
    softmax_kernel,
    wide_head_kernel,
)
from fewlabels.gram.kernels import DoubleRows
from fewlabels.pool import as_rows
from fewlabels.rng import stream


def tangent(features):
    torch_features = torch.as_tensor(features).double()
    num_features = torch_features.shape[1]
    module = nn.Linear(num_features, 4, dtype=torch.float64)
    return ntk_kernel(
        module,
        lambda items: torch_features[items],
        len(torch_features),
        num_classes=4,
        generator=stream(0, "sketch"),
        sketch_width=256,
        num_sketches=4,
    )


def softmax(features):
    return softmax_kernel(features, features[:, :3])


CLOSED = [lambda f: last_layer_kernel(f, 4), softmax, wide_head_kernel]
NAMES = ["last-layer", "softmax", "wide-head"]
closed = pytest.mark.parametrize("build", CLOSED, ids=NAMES)
every = pytest.mark.parametrize("build", [*CLOSED, tangent], ids=[*NAMES, "ntk"])


@every
def test_blocks_by_index_and_in_bulk_agree_and_diagonals_fit(build):
    kernel = build(normal(4, 9, 3).float())
    rows, columns = torch.tensor([[1, 2], [5, 0]]), torch.tensor([[3], [8]])
    bulk = kernel.block(rows, columns)
    assert bulk.shape == (2, 2, 1)
    assert bulk.dtype == torch.float64
    for draw in range(2):
        torch.testing.assert_close(bulk[draw], kernel.block(rows[draw], columns[draw]))
    everything = torch.arange(9)
    diagonal = kernel.block(everything, everything).diagonal()
    torch.testing.assert_close(kernel.diagonal(everything), diagonal)
    assert kernel.diagonal(rows).shape == rows.shape
    assert kernel.num_items == 9


@every
def test_copies_give_zero(build):  # paper, Proposition 1
    features = normal(5, 6, 20)
    kernel = build(torch.cat([features, features[2:3]]))
    scale = float(kernel.diagonal(torch.arange(7)).sum())
    assert value_of(kernel, [0, 1, 2, 6]) == pytest.approx(0, abs=1e-13 * scale)
    assert value_of(kernel, [0, 1, 2, 3]) > 1e-3 * scale


@every
def test_an_empty_set_has_an_empty_block(build):
    kernel = build(normal(6, 5, 3))
    nobody = torch.empty(0, dtype=torch.int64)
    assert kernel.block(nobody, torch.arange(2)).shape == (0, 2)
    assert kernel.block(nobody.expand(3, -1), torch.arange(2).expand(3, -1)).shape == (
        3,
        0,
        2,
    )
    assert kernel.diagonal(nobody).shape == (0,)


@closed
@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4"])
def test_a_read_only_memory_map_gives_what_a_tensor_gives(build, dtype, tmp_path):
    rows = normal(7, 12, 3).numpy().astype(dtype)
    rows.tofile(tmp_path / "rows.bin")
    mapped = np.memmap(tmp_path / "rows.bin", dtype=dtype, mode="r", shape=(12, 3))
    in_memory = torch.from_numpy(rows.astype("<f8"))
    assert torch.equal(whole(build(mapped)), whole(build(in_memory)))


@closed
def test_diagonals_are_read_in_chunks(build, monkeypatch):
    kernel = build(normal(8, 30, 3))
    at_once = kernel.diagonal(torch.arange(30))
    monkeypatch.setattr("fewlabels.gram.kernels._CHUNK_BYTES", 100)
    torch.testing.assert_close(kernel.diagonal(torch.arange(30)), at_once)


@pytest.mark.parametrize("build", CLOSED[:2], ids=NAMES[:2])
def test_results_are_on_the_device_of_the_features(build):
    kernel = build(torch.empty(5, 4, device="meta"))
    items = torch.arange(3)  # on the CPU
    assert kernel.block(items, items).device.type == "meta"
    assert kernel.diagonal(items).device.type == "meta"


def test_normalized_rows_have_length_one():
    features = normal(9, 5, 3)
    for kernel in (
        last_layer_kernel(features, 1, normalize=True),
        wide_head_kernel(features, normalize=True),
    ):
        diagonal = kernel.diagonal(torch.arange(5))
        torch.testing.assert_close(diagonal, diagonal[:1].expand(5))


def test_features_need_two_axes():
    with pytest.raises(ShapeError, match=r"features have shape \(4,\); give"):
        last_layer_kernel(torch.zeros(4), 2)


@pytest.mark.parametrize("is_mapped", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_rows_that_lie_close_together_give_the_same_products(
    normalize, is_mapped, tmp_path
):
    given = torch.randn(60, 5, generator=stream(0, "rows"))
    before = given.clone()
    np.save(tmp_path / "rows.npy", given.numpy())
    file = np.load(tmp_path / "rows.npy", mmap_mode="r")
    features = as_rows(file) if is_mapped else given
    for center in (None, torch.full((5,), 3.0, dtype=torch.float64)):
        rows = DoubleRows(
            features, has_bias=True, is_normalized=normalize, center=center
        )
        near, columns = torch.tensor([*range(9, 29), 35, 30]), torch.tensor([3, 50])
        one_by_one = torch.stack([rows.products(i[None], columns)[0] for i in near])
        torch.testing.assert_close(rows.products(near, columns), one_by_one)
        torch.testing.assert_close(rows.in_double().products(near, columns), one_by_one)
    assert torch.equal(given, before)
