"""Embed all images of a source into a folder of Parquet shards.

A source is a folder of images, a manifest, a Parquet table that holds images (or a
folder of such tables), or a WebDataset: a tar file, or a folder of them. It is divided
into portions, each of which becomes one Parquet file with the columns ``id`` and
``embedding``. A portion is plain values that any process can read by itself, and which
process or machine does so changes no bit.

``embed.json`` records what the folder was begun with. A shard appears whole or not at
all, under the number of its portion, and its metadata identify that portion and the
images that could not be read; so a shard that exists is done. ``unreadable.csv`` lists
those images at the end.

Shapes: n images, F features.
"""

import csv
import io
import json
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fewlabels import errors, files
from fewlabels.data.decode import MAX_BYTES, decode_once
from fewlabels.data.folder import image_names, is_image
from fewlabels.data.manifest import file_names
from fewlabels.data.parquet import image_rows, num_images
from fewlabels.data.untrusted import MANIFESTS, is_utf8, left_out, natural_key
from fewlabels.jobs import Executor, LocalExecutor, error_of, startable
from fewlabels.models import encoders
from fewlabels.models.embedding import embedded
from fewlabels.models.encoders import NORMAL, QUALITIES, Encoder
from fewlabels.names import AllowCode, check_known
from fewlabels.pool import ArrayImages
from fewlabels.progress import track

Portion = dict[str, Any]
"""Some images of a source: its ``kind`` and ``path``, and their ``entries`` in it:
names of files, places in a tar file, or numbers of rows."""

SHARD_SIZE = 1024
"""Images of a shard, by default."""
UNREADABLE = "unreadable.csv"
"""Name of the list of images that are in no shard."""

_CALL = f"{__name__}:embed_portion"
_PLAN, _LOCK = "embed.json", "lock"
_METADATA = b"fewlabels"
_MAX_PIXELS = 2**31  # bytes that a worker holds of a shard
_WARM_UP, _SAMPLE = 32, 128  # images of a trial, empty and timed


@dataclass(frozen=True)
class EmbeddingResult:
    """The shards of a source, once they are complete."""

    folder: Path
    num_rows: int
    num_shards: int
    num_found: int
    """Shards that existed already."""
    unreadable: tuple[errors.UnreadableFile, ...]
    """Images that are in no shard; ``unreadable.csv`` lists them too."""


@dataclass(frozen=True)
class Cost:
    """What embedding will cost: seconds of a worker, and bytes.

    Workers do not wait for each other, so W of them are W times as fast, after each has
    loaded its encoder.
    """

    num_images: int
    """Images of the source."""
    shard_size: int
    """Images of a shard."""
    starting: float
    """Seconds until a worker is ready, once."""
    decoding: float
    """Seconds to read and decode an image."""
    embedding: float
    """Seconds that the encoder takes for an image."""
    writing: float
    """Seconds to write a shard, whatever its size."""
    processor: float
    """Seconds of a processor for an image: less where workers wait for a disk, for a
    GPU, or for others who use the machine."""
    row_bytes: float
    """Bytes of an image in a shard."""

    @property
    def per_image(self) -> float:
        """Seconds of a worker for an image."""
        return self.decoding + self.embedding + self.writing / self.shard_size

    @property
    def worker_hours(self) -> float:
        """Hours of all workers together."""
        return self.num_images * self.per_image / 3600

    def seconds(self, num_workers: float) -> float:
        """Return how long so many workers take."""
        return self.starting + 3600 * self.worker_hours / num_workers

    @property
    def num_bytes(self) -> float:
        """Bytes of the shards."""
        return self.num_images * self.row_bytes


@dataclass(frozen=True)
class Work:
    """Images to embed, the encoder, and the folder of the shards."""

    portions: tuple[Portion, ...]
    """All images, in a fixed order; each portion becomes a shard."""
    left_out: tuple[errors.UnreadableFile, ...]
    """What looks like an image and cannot be one, by name and reason."""
    encoder: str
    options: Mapping[str, Any]
    side: int
    """Side of the squares that images are resized to."""
    folder: Path
    plan: Mapping[str, Any]
    """What decides the rows."""

    def run(self, executor: Executor) -> EmbeddingResult:
        """Make the shards that are missing; the same call resumes after a kill."""
        shards = {
            self.folder / f"shard-{number:07}.parquet": portion
            for number, portion in enumerate(self.portions)
        }
        in_use = errors.RunInUseError(
            f"Another process writes shards to '{self.folder}'. Wait for it or end it, "
            "or choose another folder."
        )
        files.make_folder(self.folder)
        with files.hold_lock(self.folder / _LOCK, in_use):
            self._check_plan()
            missing = {f: p for f, p in shards.items() if _read_shard(f, p) is None}
            sizes = [len(portion["entries"]) for portion in missing.values()]
            total = self.plan["images"]
            with track("Embedding", total, done=total - sum(sizes)) as advance:
                for number, _ in self._embed(executor, missing):
                    advance(sizes[number])
            read = [_read_shard(*shard) or (0, []) for shard in shards.items()]
            unreadable = [*self.left_out, *(file for _, some in read for file in some)]
            text = io.StringIO()
            lines = csv.writer(text, lineterminator="\n")
            lines.writerow(["id", "reason"])
            lines.writerows((file.name, file.reason) for file in unreadable)
            files.replace_text(self.folder / UNREADABLE, text.getvalue())
        return EmbeddingResult(
            folder=self.folder,
            num_rows=sum(num_rows for num_rows, _ in read),
            num_shards=len(shards),
            num_found=len(shards) - len(missing),
            unreadable=tuple(unreadable),
        )

    def estimate(self, num_workers: int) -> Cost:
        """Embed some images by as many workers as there will be, and keep nothing.

        Args:
            num_workers: Workers at a time; they share memory and disk.

        Returns:
            The cost of all of it.
        """
        step, total = max(1, len(self.portions) // num_workers), Counter[str]()
        trial = [
            portion | {"entries": portion["entries"][:_SAMPLE]}
            for portion in self.portions[::step][:num_workers]
        ]
        with tempfile.TemporaryDirectory() as folder:
            shards = {Path(folder) / f"{n}.parquet": p for n, p in enumerate(trial)}
            begun = time.perf_counter()
            for _, result in self._embed(LocalExecutor(len(trial)), shards):
                total.update(result)
            seconds = time.perf_counter() - begun
        num_images = sum(len(portion["entries"]) for portion in trial)
        busy = total["decoding"] + total["embedding"] + total["writing"]
        return Cost(
            num_images=self.plan["images"],
            shard_size=self.plan["shard_size"],
            starting=max(0.0, seconds - busy / len(trial)),
            decoding=total["decoding"] / num_images,
            embedding=total["embedding"] / num_images,
            writing=total["writing"] / len(trial),
            processor=total["processor"] / num_images,
            row_bytes=total["num_bytes"] / num_images,
        )

    def _embed(
        self, executor: Executor, shards: Mapping[Path, Portion]
    ) -> Iterator[tuple[int, dict[str, float]]]:
        """Write shards; yield the number of each and what it took."""
        common = {"encoder": self.encoder, "options": self.options, "side": self.side}
        orders = [
            {**common, "portion": portion, "file": str(file.absolute())}
            for file, portion in shards.items()
        ]
        with closing(executor.run(_CALL, orders, self.folder)) as running:
            for number, end in running:
                if end["event"] != "done":
                    raise error_of(end)
                yield number, end["result"]

    def _check_plan(self) -> None:
        """Write the plan into a new folder; raise if it was begun with another one."""
        path = self.folder / _PLAN
        if not path.is_file():
            files.check_empty_folder(self.folder, "folder of shards", _LOCK)
            text = files.add_checksum(json.dumps(self.plan, indent=2))
            files.replace_text(path, f"{text}\n")
            return
        try:
            content = files.read_regular(path, most_bytes=2**20)
            before = dict(files.parse_json(files.verify_checksum(content)))
        except (OSError, ValueError, TypeError) as error:
            raise errors.SettingsChangedError(
                f"'{path}' is damaged ({error}); choose a new folder."
            ) from error
        changed = [
            f"{name} was {before.get(name)!r} and is {value!r}"
            for name, value in self.plan.items()
            if before.get(name) != value
        ]
        if changed:
            raise errors.SettingsChangedError(
                f"The shards in '{self.folder}' were begun with something else: "
                f"{'; '.join(changed)}. Choose a new folder."
            )


def planned(
    source: Path,
    out: Path,
    *,
    encoder: str | None = None,
    quality: str | None = None,
    shard_size: int = SHARD_SIZE,
) -> Work:
    """Look at a source and an encoder; nothing is written yet.

    Args:
        source: A folder of images, of tar files (a WebDataset) or of Parquet tables
            with images; a manifest; such a tar file or table.
        out: The folder of the shards: new, or one that was begun with the same.
        encoder: What makes the rows: any name that :mod:`fewlabels.models.encoders`
            knows.
        quality: How many pixels it sees: ``"fast"`` (96 a side), ``"normal"`` (160) or
            ``"best"`` (224); None: as the encoder says, else normal.
        shard_size: Images of a shard, and so what is lost when a worker is.

    Returns:
        The work, to be run by an executor.
    """
    name = encoder or encoders.ENCODER
    if quality is not None:
        check_known("quality", quality, encoders.Quality)
        if name == encoders.PIXELS:
            raise errors.UsageError(f"quality is '{quality}'; omit it for '{name}'.")
    side, source = QUALITIES[quality or NORMAL], source.expanduser()
    options = encoders.options_for_side(name, {}, side, is_asked=quality is not None)
    side = encoders.side(name, **options) or side
    shard_size = errors.whole_number("shard_size", shard_size)
    most = _MAX_PIXELS // (3 * side * side)
    errors.check_range("shard_size", shard_size, at_least=1, at_most=most)
    portions, left = list_images(source, shard_size)
    names = "".join(map(portion_digest, portions))
    plan = {
        "source": str(source.resolve()),
        "images": sum(len(portion["entries"]) for portion in portions),
        "listing": blake2b(names.encode(), digest_size=16).hexdigest(),
        "encoder": encoders.resolve(name, **options).name,
        "side": side,
        "shard_size": shard_size,
    }
    place, folder = encoders.absolute(name), out.expanduser()
    return Work(portions, left, place, options, side, folder, plan)


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
        side: Side of the squares that images are resized to.
        file: The shard.
        allow_code: Not used: the encoder was allowed when the work was planned.

    Returns:
        The bytes of the shard, and the seconds that each part took.
    """
    del allow_code
    network = _encoder(encoder, json.dumps(options), side)  # once, not timed
    processor, begun = time.process_time(), time.perf_counter()
    shape = (3, side, side)
    ids: list[str] = []
    unreadable: list[errors.UnreadableFile] = []
    pixels = np.empty((len(portion["entries"]), *shape), dtype=np.uint8)

    def decode(content: Path | bytes) -> NDArray[np.uint8] | errors.DataError:
        try:
            return decode_once(content, shape)
        except errors.DataError as error:
            return error

    with ThreadPoolExecutor(4) as threads:  # waiting for a disk costs no core
        entries = read_portion(portion)
        while batch := list(islice(entries, 64)):
            images = threads.map(decode, [content for _, content in batch])
            for (name, _), image in zip(batch, images, strict=True):
                if isinstance(image, errors.DataError):
                    unreadable.append(left_out(name, str(image)))
                else:
                    pixels[len(ids)] = image
                    ids.append(name)
    decoded = time.perf_counter()
    readable = ArrayImages(torch.from_numpy(pixels[: len(ids)]))
    rows_nF = np.asarray(embedded(readable, network, dtype="float32"))
    finished = time.perf_counter()
    write_shard(Path(file), ids, rows_nF, portion_digest(portion), unreadable)
    return {
        "num_bytes": Path(file).stat().st_size,
        "decoding": decoded - begun,
        "embedding": finished - decoded,
        "writing": time.perf_counter() - finished,
        "processor": time.process_time() - processor,
    }


@lru_cache(maxsize=1)
def _encoder(name: str, options: str, side: int) -> Encoder:
    """Return an encoder, built once per process, on a GPU if this process has one.

    It has seen some images: the first take longer than all others.
    """
    encoder = encoders.resolve(name, **json.loads(options))
    move = getattr(encoder, "to", None)
    if move is not None and torch.cuda.is_available():
        move("cuda")
    import_module("pyarrow.parquet")
    encoder.embed(torch.zeros(_WARM_UP, 3, side, side, dtype=torch.uint8))
    return encoder


def write_shard(
    file: Path,
    ids: Sequence[str],
    rows_nF: NDArray[np.float32],
    portion: str,
    unreadable: Sequence[errors.UnreadableFile],
) -> None:
    """Write a shard: the columns ``id`` and ``embedding``, whole or not at all."""
    import pyarrow as pa
    from pyarrow import parquet

    left = [[image.name, image.reason] for image in unreadable]
    metadata = {_METADATA: json.dumps({"portion": portion, "unreadable": left})}
    width = rows_nF.shape[1]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows_nF.reshape(-1)), width)
    columns = {"id": pa.array(ids, pa.string()), "embedding": lists}
    with files.replace_file(file) as partial:
        # Numbers like these do not shrink, and are quicker to read as they are.
        table = pa.table(columns, metadata=metadata)
        parquet.write_table(table, partial, compression="none", use_dictionary=False)


def _read_shard(
    file: Path, portion: Portion
) -> tuple[int, list[errors.UnreadableFile]] | None:
    """Return rows and unreadable images of a shard; None: it is missing."""
    from pyarrow import ArrowException, parquet

    try:
        header = parquet.read_metadata(file)
        metadata = json.loads((header.metadata or {})[_METADATA])
        unreadable = [errors.UnreadableFile(*image) for image in metadata["unreadable"]]
        is_same = metadata["portion"] == portion_digest(portion)
    except (OSError, ArrowException, KeyError, TypeError, ValueError):
        return None  # not there, damaged, or another file
    return (header.num_rows, unreadable) if is_same else None


def list_images(
    source: Path, size: int
) -> tuple[tuple[Portion, ...], tuple[errors.UnreadableFile, ...]]:
    """Return the images of a source in portions of at most ``size``, and what is none.

    What looks like an image and cannot be one comes by name and reason.
    """
    left, is_file = list[errors.UnreadableFile](), source.is_file()
    inside = [*source.glob("*.tar"), *source.glob("*.parquet")]
    inside = [source] if is_file else sorted(inside, key=lambda p: natural_key(p.name))
    tars = [path for path in inside if path.suffix.lower() == ".tar"]
    groups: list[Any] = [("tar", path, _tar_entries(path, left)) for path in tars]
    if not tars:
        paths = [path for path in inside if path.suffix.lower() == ".parquet"]
        tables = [(path, num_images(path)) for path in paths]
        groups = [("parquet", p, range(n)) for p, n in tables if n is not None]
    if not groups and source.is_dir():
        names, left = image_names(source)
        groups = [("files", source, names)]
    elif not groups and is_file and source.suffix.lower() in MANIFESTS:
        names = sorted(file_names(source), key=natural_key)
        groups = [("files", source.parent, names)]
    elif not groups:
        known = ", ".join(sorted({*MANIFESTS, ".tar"}))
        raise errors.DataError(
            f"There is nothing to embed at '{source}'. Give a folder of images, tar "
            f"files or Parquet tables, or a file that ends in {known}."
        )
    portions = tuple(
        {"kind": k, "path": str(path.absolute()), "entries": list(some[i : i + size])}
        for k, path, some in groups
        for i in range(0, len(some), size)
    )
    if not portions:
        seen = f" {len(left)} cannot be read, the first is {left[0]}." if left else ""
        raise errors.DataError(f"There is no image in '{source}'.{seen}")
    return portions, tuple(sorted(left))


def _tar_entries(path: Path, left: list[errors.UnreadableFile]) -> list[Any]:
    """Return name, place and size of each image in a tar file."""
    entries: dict[str, list[Any]] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                name = f"{path.name}/{member.name}"
                if not member.isreg() or not is_image(PurePosixPath(member.name).name):
                    continue
                if is_utf8(name):  # of one name, the last counts, as when unpacked
                    entries[name] = [name, member.offset_data, member.size]
                else:
                    left.append(left_out(name, "its name is not UTF-8"))
    except (OSError, tarfile.TarError) as error:
        raise errors.DataError(
            f"The tar file '{path}' is damaged or compressed: {error}."
        ) from error
    return list(entries.values())


def portion_digest(portion: Portion) -> str:
    """Return a hash of the names in a portion, but not of the folder they are in."""
    named = portion | {"path": Path(portion["path"]).name}
    text = json.dumps(named, sort_keys=True)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def read_portion(portion: Portion) -> Iterator[tuple[str, Path | bytes]]:
    """Yield id and file, or content, of each image of a portion, in order.

    The content is empty where a tar file or a table does not hold all of it.
    """
    path, entries = Path(portion["path"]), portion["entries"]
    if portion["kind"] == "files":
        yield from ((name, path / name) for name in entries)
    elif portion["kind"] == "tar":
        with files.open_regular(path, most_bytes=2**42) as file:
            for name, offset, size in entries:
                file.seek(offset)
                content = file.read(size) if size <= MAX_BYTES else b""
                yield name, content if len(content) == size else b""
    else:
        rows = image_rows(path, entries[0], len(entries))
        for row, (name, content) in zip(entries, rows, strict=False):
            yield f"{path.name}:{row}" if name is None else name, content
