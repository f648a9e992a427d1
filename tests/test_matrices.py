"""Rows of a file: the same numbers, read in place, sent as a path."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fewlabels.errors import NotFiniteError, UsageError
from fewlabels.gram import last_layer_kernel
from fewlabels.pool import MappedRows, as_rows, row_chunks, take_rows
from fewlabels.protocols import Outputs

VIEWS = {
    "all": np.s_[:],
    "a part": np.s_[10:],
    "backwards": np.s_[::-2],
    "some columns": np.s_[5:80:3, 1:4],
    "none": np.s_[:0],
}


def saved(path, rows):
    np.save(path / "rows.npy", rows)
    return np.load(path / "rows.npy", mmap_mode="r")


@pytest.mark.parametrize("kind", ["f2", "f4", ">f4", "f8", "u1", "?"])
@pytest.mark.parametrize("view", VIEWS)
def test_rows_of_a_file_are_those_of_the_array(view, kind, tmp_path):
    given = (np.random.default_rng(0).normal(size=(100, 6)) * 3).astype(kind)
    file = saved(tmp_path, given)[VIEWS[view]]
    wanted = torch.from_numpy(given[VIEWS[view]].astype(np.float64))
    rows = as_rows(file)
    assert isinstance(rows, MappedRows)
    assert rows.shape == tuple(wanted.shape)
    assert rows.dtype == (
        torch.float32 if "f" in kind[:2] and "8" not in kind else torch.float64
    )
    again = pickle.loads(pickle.dumps(rows))
    for found in (rows, again, pickle.loads(pickle.dumps(again))):
        assert torch.equal(found[:].double(), wanted)
        assert torch.equal(torch.cat([*row_chunks(found), wanted[:0]]), wanted)
    if len(wanted):
        places = torch.tensor([[3, 0], [7, 3]])
        assert torch.equal(rows[places].double(), wanted[places])
        part = take_rows(rows, torch.tensor([9, 2, 4]))
        assert isinstance(part, MappedRows)
        sent = pickle.loads(pickle.dumps(part))
        assert torch.equal(
            take_rows(sent, torch.tensor([2, 0]))[:], rows[torch.tensor([4, 9])]
        )


def test_a_kernel_over_a_file_travels_as_a_path(tmp_path):
    rows = saved(tmp_path, np.random.default_rng(0).normal(size=(20_000, 8)))
    kernel = last_layer_kernel(rows, num_classes=3)
    sent = pickle.dumps(kernel)
    assert len(sent) < 10_000
    items = torch.tensor([19_999, 3, 500])
    assert torch.equal(
        pickle.loads(sent).block(items, items), kernel.block(items, items)
    )


def test_a_file_that_is_gone_is_named(tmp_path):
    rows = as_rows(saved(tmp_path, np.zeros((5, 2))))
    sent = pickle.dumps(rows)
    (tmp_path / "rows.npy").unlink()
    assert torch.equal(rows[:], torch.zeros(5, 2))  # this process holds it open
    with pytest.raises(
        UsageError, match=r"rows.npy', and this process cannot read them"
    ):
        pickle.loads(sent)


def test_a_map_that_copies_on_write_is_memory(tmp_path):
    saved(tmp_path, np.zeros((5, 2)))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="c")
    rows[3] = 7
    found = as_rows(rows)
    assert isinstance(found, torch.Tensor)
    assert torch.equal(pickle.loads(pickle.dumps(found))[3], torch.tensor([7.0, 7.0]))


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of memory")
@pytest.mark.parametrize("read", ["in order", "at random"])
def test_pages_that_were_read_are_given_back(read, tmp_path):
    def resident():
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(x for x in lines if x.startswith("RssFile")).split()[1]) / 1024

    rows = as_rows(saved(tmp_path, np.ones((60_000, 128), dtype=np.float32)))
    before = resident()
    if read == "in order":
        assert all(piece.sum() > 0 for piece in row_chunks(rows))
    else:
        assert rows[torch.arange(60_000).flip(0)].sum() > 0
    assert resident() - before < 8  # megabytes, of 31


def test_outputs_over_a_file_are_finite(tmp_path):
    rows = np.ones((70_000, 64), dtype=np.float32)
    rows[69_000, 3] = np.nan
    file = as_rows(saved(tmp_path, rows))
    with pytest.raises(NotFiniteError, match=r"for 1 of 70000 items \(number 69000 of"):
        Outputs(file, torch.zeros(70_000, 2))
    part = take_rows(file, torch.arange(100))
    assert Outputs(part, torch.zeros(100, 2)).features is part
