"""The folder of shards that is written: begun once, gone on with, never mixed up.

``embed.json`` says what it was begun with. A shard appears whole or not at all, under
the number of its portion, and says in its metadata which portion that was and which
images could not be read; so a shard that is there is done. ``unreadable.csv`` lists
those images at the end.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewlabels import files
from fewlabels.errors import RunInUseError, SettingsChangedError, UnreadableFile
from fewlabels.seals import opened, sealed

UNREADABLE = "unreadable.csv"
"""Name of the list of images that are in no shard."""

_PLAN, _LOCK = "embed.json", "lock"
_TOLD = b"fewlabels"
_MARKS = ".{}.*.begun"
_MOST_BYTES = 2**20


@dataclass(frozen=True)
class Written:
    """A shard that is there."""

    num_rows: int
    unreadable: tuple[UnreadableFile, ...]


@dataclass(frozen=True)
class ShardFolder:
    """A folder that shards are written to."""

    path: Path

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out while the block runs."""
        in_use = RunInUseError(
            f"Another process writes shards to '{self.path}'. Wait for it or end it, "
            "or choose another folder."
        )
        files.make_folder(self.path)
        with files.alone(self.path / _LOCK, in_use):
            yield

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Write down what the folder is for, or see that it is for the same.

        Raises:
            SettingsChangedError: If it was begun with something else.
        """
        path = self.path / _PLAN
        if not path.is_file():
            files.check_free(self.path, "folder of shards", _LOCK)
            files.replace_text(path, sealed(json.dumps(plan, indent=2)) + "\n")
            return
        before = _read(path)
        changed = [name for name in plan if before.get(name) != plan[name]]
        if changed:
            told = "; ".join(
                f"{name} was {before.get(name)!r} and is {plan[name]!r}"
                for name in changed
            )
            raise SettingsChangedError(
                f"The shards in '{self.path}' were begun with something else: {told}. "
                "Rows of both would be mixed. Choose a new folder, or give what it was "
                "begun with."
            )
        for mark in self.path.glob(_MARKS.format("*")):  # of an earlier time
            mark.unlink(missing_ok=True)

    def file(self, number: int) -> Path:
        """Return where the shard of a portion is."""
        return self.path / f"shard-{number:07}.parquet"

    def written(self, number: int, portion: str) -> Written | None:
        """Return what is known of the shard of a portion; None: it is to be made."""
        from pyarrow import ArrowException, parquet

        try:
            found = parquet.read_metadata(self.file(number))
            told = json.loads((found.metadata or {})[_TOLD])
            unreadable = tuple(UnreadableFile(*one) for one in told["unreadable"])
        except (OSError, ArrowException, KeyError, TypeError, ValueError):
            return None  # not there, or damaged, or somebody else's
        is_same = told.get("portion") == portion
        return Written(found.num_rows, unreadable) if is_same else None

    def list_unreadable(self, unreadable: Sequence[UnreadableFile]) -> None:
        """Write the list of images that could not be read."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(["id", "reason"])
        lines.writerows((one.name, one.reason) for one in unreadable)
        files.replace_text(self.path / UNREADABLE, text.getvalue())


@contextmanager
def counted(file: Path) -> Iterator[int]:
    """Hand out how often a shard was begun before and not finished, by whomever.

    A process that is killed leaves a mark of its own beside the shard, and the one that
    finishes it sweeps all of them.

    Yields:
        The number of marks that were there.
    """
    before = list(file.parent.glob(_MARKS.format(file.name)))
    own = file.with_name(_MARKS.format(file.name).replace("*", token_hex(4)))
    with files.explained(own):
        own.touch()
    yield len(before)
    for mark in [*before, own]:
        mark.unlink(missing_ok=True)


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
    with files.replacing(file) as partial:
        # Numbers like these do not shrink, and are quicker to read as they are.
        parquet.write_table(
            table, partial, compression="none", use_dictionary=False, store_schema=True
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        text, _ = opened(files.read_regular(path, _MOST_BYTES))
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    except (OSError, ValueError) as error:
        raise SettingsChangedError(
            f"'{path}' is damaged ({error}), so what the shards beside it were made "
            "with is not known. Choose a new folder."
        ) from error
    raise SettingsChangedError(f"'{path}' says nothing. Choose a new folder.")
