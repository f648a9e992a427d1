"""Ctrl-C ends a server within seconds, whoever is connected and whatever is done."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, closing

import pytest
from benchmarks.page import TOKEN, Server
from tests.projects.trained import CLASSES, SHAPE, from_scratch
from tests.web.person import NAMES, digits

from fewlabels.models.model_folder import save_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MOST_SECONDS = 8.0
"""Two in which answers may end; the others are for a busy machine."""
WISH = ("--classes", NAMES, "--trainer", "frozen-linear", "--encoder", "pixels")
WHO = {"tab": "00000000-0000-4000-8000-000000000001"}


def connect(stack, port, text, body=b""):
    """Send something on a connection that stays open, and return it."""
    client = stack.enter_context(closing(socket.create_connection(("127.0.0.1", port))))
    client.sendall(text.encode() + body)
    return client


def seconds_to_stop(process):
    """Press Ctrl-C, and return how long the server takes to end."""
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.wait(120)
    return time.monotonic() - begun


@pytest.mark.parametrize("is_locked", [False, True])
def test_a_page_stops_within_seconds_of_ctrl_c(tmp_path, is_locked):
    digits(tmp_path / "digits", range(300))
    server = Server(tmp_path / "digits", *WISH, "--budget", "20", "--query", "10")
    port = server.port
    with ExitStack() as stack:
        stack.callback(server.process.wait)
        stack.callback(server.process.kill)
        with urllib.request.urlopen(server.address) as answer:
            cookie = answer.headers["set-cookie"].partition(";")[0]
        own = f"Host: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nx-fewlabels: 1\r\n"
        own += "content-type: application/json\r\n"

        def ask(path, **content):
            """Return the answer to a request."""
            address = f"http://127.0.0.1:{port}{path}"
            headers = {"Cookie": cookie, "x-fewlabels": "1"}
            headers["content-type"] = "application/json"
            body = json.dumps(WHO | content).encode() if content else None
            request = urllib.request.Request(address, body, headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)

        end = time.monotonic() + 120
        while ask("/api/jobs")["features"]["status"] != "done":
            assert time.monotonic() < end
            time.sleep(0.2)
        items = []
        while not items:
            items = ask("/api/lease", count=10)["items"]
            assert time.monotonic() < end
        for _ in range(3):
            events = connect(stack, port, f"GET /api/events HTTP/1.1\r\n{own}\r\n")
            assert b" 200 " in events.recv(4096)
        connect(stack, port, "")
        connect(stack, port, "GET / HTTP/1.1\r\nHost")
        connect(
            stack, port, f"POST /api/act HTTP/1.1\r\n{own}content-length: 9\r\n\r\n1"
        )
        picture = f"/api/images/{items[0]['id']}/2560"
        connect(stack, port, f"GET {picture} HTTP/1.1\r\n{own}\r\n" * 20)

        def begin(path, **content):
            """Ask for something that takes a while."""
            body = json.dumps(WHO | content).encode()
            head = f"POST {path} HTTP/1.1\r\n{own}content-length: {len(body)}\r\n\r\n"
            connect(stack, port, head, body)

        if is_locked:  # another program writes, for longer than anybody waits
            store = sqlite3.connect(tmp_path / "digits-labels/labels.sqlite")
            stack.enter_context(closing(store))
            store.execute("BEGIN IMMEDIATE")
        for number in range(4):
            begin("/api/review", order="typical", count=500, name="zero")
            begin(
                "/api/act",
                uuid=f"00000000-0000-4000-8000-00000000000{number}",
                verb="label",
                item=items[number]["id"],
                name="zero",
            )
        time.sleep(0.5)
        assert seconds_to_stop(server.process) < MOST_SECONDS
        assert server.process.returncode == 1
    assert "Traceback" not in server.log.read_text()


def test_a_model_stops_within_seconds_of_ctrl_c(tmp_path):
    save_model(tmp_path / "model", from_scratch(), CLASSES, SHAPE)
    command = [sys.executable, "-m", "fewlabels", "serve", str(tmp_path / "model")]
    environment = os.environ | {"FEWLABELS_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, env=environment
            )
        )
        stack.callback(process.kill)
        port = int(re.search(r":(\d+)/predict", process.stdout.readline())[1])
        own = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        idle = connect(stack, port, f"GET /health HTTP/1.1\r\n{own}\r\n")
        assert b" 200 " in idle.recv(4096)
        connect(stack, port, "")
        connect(stack, port, "GET /health HTTP/1.1\r\nHost")
        head = f"POST /predict HTTP/1.1\r\n{own}content-length: 9000\r\n\r\n"
        connect(stack, port, head, b"\x89PNG")
        time.sleep(0.5)
        assert seconds_to_stop(process) < MOST_SECONDS
        assert process.returncode == 1
