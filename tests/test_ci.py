"""What a continuous-integration machine runs."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

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


ROOT = RUN.parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_read_and_its_actions_are_pinned(path):
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job.get("permissions", {}).keys() <= {"id-token"}
        for step in [job, *job.get("steps", [])]:
            action = step.get("uses", "./")
            assert action.startswith("./") or re.search(r"@[0-9a-f]{40}$", action)


def test_tests_run_on_every_python_that_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    tests = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text("utf-8"))
    assert tests["jobs"]["tests"]["strategy"]["matrix"]["python"] == declared


def test_hooks_use_the_pinned_ruff():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    [pinned] = re.findall(r"^ruff==\S+", (ROOT / "constraints.txt").read_text(), re.M)
    assert set(re.findall(r"ruff==[\d.]+", hooks)) == {pinned}


def test_one_version_in_all_files():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "version"
    ]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert cited["version"] == version
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_every_extra_that_is_named_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    texts = [path.read_text("utf-8") for path in (*pages, *ROOT.rglob("src/**/*.py"))]
    named = re.findall(r"(?:fewlabels|'\.)\[([a-z,-]+)\]", "\n".join(texts))
    extras = {name for names in named for name in names.split(",")}
    assert extras == project["optional-dependencies"].keys() - {"dev"}
