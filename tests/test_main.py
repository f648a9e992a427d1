import pkgutil
import subprocess
import sys
from pathlib import Path

import fewlabels


def test_the_package_can_be_run_as_a_module():
    command = [sys.executable, "-m", "fewlabels", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("fewlabels ")


def test_importing_it_runs_nothing():
    command = [sys.executable, "-c", "import fewlabels.__main__"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""


REACH_ALL = """
import sys
import fewlabels
assert not {"numpy", "scipy", "torch"} & sys.modules.keys(), "the import is heavy"
assert not [name for name in sys.modules if name.startswith("fewlabels.")]
for name in sys.argv[1:]:
    module = getattr(fewlabels, name)
    assert module.__name__ == f"fewlabels.{name}"
    assert name in dir(fewlabels)
"""


def test_modules_are_reached_from_the_package_and_imported_only_then():
    path = Path(fewlabels.__file__).parent
    own = {entry.name for entry in pkgutil.iter_modules([str(path)])}
    inner = {"__main__", "adapters", "cli", "files", "loop", "naming", "whole"}
    command = [sys.executable, "-c", REACH_ALL, *sorted(own - inner)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
