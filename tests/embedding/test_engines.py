"""Who embeds, and what becomes of them, changes no bit."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.embedding.here import Here, pictures, rows, work

from fewlabels import errors
from fewlabels.embedding import Local, OnRay
from fewlabels.embedding.engines import _Actor, _decoded_row
from fewlabels.embedding.shards import counted


@pytest.fixture
def images(tmp_path):
    """Nine images, and one that is none."""
    return pictures(tmp_path / "images", 9)


def shards(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


@pytest.fixture
def wanted(images, tmp_path):
    """The shards that this process makes."""
    work(images, tmp_path / "here").run(Here())
    return shards(tmp_path / "here")


def test_processes_of_this_machine(images, wanted, tmp_path, forked_workers):
    done = work(images, tmp_path / "out").run(Local(2))
    assert done.num_rows == 9
    assert shards(tmp_path / "out") == wanted


def test_a_fault_of_a_worker_is_told_as_it_is(images, tmp_path, forked_workers):
    made = work(images, tmp_path / "out")
    made.options["size"] = "wide"
    with pytest.raises(errors.UsageError, match="size is 'wide'"):
        made.run(Local(1))


def test_what_ray_calls_makes_the_same(images, wanted, tmp_path):
    made = work(images, tmp_path / "out")
    (tmp_path / "out").mkdir()
    for number, portion in enumerate(made.listing.portions):
        order = made.order(number, portion) | {"retries": 0}
        row = {"order": json.dumps(order)}
        told = _Actor()(_decoded_row(row))
        assert told["file"].endswith(f"{number:07}.parquet")
    assert shards(tmp_path / "out") == wanted


def test_a_shard_that_ends_its_workers_is_given_up(images, tmp_path):
    made = work(images, tmp_path / "out")
    (tmp_path / "out").mkdir()
    made.folder.begin(made.plan)
    order = made.order(0, made.listing.portions[0]) | {"retries": 1}
    row, file = {"order": json.dumps(order)}, Path(order["file"])
    for _ in range(2):
        with pytest.raises(SystemExit), counted(file):
            sys.exit()  # as if it had been killed
    with pytest.raises(errors.JobError, match="died 2 times"):
        _Actor()(row)
    made.folder.begin(made.plan)  # the next run begins anew
    assert _Actor()(row)["num_rows"] == 4
    assert sorted(path.name for path in file.parent.iterdir()) == [
        "embed.json",
        file.name,
    ]


def test_what_goes_wrong_within_a_shard_is_no_fault_of_its_file(tmp_path):
    with pytest.raises(FileNotFoundError), counted(tmp_path / "shard.parquet"):
        (tmp_path / "images.tar").read_bytes()


@pytest.mark.parametrize("wrong", [{"cpus": 0}, {"gpus": -1}])
def test_numbers_that_ray_cannot_be_given(wrong):
    with pytest.raises(errors.UsageError, match="more than 0 cores"):
        OnRay(**wrong)


def test_workers_share_no_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert [Local().num_processes, Local(3).num_processes] == [1, 3]


def test_no_worker_at_all():
    with pytest.raises(errors.UsageError, match="at least one"):
        Local(0)


SLOW = """
import time
from fewlabels.features.pixels import pixels

class Slow:
    def __init__(self):
        self._inner = pixels()
        self.name, self.feature_size, self.side = "slow", 256, 16

    def embed(self, images):
        time.sleep(0.5)
        return self._inner.embed(images)
"""


@pytest.mark.slow  # processes that import everything
def test_a_killed_command_goes_on_where_it_was(images, wanted, tmp_path):
    (tmp_path / "slow_encoder.py").write_text(SLOW)
    command = [sys.executable, "-m", "fewlabels", "embed", "images", "out"]
    options = ["--encoder", "slow_encoder:Slow", "--shard-size", "1", "--workers", "2"]
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    facts = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": paths}}
    with subprocess.Popen([*command, *options], **facts) as process:
        until = time.monotonic() + 120
        while len(shards(tmp_path / "out")) < 3 and time.monotonic() < until:
            time.sleep(0.05)
        process.kill()
    before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "out").glob("*.parq*")}
    assert 3 <= len(before) < 10
    subprocess.run([*command, *options], **facts, check=True, timeout=120)
    after = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "out").glob("*.parq*")}
    assert len(after) == 10
    assert all(after[name] == stamp for name, stamp in before.items())
    found = rows(tmp_path / "out")
    assert all(
        (row == found[name]).all() for name, row in rows(tmp_path / "here").items()
    )


@pytest.fixture
def cluster():
    """Two Ray nodes, which pretend to have a GPU each."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        nodes = cluster_utils.Cluster()
        try:
            for _ in range(2):
                nodes.add_node(
                    num_cpus=1,
                    num_gpus=1,
                    object_store_memory=80_000_000,
                    include_dashboard=False,
                )
            yield nodes
        finally:
            nodes.shutdown()


@pytest.mark.slow  # a cluster; benchmarks/embedding.py does it with more images
@pytest.mark.filterwarnings("default")  # Ray's own
@pytest.mark.parametrize("gpus", [0, 0.5])
def test_two_nodes_one_of_which_loses_its_worker(
    gpus, images, wanted, tmp_path, cluster, monkeypatch
):
    from benchmarks.embedding import actors

    (tmp_path / "slow_encoder.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    killed = []

    def kill():
        while not killed:
            time.sleep(0.05)
            if len(shards(tmp_path / "out")) and (found := actors(cluster)):
                os.kill(found[0], signal.SIGKILL)
                killed.append(found[0])

    threading.Thread(target=kill, daemon=True).start()
    made = work(images, tmp_path / "out", encoder="slow_encoder:Slow")
    done = made.run(OnRay(cluster.address, gpus=gpus))
    killed.append(0)  # ends the thread
    assert killed[0]
    assert done.num_rows == 9
    assert shards(tmp_path / "out") == wanted


@pytest.mark.slow
def test_an_actor_that_fits_nowhere(images, tmp_path, cluster):
    made = work(images, tmp_path / "out")
    with pytest.raises(errors.UsageError, match=r"needs 3 cores and 0 GPUs.*1 and 1"):
        made.run(OnRay(cluster.address, cpus=3))


def test_a_loss_is_told_with_what_to_do(images, tmp_path, monkeypatch, forked_workers):
    monkeypatch.setattr(
        "fewlabels.embedding.engines._CALL", "tests.embedding.dying:dying"
    )
    with pytest.raises(
        errors.JobError, match=r"died 2 times \(signal 9.*finished shar"
    ):
        work(images, tmp_path / "out").run(Local(1, retries=1))
    assert Path(tmp_path / "out" / "embed.json").exists()
