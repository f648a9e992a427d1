"""What a continuous-integration machine runs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / ".ci" / "run"
STUB = "#!/bin/sh\nexit {code}\n"


def write_program(path, code):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(STUB.format(code=code))
    path.chmod(0o755)


@pytest.fixture
def clone(tmp_path):
    """A clone in which make does nothing and nothing can be installed."""
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    for name, code in (("make", 0), ("apt-get", 1), ("sudo", 1)):
        write_program(tmp_path / "bin" / name, code)
    (tmp_path / "clone" / ".ci").mkdir(parents=True)
    shutil.copy(RUN, tmp_path / "clone" / ".ci" / "run")
    return tmp_path / "clone"


@pytest.mark.parametrize("python", [None, 0, 1])
def test_a_damaged_environment_is_named_and_built_anew(clone, python):
    venv = clone / ".venv"
    venv.mkdir()
    stamps = [venv / ".created", venv / ".installed"]
    for stamp in stamps:
        stamp.touch()
    if python is not None:
        write_program(venv / "bin" / "python", python)
    path = f"{clone.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [clone / ".ci" / "run"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    is_damaged = python != 0
    assert ("the environment .venv is damaged" in done.stdout) == is_damaged
    assert [stamp.exists() for stamp in stamps] == [not is_damaged] * 2
