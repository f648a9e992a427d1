import subprocess
import sys


def test_the_package_can_be_run_as_a_module():
    command = [sys.executable, "-m", "fewlabels", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("fewlabels ")


def test_importing_it_runs_nothing():
    command = [sys.executable, "-c", "import fewlabels.__main__"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""
