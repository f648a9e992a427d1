"""scikit-activeml's own generic tests, run on our strategies in a fresh process."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.skactiveml_suite import NOT_FETCHED, REQUIRED

ROOT = Path(__file__).parents[3]


@pytest.mark.slow  # `make skactiveml` runs it too
def test_the_generic_suite_passes():
    done = subprocess.run(
        [sys.executable, "scripts/skactiveml_suite.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode == NOT_FETCHED:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.findall(
        r"^(\S+): passed, (\d+) tests, (\d+) subtests$", done.stdout, re.M
    )
    assert [name for name, _, _ in counts] == list(REQUIRED)
    assert all(int(tests) >= 23 and int(parts) >= 74 for _, tests, parts in counts)
