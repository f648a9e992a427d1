import hashlib
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fewlabels import progress
from fewlabels.data.download import Source, fetch
from fewlabels.errors import DownloadError

CONTENT = bytes(range(256)) * 2000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Answer(BaseHTTPRequestHandler):
    """Serves good and bad files."""

    asked: list[str] = []  # noqa: RUF012 - one list for all

    def do_GET(self):
        self.asked.append(self.path)
        if self.path == "/missing":
            self.send_error(404)
            return
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1/file")
            self.end_headers()
            return
        if self.path == "/slow":
            time.sleep(0.6)
        self.send_response(200)
        if self.path != "/unannounced":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:100_000] if self.path == "/cut" else CONTENT)

    def log_message(self, *_):
        pass


@pytest.fixture
def address(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    Answer.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(10)


def refused(url, folder, message, md5=MD5, **options):
    with pytest.raises(DownloadError, match=message) as caught:
        fetch(Source(url, "file.gz", md5), folder, **options)
    assert not list(folder.iterdir()), "something was left behind"
    return str(caught.value)


@pytest.mark.parametrize("path", ["/file", "/unannounced"])
def test_a_file_comes_whole_and_once(tmp_path, address, path):
    source = Source(address + path, "file.gz", MD5)
    for _ in range(2):
        goal = fetch(source, tmp_path / "new" / "folder")
        assert goal.read_bytes() == CONTENT
    assert Answer.asked == [path]
    assert [one.name for one in goal.parent.iterdir()] == ["file.gz"]


def test_progress_counts_bytes(tmp_path, address):
    heard = []

    class Listener:
        def start(self, task, total, done):
            heard.append((task, total))
            return 0

        def advance(self, handle, amount):
            heard.append(amount)

        def finish(self, handle):
            pass

    with progress.reporting(Listener()):
        fetch(Source(address + "/file", "file.gz", MD5), tmp_path)
    assert heard[0] == ("Downloading file.gz", len(CONTENT))
    assert sum(heard[1:]) == len(CONTENT)


def test_a_wrong_hash_is_refused(tmp_path, address):
    message = refused(
        address + "/file", tmp_path, f"MD5 {MD5}, the official one abc", "abc"
    )
    assert "put file.gz into the folder that FEWLABELS_DATA names" in message


def test_a_cut_off_file_is_refused(tmp_path, address):
    refused(address + "/cut", tmp_path, "only 100,000 of 512,000 bytes came")


def test_a_missing_file_is_refused(tmp_path, address):
    refused(address + "/missing", tmp_path, "the server answered 404 Not Found")


def test_silence_is_not_waited_for(tmp_path, address):
    refused(address + "/slow", tmp_path, "said nothing for 0.1 seconds", timeout=0.1)


def test_only_the_web_is_asked(tmp_path, address):
    refused("file:///etc/hostname", tmp_path, "neither an http nor an https address")
    refused(address + "/moved", tmp_path, "could not be downloaded")


def test_no_network_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        refused(f"http://127.0.0.1:{port}/x", tmp_path, "the server cannot be reached")


def test_a_closed_cache_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DownloadError, match=r"cannot be written to.*FEWLABELS_CACHE"):
        fetch(Source("http://127.0.0.1/x", "x", MD5), tmp_path / "file" / "below")
