import json
import signal
import sys

import pytest

from fewlabels import cli

TINY = {
    "trainer": {"name": "fixmatch", "steps": 8},
    "start": 10,
    "query": 5,
    "budget": 15,
}


@pytest.fixture
def tiny(tmp_path):
    """A settings file that makes a run last seconds."""
    file = tmp_path / "tiny.yaml"
    file.write_text(json.dumps(TINY))  # JSON is YAML
    return str(file)


@pytest.fixture
def fewlabels(monkeypatch, capsys, tmp_path):
    """Call the command line in this process; return exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["fewlabels", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        shown = capsys.readouterr()
        return left.value.code or 0, shown.out, shown.err

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)
