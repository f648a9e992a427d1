"""What is done with one portion, by whichever process: decode, embed, write.

Shapes: n images, F features.
"""

import json
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fewlabels.data.decode import decode_once
from fewlabels.data.unreadable import left_out
from fewlabels.embedding import sources
from fewlabels.embedding.shards import write
from fewlabels.embedding.sources import Content, Portion
from fewlabels.errors import DataError, UnreadableFile
from fewlabels.features import embedded, encoders
from fewlabels.features.encoders import Encoder
from fewlabels.jobs import startable
from fewlabels.naming import AllowCode
from fewlabels.pool import ArrayImages

_COLORS = 3
_THREADS = 4  # waiting for a disk costs no core
_AT_ONCE = 64
_FIRST = 32

Order = dict[str, Any]
"""What to do, as plain values: ``portion``, ``encoder``, ``options``, ``side``, and the
``file`` to write."""


@dataclass(frozen=True)
class Decoded:
    """The images of a portion."""

    ids: tuple[str, ...]
    pixels: NDArray[np.uint8]
    """Shape (n, 3, side, side)."""
    unreadable: tuple[UnreadableFile, ...]
    """Images that are left out."""
    seconds: float
    """What reading and decoding took."""


@startable
def embed_portion(order: Order, *, allow_code: AllowCode = False) -> dict[str, Any]:
    """Do all that is to be done with a portion; return how much that was, and took."""
    del allow_code  # the encoder was allowed by whoever planned the work
    _encoder_of(order)  # made once, not timed
    begun = time.process_time()
    done = finished(order, decoded(order["portion"], order["side"]))
    return done | {"processor": time.process_time() - begun}


def decoded(portion: Portion, side: int) -> Decoded:
    """Return the images of a portion, brought to squares of ``side`` pixels."""
    begun, shape = time.perf_counter(), (_COLORS, side, side)
    ids: list[str] = []
    unreadable: list[UnreadableFile] = []
    pixels = np.empty((sources.num_images(portion), *shape), dtype=np.uint8)

    def image(content: Content) -> NDArray[np.uint8] | str:
        try:
            if isinstance(content, DataError):
                raise content
            return decode_once(content, shape)
        except DataError as error:
            return str(error)

    with ThreadPoolExecutor(_THREADS) as threads:
        for some in _in_parts(sources.opened(portion)):
            made = threads.map(image, [content for _, content in some])
            for (name, _), found in zip(some, made, strict=True):
                if isinstance(found, str):
                    unreadable.append(left_out(name, found))
                else:
                    pixels[len(ids)] = found
                    ids.append(name)
    seconds = time.perf_counter() - begun
    return Decoded(tuple(ids), pixels[: len(ids)], tuple(unreadable), seconds)


def finished(order: Order, images: Decoded) -> dict[str, Any]:
    """Embed the images of a portion and write their shard; return what that took."""
    encoder = _encoder_of(order)
    begun = time.perf_counter()
    rows_nF = np.asarray(
        embedded(ArrayImages(torch.from_numpy(images.pixels)), encoder, dtype="float32")
    )
    between = time.perf_counter()
    file = Path(order["file"])
    portion = sources.digest(order["portion"])
    write(file, images.ids, rows_nF, portion, images.unreadable)
    return {
        "num_rows": len(images.ids),
        "num_unreadable": len(images.unreadable),
        "num_bytes": file.stat().st_size,
        "decoding": images.seconds,
        "embedding": between - begun,
        "writing": time.perf_counter() - between,
    }


def _in_parts(
    items: Iterable[tuple[str, Content]],
) -> Iterator[list[tuple[str, Content]]]:
    """Yield items some at a time, so that few files are in memory at once."""
    every = iter(items)
    while some := list(islice(every, _AT_ONCE)):
        yield some


def _encoder_of(order: Order) -> Encoder:
    return _encoder(order["encoder"], json.dumps(order["options"]), order["side"])


@lru_cache(maxsize=1)
def _encoder(name: str, options: str, side: int) -> Encoder:
    """Return an encoder, made once per process, on a GPU if this process has one.

    It has seen some images: the first take longer than all others.
    """
    encoder = encoders.resolve(name, **json.loads(options))
    move = getattr(encoder, "to", None)
    if move is not None and torch.cuda.is_available():
        move("cuda")
    import_module("pyarrow.parquet")
    encoder.embed(torch.zeros(_FIRST, _COLORS, side, side, dtype=torch.uint8))
    return encoder
