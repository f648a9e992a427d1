"""Who may use a cluster that is started here."""

import os
import stat
import subprocess
import sys

import pytest

from fewlabels.jobs import cluster

CLIENT = """
import sys
import ray

ray.init(sys.argv[1], log_to_driver=False, logging_level="error")
print(ray.get(ray.remote(num_cpus=0)(lambda: "it ran").remote()))
"""


def answer(address, **environment):
    """Return what another process gets that asks a cluster to run something."""
    known = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    quick = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
    }
    asked = subprocess.run(
        [sys.executable, "-c", CLIENT, address],
        env={**known, **quick, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return asked.stdout + asked.stderr


@pytest.mark.slow  # five processes of Ray
def test_nobody_without_the_token_can_use_a_cluster_that_is_started_here(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # which is not for ours
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    with cluster.connected(None) as ray:
        address = ray.get_runtime_context().gcs_address
        owner = {"HOME": str(tmp_path), "RAY_AUTH_MODE": "token"}
        assert "it ran" in answer(address, **owner)
        for stranger in (
            {"RAY_AUTH_MODE": "disabled"},
            {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64},
        ):
            told = answer(address, **stranger)
            assert "it ran" not in told
            assert "Unauthenticated" in told or "AuthenticationError" in told, told
    token = tmp_path / ".ray" / "auth_token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
