"""Commands that people wait for load neither torch nor matplotlib."""

import json
import os
import subprocess
import sys
import time

import pytest
from tests.projects.toy import begin, go_on

LOADED = """
import json, sys
from fewlabels.cli import main
heavy = {"matplotlib", "numba", "pandas", "pyarrow", "scipy", "sklearn", "torch"}
heavy |= {"huggingface_hub", "onnxruntime", "timm", "transformers"}
for words in json.loads(sys.argv[1]):
    sys.argv[1:], code = words, 0
    try:
        main()
    except SystemExit as left:
        code = left.code
    print("loaded:", *sorted(heavy & sys.modules.keys()), flush=True)
    if code:
        sys.exit(code)
"""
AT_LAST = """
import huggingface_hub
print("loaded:", *sorted(heavy & sys.modules.keys()))
"""
QUICK = [
    (("--help",), "Commands:"),
    (("--version",), "fewlabels 0."),
    (("status", "project"), "from 10 images drawn at random"),
    (("status", "project", "--json"), '"num_audited": 10'),
    (("ask", "project", "--out", "again.csv"), "still open"),
    (("ask", "project", "--out", "again.json"), "still open"),
    (("tell", "project", "query.csv"), "0 new labels, 4 left blank"),
]


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


def loaded(place, commands, code=LOADED):
    """Run commands in a process of their own; yield what each printed and loaded."""
    told = [sys.executable, "-c", code, json.dumps(commands)]
    done = subprocess.run(told, cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = ""
    for line in done.stdout.splitlines():
        if line.startswith("loaded:"):
            yield printed, line.removeprefix("loaded:").split()
            printed = ""
        else:
            printed += f"{line}\n"


def test_quick_commands_load_nothing_heavy(place):
    *quick, last = loaded(place, [words for words, _ in QUICK], LOADED + AT_LAST)
    for (printed, heavy), (words, expected) in zip(quick, QUICK, strict=True):
        assert expected in printed, words
        assert heavy == [], words
    assert last[1] == ["huggingface_hub"]  # else the rest would show nothing
    again = (place / "again.csv").read_text("utf-8")
    assert again == (place / "query.csv").read_text("utf-8")  # with the same guesses
