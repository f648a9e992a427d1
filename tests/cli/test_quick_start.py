"""Commands that people wait for load neither torch nor matplotlib."""

import os
import subprocess
import sys
import time

import pytest
from tests.projects.toy import begin, go_on

LOADED = """
import sys
from fewlabels.cli import main
try:
    main()
finally:
    heavy = {"matplotlib", "numba", "pandas", "pyarrow", "scipy", "sklearn", "torch"}
    heavy |= {"huggingface_hub", "onnxruntime", "timm", "transformers"}
    print("loaded:", *sorted(heavy & sys.modules.keys()), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A project with two models, of which an open round of guesses is asked."""
    place = tmp_path_factory.mktemp("quick")
    with begin(place, budget=24, audit=10) as project:
        for image in project.images_folder.iterdir():  # as if it were there for long
            then = time.time() - 100
            os.utime(image, (then, then))
        for _ in range(2):
            go_on(project)
            project.train()
        asked = project.ask()
        assert asked.model == "model-001"
        assert not asked.num_audit
        project.write_query(asked, place / "query.csv")
    return place


def loaded(place, *words):
    """Run a command in a process of its own; return what it loaded and printed."""
    command = [sys.executable, "-c", LOADED, *words]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *_, last = done.stderr.splitlines()
    return last.removeprefix("loaded:").split(), done.stdout


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("--help",), "Commands:"),
        (("--version",), "fewlabels 0."),
        (("status", "project"), "from 10 images drawn at random"),
        (("status", "project", "--json"), '"num_audited": 10'),
        (("ask", "project", "--out", "again.csv"), "still open"),
        (("ask", "project", "--out", "again.json"), "still open"),
        (("tell", "project", "query.csv"), "0 new labels, 4 left blank"),
    ],
)
def test_a_quick_command_loads_nothing_heavy(place, words, printed):
    found, out = loaded(place, *words)
    assert printed in out
    assert found == []


def test_an_open_round_is_written_with_the_same_guesses_as_at_first(place):
    loaded(place, "ask", "project", "--out", "later.csv")
    later = (place / "later.csv").read_text("utf-8")
    assert later == (place / "query.csv").read_text("utf-8")


def test_what_needs_tensors_loads_them(place):
    """Else the test above would show nothing."""
    assert "torch" in loaded(place, "train", "project")[0]
