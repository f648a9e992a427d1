"""A model over HTTP: the bytes of an image in, its class and probabilities out.

The guard of the page stands in front: every request brings the token, and its body is
bounded in size and time. Images that arrive while others are being classified wait and
are classified together.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import uvicorn
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from fewlabels.data.decode import decode_once
from fewlabels.errors import DataError, UsageError
from fewlabels.web.guard import Keys
from fewlabels.web.server import LIMITS, check_reach, guarded, listen, run

if TYPE_CHECKING:
    from torch import Tensor

    from fewlabels.models.model_folder import LoadedModel

MOST_IMAGE_BYTES = 16 * 2**20
"""Largest image that is taken."""
MOST_TOGETHER = 32
"""Images that are classified at once."""
_SIDES = 3

Rows = Callable[["Tensor"], list[list[float]]]
Waiting = tuple[NDArray[np.uint8], asyncio.Future[list[float]]]
"""An image, and what its probabilities are handed to."""


class Batches:
    """Images that wait to be classified together."""

    def __init__(self, classify: Rows) -> None:
        """Take what gives probabilities for images, any number of them."""
        self._classify = classify
        self._waiting: asyncio.Queue[Waiting] = asyncio.Queue()

    async def of(self, image: NDArray[np.uint8]) -> list[float]:
        """Return the probabilities of an image, shape (c, h, w)."""
        answer: asyncio.Future[list[float]] = asyncio.Future()
        await self._waiting.put((image, answer))
        return await answer

    async def work(self) -> None:
        """Classify what waits, until canceled."""
        import torch

        while True:
            batch = [await self._waiting.get()]
            while len(batch) < MOST_TOGETHER and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            images = torch.from_numpy(np.stack([image for image, _ in batch]))
            try:
                rows = await run_in_threadpool(self._classify, images)
            except Exception as error:  # noqa: BLE001 - raised in every waiting request
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for (_, answer), row in zip(batch, rows, strict=True):
                if not answer.done():  # its client may have left
                    answer.set_result(row)


def classifying(model: "LoadedModel") -> Rows:
    """Return what gives probabilities for images of the model's shape."""
    import torch

    from fewlabels.models.model_folder import PixelClassifier
    from fewlabels.pool import ArrayImages
    from fewlabels.projects.export import probabilities

    if len(model.input_shape) != _SIDES:
        raise UsageError("The model takes rows, not images; use fewlabels predict.")
    try:  # one formula takes as many images as there are, and no more
        whole = PixelClassifier(model.classifier).eval()
    except UsageError:
        whole = None

    def classify(images: "Tensor") -> list[list[float]]:
        with torch.inference_mode():
            if whole is not None:
                return list(whole(images).tolist())
            parts = probabilities(model.classifier, ArrayImages(images))
            return [row for part in parts for row in part.tolist()]

    return classify


def model_app(model: "LoadedModel") -> Starlette:
    """Return the application of a model; a guard belongs in front of it."""
    batches = Batches(classifying(model))
    channels, height, width = model.input_shape

    async def predict(request: Request) -> JSONResponse:
        """Classify the image that is the body."""
        content = await request.body()
        try:
            shape = (channels, height, width)
            pixels = await run_in_threadpool(decode_once, content, shape)
        except DataError as error:
            return JSONResponse({"error": f"No image was read: {error}"}, 422)
        shares = await batches.of(pixels)
        best = max(range(len(shares)), key=shares.__getitem__)
        named = dict(zip(model.classes, shares, strict=True))
        facts = {"label": model.classes[best], "confidence": shares[best]}
        return JSONResponse(facts | {"probabilities": named})

    async def health(_: Request) -> JSONResponse:
        """Say which classes there are."""
        return JSONResponse({"classes": model.classes, "input": model.input_shape})

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        """Classify what waits as long as the server runs."""
        work = asyncio.create_task(batches.work())
        try:
            yield
        finally:
            work.cancel()

    routes = [Route("/predict", predict, methods=["POST"]), Route("/health", health)]
    return Starlette(routes=routes, lifespan=lifespan)


def serve_model(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    on_ready: Callable[[str, str], object],
) -> None:
    """Serve an exported model until somebody stops it.

    Args:
        folder: The folder of the model.
        host: Address to listen at; another than this machine's own needs a token.
        port: Port to listen at; None: one that depends on the folder.
        token: What programs sign in with; None: a new one.
        on_ready: Called with the address and the token.
    """
    from fewlabels.models.model_folder import load_model

    check_reach(host, token)
    keys = Keys.of(None, token)
    app = model_app(load_model(folder))
    bounds = {"most_program_bytes": MOST_IMAGE_BYTES, "has_page": False}
    guard = guarded(app, keys, host, **bounds)
    with listen(host, port, folder) as listener:
        shown = f"[{host}]" if ":" in host else host
        on_ready(f"http://{shown}:{listener.getsockname()[1]}/predict", keys.token)
        run(uvicorn.Server(uvicorn.Config(guard, **LIMITS)), listener)
