"""``fewlabels serve`` under load: 50 clients for a minute.

A head over the default encoder at 160 pixels is fitted to 200 photographs of CIFAR-10
and saved as an export has it. ``fewlabels serve`` runs it as a user would. Each of 50
clients, threads of another process, sends one photograph after another (JPEG, 320 x 240
pixels, made from CIFAR-10) over a connection of its own, without a pause. Seconds are
those of the clients. Before that, the model's ONNX file predicts 500 other photographs
of 160 x 160 pixels: "onnx" says how far its probabilities are from torch's.

Run ``FEWLABELS_DATA=DIR python -m benchmarks.serve``; two minutes. Writes
benchmarks/results/serve.json.
"""

import argparse
import http.client
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.study import RESULTS
from onnxruntime import InferenceSession
from PIL import Image
from torch.nn import functional

from fewlabels import data, rng, training
from fewlabels.experiments.acquisition import hidden
from fewlabels.models import model_folder
from fewlabels.models.encoders import ENCODER
from fewlabels.pool import Answers, ArrayImages

RECORD = RESULTS / "serve.json"
CLIENTS, SECONDS = 50, 60.0
TOKEN = "only for this measurement"
OPTIONS = {"encoder": ENCODER, "encoder_options": {"size": 160}}


def write_model(folder: Path) -> list[bytes]:
    """Save a model; return photographs for it."""
    pool = data.load("cifar10", counts=[20] * 10)
    every = torch.arange(len(pool))
    labeled = hidden(pool, len(pool)).with_answers(Answers(every, pool.labels))
    trainer = training.resolve("frozen-blend", OPTIONS)
    fitted = trainer.fit(labeled, rng.stream(0, "train"))
    model_folder.save_model(folder, fitted, pool.classes, (3, 160, 160))
    photographs = []
    for pixels in pool.images.read(every).permute(0, 2, 3, 1).numpy():
        file = io.BytesIO()
        Image.fromarray(pixels).resize((320, 240)).save(file, "JPEG")
        photographs.append(file.getvalue())
    return photographs


def onnx_difference(folder: Path) -> dict[str, Any]:
    """Return how predictions of a model's ONNX file differ from those of torch."""
    model = model_folder.load_model(folder)
    model_folder.write_onnx(folder / "model.onnx", model.classifier, (3, 160, 160))
    every = torch.arange(500)
    small = data.load("cifar10").test.images.read(every)
    images = functional.interpolate(small.float(), size=160, mode="bicubic")
    pixels = images.clamp(0, 255).round().to(torch.uint8)
    logits = model.classifier.outputs(ArrayImages(pixels), every).logits
    expected = torch.softmax(logits, dim=1).numpy()
    session = InferenceSession(folder / "model.onnx")
    parts = [session.run(None, {"images": p.numpy()})[0] for p in pixels.split(50)]
    given = np.concatenate(parts)
    same = given.argmax(1) == expected.argmax(1)
    return {
        "photographs": len(pixels),
        "largest difference of a probability": float(np.abs(given - expected).max()),
        "same class": int(same.sum()),
    }


def load(port: int, photographs: list[bytes], seconds: float) -> dict[str, Any]:
    """Send photographs from all clients; return times and codes."""
    times: list[float] = []
    codes: Counter[str] = Counter()
    end = time.monotonic() + seconds

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        while time.monotonic() < end:
            body = photographs[number % len(photographs)]
            number += CLIENTS
            begun = time.monotonic()
            try:
                connection.request("POST", "/predict", body, headers)
                answer = connection.getresponse()
                content = json.load(answer)
                is_right = answer.status == 200 and "label" in content
                codes["right" if is_right else str(answer.status)] += 1
            except (OSError, ValueError, http.client.HTTPException) as error:
                codes[type(error).__name__] += 1
                connection.close()
            times.append(time.monotonic() - begun)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    right = codes.pop("right", 0)
    percentiles = np.percentile(times, [50, 95, 99])
    return {
        "clients": CLIENTS,
        "seconds": seconds,
        "answers": right,
        "errors": codes.total(),
        "seconds of half": round(percentiles[0], 3),
        "seconds of 95 percent": round(percentiles[1], 3),
        "seconds of 99 percent": round(percentiles[2], 3),
        "longest seconds": round(max(times), 3),
        "answers a second": round(right / seconds, 1),
    }


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--out", type=Path, default=RECORD)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        photographs = write_model(Path(place) / "model")
        onnx = onnx_difference(Path(place) / "model")
        command = [sys.executable, "-m", "fewlabels", "serve", f"{place}/model"]
        server = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"FEWLABELS_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"},
        )
        assert server.stdout is not None
        try:
            found = re.search(r":(\d+)/predict", server.stdout.readline())
            assert found is not None
            load(int(found[1]), photographs, 3.0)
            before = os.times()
            record = load(int(found[1]), photographs, arguments.seconds)
            after = os.times()
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(300)
        ended = os.times()
    own = after.user + after.system - before.user - before.system
    children = ended.children_user + ended.children_system
    record |= {
        "onnx": onnx,
        "processors": os.cpu_count(),
        "load average": round(os.getloadavg()[0], 1),
        "processor seconds of the clients": round(own, 1),
        "processor seconds of the server, with its start": round(children, 1),
    }
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
