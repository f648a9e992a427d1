"""Images to embed, an executor without processes, and shards as arrays."""

from pathlib import Path

import numpy as np
from pyarrow import parquet
from tests.data.pictures import save

from fewlabels.models.bulk import embed_portion, planned


def pictures(folder, number):
    """Write some images, and one that is none; return their folder."""
    for one in range(number):
        save(folder / f"{one}.png", one, channels=3)
    (folder / "broken.png").write_bytes(b"nothing")
    return folder


class Here:
    """Does orders in this process, and stops after some."""

    def __init__(self, most=None):
        self.most = most
        self.files = []

    def run(self, call, orders, folder):
        for number, order in enumerate(orders):
            if number == self.most:
                raise KeyboardInterrupt
            self.files.append(Path(order["file"]).name)
            yield number, {"event": "done", "result": embed_portion(**order)}


def work(source, out, **options):
    """Plan to embed by the quickest encoder there is."""
    return planned(source, out, **{"encoder": "pixels", "shard_size": 4, **options})


def rows(folder):
    """Return the rows of all shards by id."""
    found = {}
    for path in sorted(folder.glob("*.parquet")):
        table = parquet.read_table(path)
        assert table.schema.names == ["id", "embedding"]
        for row in table.to_pylist():
            assert row["id"] not in found
            found[row["id"]] = np.array(row["embedding"], dtype=np.float32)
    return found
