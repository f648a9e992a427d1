"""No password goes to a server that somebody else's project.json names."""

import json
import shutil
import socket
import sys

import pytest
from tests.projects.store.conftest import emptied
from tests.projects.toy import begin, begun

from fewlabels import cli
from fewlabels.errors import UntrustedStoreError, UsageError
from fewlabels.projects import Project


@pytest.fixture
def listener():
    """A server that only sees who connects."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def name_store(folder, address):
    """Write an address into the settings of a project, as a stranger may."""
    path = folder / "project.json"
    settings = json.loads(path.read_text()) | {"store": address}
    path.write_text(json.dumps(settings))
    return folder


@pytest.fixture
def foreign(tmp_path, listener):
    """A project that names the listener as its server."""
    begun(tmp_path).close()
    port = listener.getsockname()[1]
    address = f"postgresql://annotator@127.0.0.1:{port}/labels"
    return name_store(tmp_path / "project", address)


def assert_nobody_came(listener):
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_a_server_that_was_not_confirmed_is_not_connected_to(foreign, listener):
    with pytest.raises(UntrustedStoreError, match=r"annotator@127\.0\.0\.1.*not conf"):
        Project.open(foreign)
    assert_nobody_came(listener)


@pytest.mark.parametrize(
    "rest",
    [
        "/labels?host=db.mine&hostaddr=127.0.0.1",
        "/labels?hostaddr=127.0.0.1",
        "db.mine/labels?service=other",
        "db.mine/labels?passfile=/etc/passwd",
        "db.mine/labels?sslkey=key&sslmode=require",
        "db.mine/labels?sslmode=disable",
        "db.mine,127.0.0.1/labels",
        "db.mine/labels=x host=127.0.0.1",
    ],
)
@pytest.mark.parametrize("trust_store", [False, True])
def test_an_address_says_only_where_the_server_is(foreign, listener, rest, trust_store):
    name_store(foreign, f"postgresql://annotator@{rest}")
    with pytest.raises(UsageError, match="is not a plain address"):
        Project.open(foreign, trust_store=trust_store)
    assert_nobody_came(listener)


def test_a_beginning_takes_only_such_an_address(tmp_path):
    with pytest.raises(UsageError, match="is not a plain address"):
        begin(tmp_path, store="postgresql://annotator@/labels?host=/tmp")
    assert not (tmp_path / "project").exists()


def test_a_server_is_confirmed_once_for_a_folder(tmp_path, server):
    begin(tmp_path, store=emptied(server)).close()
    Project.open(tmp_path / "project").close()  # who began it named the server
    copied = shutil.copytree(tmp_path / "project", tmp_path / "elsewhere")
    with pytest.raises(UntrustedStoreError, match="elsewhere"):
        Project.open(copied)
    Project.open(copied, trust_store=True).close()
    Project.open(copied).close()
    settings = json.loads((copied / "project.json").read_text())
    name_store(copied, settings["store"].replace("127.0.0.1", "localhost"))
    with pytest.raises(UntrustedStoreError, match="localhost"):
        Project.open(copied)


@pytest.fixture
def run(monkeypatch, capsys):
    """Call the command line in this process; return exit code and all it printed."""

    def call(*words, answer=None):
        monkeypatch.setattr(sys, "argv", ["fewlabels", *map(str, words)])
        with monkeypatch.context() as patch:
            if answer is not None:
                for stream in (sys.stdin, sys.stderr):
                    patch.setattr(stream, "isatty", lambda: True, raising=False)
                patch.setattr("typer.confirm", lambda *_, **__: answer)
            with pytest.raises(SystemExit) as left:
                cli.main()
        shown = capsys.readouterr()
        return left.value.code or 0, shown.out + shown.err

    return call


def test_the_command_line_asks_or_names_the_command(tmp_path, server, run):
    begin(tmp_path, store=emptied(server)).close()
    copies = [tmp_path / name for name in ("first", "second")]
    for copy in copies:
        shutil.copytree(tmp_path / "project", copy)
    code, said = run("status", copies[0])
    assert (code, f"fewlabels trust {copies[0]}" in said) == (1, True)
    assert run("trust", copies[0])[0] == 0
    assert run("status", copies[0])[0] == 0
    assert run("status", copies[1], answer=False)[0] == 1
    assert run("status", copies[1], answer=True)[0] == 0
    assert run("status", copies[1])[0] == 0
