"""The folder of shards that is written: begun once, gone on with, never mixed up.

``embed.json`` says what it was begun with. A shard appears whole or not at all, under
the number of its portion, and says in its metadata which portion that was and which
images could not be read; so a shard that is there is done. ``unreadable.csv`` lists
those images at the end.

Shapes: n images, F features.
"""

import csv
import io
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fewlabels import files
from fewlabels.data.decode import decode_once
from fewlabels.data.text import left_out
from fewlabels.errors import (
    DataError,
    RunInUseError,
    SettingsChangedError,
    UnreadableFile,
)
from fewlabels.files import add_checksum, verify_checksum
from fewlabels.jobs import startable
from fewlabels.models import encoders
from fewlabels.models.bulk import sources
from fewlabels.models.bulk.sources import Content, Portion
from fewlabels.models.embedding import embedded
from fewlabels.models.encoders import Encoder
from fewlabels.names import AllowCode
from fewlabels.pool import ArrayImages

UNREADABLE = "unreadable.csv"
"""Name of the list of images that are in no shard."""

_PLAN, _LOCK = "embed.json", "lock"
_TOLD = b"fewlabels"
_MOST_BYTES = 2**20
_COLORS = 3
_THREADS = 4  # waiting for a disk costs no core
_AT_ONCE = 64  # files in memory
_FIRST = 32


@dataclass(frozen=True)
class ShardFolder:
    """A folder that shards are written to."""

    path: Path

    @contextmanager
    def begun(self, plan: Mapping[str, Any]) -> Iterator[None]:
        """Keep other processes out while the block runs, and other plans for good."""
        in_use = RunInUseError(
            f"Another process writes shards to '{self.path}'. Wait for it or end it, "
            "or choose another folder."
        )
        files.make_folder(self.path)
        with files.hold_lock(self.path / _LOCK, in_use):
            self._check(plan)
            yield

    def _check(self, plan: Mapping[str, Any]) -> None:
        """Write down what the folder is for, or see that it is for the same."""
        path = self.path / _PLAN
        if not path.is_file():
            files.check_empty_folder(self.path, "folder of shards", _LOCK)
            files.replace_text(path, add_checksum(json.dumps(plan, indent=2)) + "\n")
            return
        try:
            before = json.loads(verify_checksum(files.read_regular(path, _MOST_BYTES)))
        except (OSError, ValueError) as error:
            raise SettingsChangedError(
                f"'{path}' is damaged ({error}), so what the shards beside it were "
                "made with is not known. Choose a new folder."
            ) from error
        if not isinstance(before, dict):
            raise SettingsChangedError(f"'{path}' says nothing. Choose a new folder.")
        changed = [
            f"{name} was {before.get(name)!r} and is {plan[name]!r}"
            for name in plan
            if before.get(name) != plan[name]
        ]
        if changed:
            raise SettingsChangedError(
                f"The shards in '{self.path}' were begun with something else: "
                f"{'; '.join(changed)}. Rows of both would be mixed. Choose a new "
                "folder, or give what it was begun with."
            )

    def file(self, number: int) -> Path:
        """Return where the shard of a portion is."""
        return self.path / f"shard-{number:07}.parquet"

    def written(
        self, number: int, portion: str
    ) -> tuple[int, list[UnreadableFile]] | None:
        """Return rows and unreadable images of a shard; None: it is to be made."""
        from pyarrow import ArrowException, parquet

        try:
            found = parquet.read_metadata(self.file(number))
            told = json.loads((found.metadata or {})[_TOLD])
            unreadable = [UnreadableFile(*file) for file in told["unreadable"]]
            is_same = told["portion"] == portion
        except (OSError, ArrowException, KeyError, TypeError, ValueError):
            return None  # not there, or damaged, or somebody else's
        return (found.num_rows, unreadable) if is_same else None

    def list_unreadable(self, unreadable: Sequence[UnreadableFile]) -> None:
        """Write the list of images that could not be read."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(["id", "reason"])
        lines.writerows((one.name, one.reason) for one in unreadable)
        files.replace_text(self.path / UNREADABLE, text.getvalue())


@startable
def embed_portion(
    portion: Portion,
    encoder: str,
    options: Mapping[str, Any],
    side: int,
    file: str,
    *,
    allow_code: AllowCode = False,
) -> dict[str, float]:
    """Decode the images of a portion, embed them and write their shard.

    Args:
        portion: The images.
        encoder: Name of what embeds them.
        options: Its options.
        side: Side of the squares that images are brought to.
        file: The shard.
        allow_code: Of no effect: whoever planned the work allowed the encoder.

    Returns:
        The bytes of the shard, and the seconds that each part took.
    """
    del allow_code
    made = _encoder(encoder, json.dumps(options), side)  # once, not timed
    processor, begun = time.process_time(), time.perf_counter()
    shape = (_COLORS, side, side)
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
        for some in sources.cut(sources.opened(portion), _AT_ONCE):
            images = threads.map(image, [content for _, content in some])
            for (name, _), found in zip(some, images, strict=True):
                if isinstance(found, str):
                    unreadable.append(left_out(name, found))
                else:
                    pixels[len(ids)] = found
                    ids.append(name)
    decoded = time.perf_counter()
    readable = ArrayImages(torch.from_numpy(pixels[: len(ids)]))
    rows_nF = np.asarray(embedded(readable, made, dtype="float32"))
    finished = time.perf_counter()
    write(Path(file), ids, rows_nF, sources.digest(portion), unreadable)
    return {
        "num_bytes": Path(file).stat().st_size,
        "decoding": decoded - begun,
        "embedding": finished - decoded,
        "writing": time.perf_counter() - finished,
        "processor": time.process_time() - processor,
    }


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


def write(
    file: Path,
    ids: Sequence[str],
    rows_nF: NDArray[np.float32],
    portion: str,
    unreadable: Sequence[UnreadableFile],
) -> None:
    """Write a shard: the columns ``id`` and ``embedding``, whole or not at all."""
    import pyarrow as pa
    from pyarrow import parquet

    left = [[one.name, one.reason] for one in unreadable]
    told = json.dumps({"portion": portion, "unreadable": left})
    width = rows_nF.shape[1]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows_nF.reshape(-1)), width)
    table = pa.table(
        {"id": pa.array(ids, pa.string()), "embedding": lists}, metadata={_TOLD: told}
    )
    with files.replace_file(file) as partial:
        # Numbers like these do not shrink, and are quicker to read as they are.
        parquet.write_table(
            table, partial, compression="none", use_dictionary=False, store_schema=True
        )
