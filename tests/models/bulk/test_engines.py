"""Who embeds, and what becomes of them, changes no bit."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.models.bulk.here import Here, pictures, rows, work

from fewlabels import errors
from fewlabels.cli import embeddings
from fewlabels.cli.terminal import Terminal
from fewlabels.jobs import LocalExecutor, RayExecutor


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
    done = work(images, tmp_path / "out").run(LocalExecutor(2))
    assert done.num_rows == 9
    assert shards(tmp_path / "out") == wanted


def test_a_fault_of_a_worker_is_told_as_it_is(images, tmp_path, forked_workers):
    made = work(images, tmp_path / "out")
    made.options["size"] = "wide"
    with pytest.raises(errors.UsageError, match="size is 'wide'"):
        made.run(LocalExecutor(1))


def test_workers_share_no_gpu(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(embeddings, "LocalExecutor", asked.append)
    for number in (None, 3):
        with pytest.raises(errors.DataError, match="There is nothing to embed"):
            embeddings.embed(
                tmp_path / "none",
                tmp_path / "out",
                workers=number,
                terminal=Terminal(),
            )
    assert asked == [1, 3]


SLOW = """
import time
from fewlabels.models.module_encoder import pixels

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
    done = made.run(RayExecutor(cluster.address, gpus=gpus))
    killed.append(0)  # ends the thread
    assert killed[0]
    assert done.num_rows == 9
    assert shards(tmp_path / "out") == wanted


def test_a_loss_is_told_with_what_to_do(images, tmp_path, monkeypatch, forked_workers):
    monkeypatch.setattr("fewlabels.models.bulk._CALL", "tests.models.bulk.dying:dying")
    monkeypatch.setattr("fewlabels.jobs.processes.RETRIES", 1)
    with pytest.raises(errors.JobError, match=r"lost 2 times \(signal 9.*is kept"):
        work(images, tmp_path / "out").run(LocalExecutor(1))
    assert Path(tmp_path / "out" / "embed.json").exists()
