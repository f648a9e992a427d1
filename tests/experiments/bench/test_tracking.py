import os
import struct
import subprocess
import sys
import warnings

import pytest

from fewlabels.errors import UsageError
from fewlabels.experiments.bench.tracking import Mlflow, WeightsAndBiases

# MLflow and what it builds on warn about themselves.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def mlflow():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("mlflow", reason="MLflow is not installed")


WITHOUT_NETWORK = """
import socket, sys, threading

def asked(host, *rest, **named):
    print("asked for", host)
    raise OSError("no network")

socket.getaddrinfo = asked
from fewlabels.experiments.bench.tracking import Mlflow
Mlflow(sys.argv[1], "toy")
for other in threading.enumerate():
    if other is not threading.current_thread():
        other.join(10)
"""


@pytest.mark.slow
def test_nobody_else_is_told(mlflow, tmp_path):
    del mlflow
    # MLflow tells nobody that it is being tested; let it think that it is not.
    signs = ("CI", "PYTEST", "GITHUB", "GITLAB", "JENKINS", "MLFLOW", "DO_NOT_TRACK")
    env = {key: os.environ[key] for key in os.environ if not key.startswith(signs)}
    command = [sys.executable, "-c", WITHOUT_NETWORK, f"sqlite:///{tmp_path}/m.db"]
    told = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert told.stdout == ""


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    """A database, whose tables MLflow takes seconds to make."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.mark.usefixtures("mlflow")
def test_before_it_is_imported_mlflow_is_told_to_be_silent(uri, monkeypatch):
    """Which is enough, as the test above shows in a process of its own."""
    monkeypatch.delenv("MLFLOW_DISABLE_TELEMETRY", raising=False)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "mlflow", None)
        with pytest.raises(UsageError, match="not installed"):
            Mlflow(uri, "toy")
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "false")  # somebody's own choice
    Mlflow(uri, "toy")
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "false"


def test_finished_runs_are_sent_once(mlflow, uri, finished):
    folder, _, ended = finished
    first = [one.cell for one in ended if one.cell.settings.seed == 0]
    cells = list({cell.settings.strategy.name: cell for cell in first}.values())
    assert [Mlflow(uri, "toy").send(cell, folder) for cell in cells] == [True, True]
    assert [Mlflow(uri, "toy").send(cell, folder) for cell in cells] == [False, False]
    client = mlflow.MlflowClient(uri)
    found = client.search_runs([client.get_experiment_by_name("toy").experiment_id])
    assert len(found) == 2
    one = next(run for run in found if run.data.params["strategy"] == "margin")
    assert one.info.status == "FINISHED"
    assert one.data.params["seed"] == "0"
    history = client.get_metric_history(one.info.run_id, "accuracy")
    (sent,) = [cell for cell in cells if cell.settings.strategy.name == "margin"]
    assert [(h.step, h.value) for h in history] == [
        (line.num_labeled, line.accuracy) for line in folder.run_folder(sent).lines()
    ]


def test_a_run_that_was_sent_in_part_is_sent_whole(mlflow, uri, finished, monkeypatch):
    folder, _, (ended, *_) = finished
    cell, log = ended.cell, Mlflow(uri, "in part")

    def gone(*given, **named):
        raise mlflow.exceptions.MlflowException("the server is gone")

    with monkeypatch.context() as patch:
        patch.setattr(mlflow.MlflowClient, "log_metric", gone)
        with pytest.raises(UsageError, match="the server is gone"):
            log.send(cell, folder)
    assert log.send(cell, folder)
    assert not log.send(cell, folder)


def test_an_address_that_mlflow_does_not_know_is_told(mlflow):
    with pytest.raises(UsageError, match="nowhere://here"):
        Mlflow("nowhere://here", "toy")


def test_without_mlflow_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(UsageError, match=r"fewlabels\[track\]"):
        Mlflow("sqlite:///x.db", "toy")


def test_a_server_that_is_not_there_is_told_soon(mlflow, monkeypatch):
    name = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
    monkeypatch.delenv(name, raising=False)
    seen = []

    def look(client, experiment):
        seen.append(os.environ.get(name))
        raise mlflow.exceptions.MlflowException("nobody answers")

    monkeypatch.setattr(mlflow.MlflowClient, "get_experiment_by_name", look)
    for _ in range(2):
        with pytest.raises(UsageError, match=r"'http://\*\*\*@127.*nobody") as caught:
            Mlflow("http://ann:sesame@127.0.0.1:1", "toy")
        assert "sesame" not in str(caught.value)
        assert os.environ.get(name) == (seen[1] if len(seen) > 1 else None)
        monkeypatch.setenv(name, "5")
    assert seen == ["1", "5"]


def test_runs_whose_timings_are_damaged_are_sent_without(mlflow, uri, finished):
    folder, _, (ended, *_) = finished
    folder.run_folder(ended.cell).timings_file.write_text("not JSON")
    assert Mlflow(uri, "damaged").send(ended.cell, folder)


# ------------------------------------------------------------------ Weights & Biases


def test_without_wandb_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setattr("fewlabels.names.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"wandb.*fewlabels\[track\]"):
        WeightsAndBiases("toy")


def written(log, block=2**15):
    """Yield the records of a log: blocks of chunks with checksum, length and kind."""
    place, record = 7, b""
    while place + 7 <= len(log):
        if block - place % block < 7:
            place += block - place % block
        _, length, kind = struct.unpack_from("<IHB", log, place)
        record += log[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in {1, 4}:  # whole, or the end
            yield record
            record = b""


@pytest.mark.slow  # it starts a process of its own
def test_offline_runs_are_kept_in_the_folder_once(finished, monkeypatch):
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_MODE", "offline")
    folder, _, (ended, *_) = finished
    log = WeightsAndBiases("toy")
    assert [log.send(ended.cell, folder) for _ in range(2)] == [True, False]
    (kept,) = (folder.path / "wandb").glob(
        f"offline-run-*-{ended.cell.address}/*.wandb"
    )
    seen, params = {}, {}
    for content in written(kept.read_bytes()):
        record = Record()
        record.ParseFromString(content)
        params |= {item.key: item.value_json for item in record.run.config.update}
        items = {(i.key or i.nested_key[0]): i.value_json for i in record.history.item}
        if "accuracy" in items:
            seen[int(items["_step"])] = float(items["accuracy"])
    lines = folder.run_folder(ended.cell).lines()
    assert seen == {line.num_labeled: line.accuracy for line in lines}
    assert params["seed"] == str(ended.cell.settings.seed)
