"""Images of a Hugging Face data set on this machine, as files.

A data set that ``save_to_disk`` wrote consists of Arrow files, one of the hub of
Parquet files; both hold the bytes of each image. They are written to a folder once and
are images like any others from then on. Nothing is downloaded, no code of a data set is
run, and none of its names becomes the name of a file.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fewlabels import files
from fewlabels.data.decode import MAX_BYTES
from fewlabels.data.parquet import holds_bytes
from fewlabels.data.untrusted import natural_key
from fewlabels.errors import DataError, UsageError
from fewlabels.progress import track

PREFIX = "hf-dataset:"
"""What a source begins with; a folder follows, and ``@`` with a split, if wanted."""

_SHARD = re.compile(r"(\w{1,80})-\d{5}-of-\d{5}", re.ASCII)
_ENDINGS = (".arrow", ".parquet")
_ROWS_AT_ONCE = 8  # each may be a large image
_UNPACKED_BYTES, _UNPACKED_RATIO = 2**30, 8
"""What may be written from any data set, and for each byte of a large one."""
_MAGIC = (
    *((b"\x89PNG", ".png"), (b"\xff\xd8\xff", ".jpg"), (b"RIFF", ".webp")),
    *((b"GIF8", ".gif"), (b"BM", ".bmp"), (b"II*\0", ".tif"), (b"MM\0*", ".tif")),
)


def unpack(source: str) -> tuple[Path, tuple[str, ...]]:
    """Return the folder of the images of a data set, and the names of its classes.

    The folder is beside the data set. If it is missing it is written, completely or not
    at all; a row without an image is left out.

    Args:
        source: ``hf-dataset:FOLDER``, or ``hf-dataset:FOLDER@SPLIT``.

    Returns:
        The folder; and names, none where the data set has no classes.
    """
    name, split = source.removeprefix(PREFIX), ""
    if not Path(name).expanduser().is_dir() and "@" in name:
        name, _, split = name.rpartition("@")
    folder = Path(name).expanduser().resolve()
    if not folder.is_dir():
        raise UsageError(f"There is no folder '{name}'; get one by 'hf download'.")
    shards = _shards(folder, split)
    with _opened(shards[0][1]) as (schema, _):
        features = _features(schema).values()
    labels = [part for part in features if part.get("_type") == "ClassLabel"]
    classes = tuple(map(str, labels[0].get("names", ()))) if labels else ()
    suffix = f"-{split}" if split else ""
    images = folder.with_name(f"{folder.name}{suffix}-images")
    if not images.is_dir():
        _write_images(shards, images)
    return images, classes


def _shards(folder: Path, wanted: str) -> list[tuple[str, Path]]:
    """Return the files of a data set, or of a split, in their order, with their splits.

    A file ``data-00000-of-00001`` belongs to the split that its folder names.
    """
    paths = [path for path in folder.rglob("*") if path.suffix in _ENDINGS]
    paths.sort(key=lambda path: natural_key(path.relative_to(folder).as_posix()))
    shards = []
    for path in paths:
        match, above = _SHARD.fullmatch(path.stem), path.parent.name
        split = match[1] if match else ""
        if split == "data":
            is_split = path.parent != folder and re.fullmatch(r"(?a)\w{1,80}", above)
            split = above if is_split else ""
        shards.append((split, path))
    chosen = [shard for shard in shards if wanted in {"", shard[0]}]
    if not chosen:
        splits = ", ".join(sorted({split for split, _ in shards if split}))
        raise DataError(
            f"'{folder}' has no Arrow or Parquet files of a data set, or of the split "
            f"'{wanted}'; its splits: {splits or 'none'}."
        )
    return chosen


def _write_images(shards: list[tuple[str, Path]], goal: Path) -> None:
    """Write the images of a data set as files, in a folder for each split."""
    packed = sum(path.stat().st_size for _, path in shards)
    bytes_left = max(_UNPACKED_BYTES, _UNPACKED_RATIO * packed)
    num_rows: Counter[str] = Counter()
    with files.staging_folder(goal) as partial:
        for split, content in _contents(shards):
            number = num_rows[split]
            num_rows[split] += 1
            bytes_left -= len(content)
            if bytes_left < 0:
                raise DataError(f"The images for '{goal}' are larger than their files.")
            ending = next((e for m, e in _MAGIC if content.startswith(m)), None)
            if ending and len(content) <= MAX_BYTES:
                (partial / split).mkdir(exist_ok=True)
                (partial / split / f"{number:07d}{ending}").write_bytes(content)
        if not any(partial.iterdir()):
            total = num_rows.total()
            raise DataError(f"None of {total} rows for '{goal}' is an image.")
        files.move(partial, goal)


def _contents(shards: list[tuple[str, Path]]) -> Iterator[tuple[str, bytes]]:
    """Yield split and bytes of the image in each row, empty where there are none."""
    with track("Unpacking", len(shards)) as advance:
        for split, path in shards:
            with _opened(path) as (schema, batches):
                known = {n: part.get("_type") for n, part in _features(schema).items()}
                held = [f.name for f in schema if holds_bytes(f.type, in_struct=True)]
                columns = [n for n in held if known.get(n) in {None, "Image"}]
                if not columns:
                    seen = ", ".join(f"{f.name} ({f.type})" for f in schema)
                    raise DataError(f"No column of '{path}' holds images: {seen}.")
                for batch in batches:
                    batch.validate(full=True)
                    for start in range(0, len(batch), _ROWS_AT_ONCE):
                        cells = batch.slice(start, _ROWS_AT_ONCE).column(columns[0])
                        for cell in cells.to_pylist():
                            yield split, (cell or {}).get("bytes") or b""
            advance()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Iterable[Any]]]:
    """Yield the schema of a file, and its rows in batches."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        if path.suffix == ".parquet":
            with parquet.ParquetFile(path) as table:
                yield table.schema_arrow, table.iter_batches(_ROWS_AT_ONCE)
        else:
            with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
                yield stream.schema, stream
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"'{path}' cannot be read: {error}") from error


def _features(schema: Any) -> dict[str, dict[str, Any]]:
    """Return the description of each column; nothing that is not understood."""
    text = (schema.metadata or {}).get(b"huggingface", b"{}")
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        features = files.parse_json(text)["info"]["features"].items()
        return {name: part for name, part in features if isinstance(part, dict)}
    return {}
