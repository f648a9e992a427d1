"""``fewlabels serve``: images over HTTP to a model, and what it refuses."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image
from starlette.testclient import TestClient
from tests.projects.trained import CLASSES, SHAPE, from_scratch

from fewlabels.errors import UsageError
from fewlabels.models.model_folder import LoadedModel, save_model
from fewlabels.projects import predict
from fewlabels.web.guard import Guard, Keys
from fewlabels.web.serving import MOST_IMAGE_BYTES, Batches, model_app, serve_model

TOKEN = "a token of enough letters"
SIGNED = {"Authorization": f"Bearer {TOKEN}"}


def png(number, size=(20, 14)):
    draws = np.random.default_rng(number)
    pixels = draws.integers(0, 255, (*size, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def client():
    model = LoadedModel(from_scratch(), CLASSES, SHAPE)
    guard = Guard(
        model_app(model),
        Keys(TOKEN, b"k" * 32),
        most_program_bytes=MOST_IMAGE_BYTES,
        has_page=False,
    )
    with TestClient(guard, "http://127.0.0.1", headers=SIGNED) as client:
        yield client


def test_answers_are_those_of_predict(client, tmp_path):
    (tmp_path / "images").mkdir()
    for number in range(40):
        (tmp_path / "images" / f"{number:02}.png").write_bytes(png(number))
    expected = predict(LoadedModel(from_scratch(), CLASSES, SHAPE), tmp_path / "images")
    with ThreadPoolExecutor(8) as threads:
        answers = list(
            threads.map(lambda n: client.post("/predict", content=png(n)), range(40))
        )
    for answer, label, shares in zip(
        answers, expected.labels, expected.probabilities, strict=True
    ):
        assert answer.status_code == 200
        told = answer.json()
        assert told["label"] == label
        assert list(told["probabilities"]) == list(CLASSES)
        found = torch.tensor(list(told["probabilities"].values()))
        torch.testing.assert_close(found, shares, atol=1e-5, rtol=0)
        assert told["confidence"] == max(told["probabilities"].values())


def test_it_says_what_it_takes(client):
    told = client.get("/health").json()
    assert told == {"classes": list(CLASSES), "input": list(SHAPE)}


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"", 422, "No image was read"),
        (b"no image", 422, "not an image of a known format"),
        (png(1)[:200], 422, "No image was read"),
        (b"0" * (MOST_IMAGE_BYTES + 1), 413, "may have 16,777,216 bytes"),
    ],
)
def test_what_is_no_image_is_refused_in_a_sentence(client, content, code, words):
    answer = client.post("/predict", content=content)
    assert answer.status_code == code
    assert words in answer.text
    assert client.post("/predict", content=png(1)).status_code == 200


def test_an_image_of_too_many_pixels_is_refused(client):
    file = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(file, "PNG")
    answer = client.post("/predict", content=file.getvalue())
    assert answer.status_code == 422
    assert "400,000,000 is more than 80,000,000 pixels" in answer.text or (
        "80,000,000 pixels" in answer.text
    )


def test_strangers_are_refused(client):
    for headers, code in (
        ({"Authorization": "Bearer another token"}, 401),
        ({"Authorization": ""}, 401),
        ({**SIGNED, "Host": "evil.example"}, 403),
        ({**SIGNED, "Origin": "http://evil.example"}, 403),
    ):
        answer = client.post("/predict", content=png(1), headers=headers)
        assert answer.status_code == code, headers
    assert client.get("/predict").status_code == 405


def test_a_browser_learns_that_there_is_no_page(client):
    for path in ("/", "/?token=wrong", "/docs"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.text.startswith("There is no page here. Send an image to /pred")


def test_a_failing_model_does_not_stop_the_others():
    import asyncio

    def classify(images):
        if images.max() > 1:
            raise ValueError("too large")
        return images.flatten(1).tolist()

    async def ask():
        batches = Batches(classify)
        work = asyncio.create_task(batches.work())
        with pytest.raises(ValueError, match="too large"):
            await batches.of(np.full((1, 1, 1), 2))
        found = await batches.of(np.ones((1, 1, 1)))
        work.cancel()
        return found

    assert asyncio.run(ask()) == [1.0]


def test_other_machines_need_a_token_and_rows_are_no_images(tmp_path):
    with pytest.raises(UsageError, match="Other machines reach"):
        serve_model(tmp_path, host="0.0.0.0", on_ready=print)
    with pytest.raises(UsageError, match="takes rows, not images"):
        model_app(LoadedModel(from_scratch(), CLASSES, (5,)))


def test_the_command_serves_until_it_is_stopped(tmp_path):
    save_model(tmp_path / "model", from_scratch(), CLASSES, SHAPE)
    command = [sys.executable, "-m", "fewlabels", "serve", str(tmp_path / "model")]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"FEWLABELS_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"},
    )
    try:
        address = re.search(r"http://\S+", process.stdout.readline())[0]
        assert f'-H "Authorization: Bearer {TOKEN}"' in process.stdout.readline()
        request = urllib.request.Request(address, png(3), SIGNED)
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["label"] in CLASSES
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        process.stdout.close()
