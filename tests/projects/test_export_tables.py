import csv
import weakref
from datetime import UTC, datetime, timedelta, timezone

import pyarrow.parquet as pq
import pytest
import torch

from fewlabels.errors import StorageError, UnknownNameError, UsageError
from fewlabels.projects.export import (
    prediction_schema,
    prediction_table,
    write_labels,
    write_table,
)
from fewlabels.rng import stream

ODD = 'a folder/zwölf, "12"\n.png'
ROWS = [
    {
        "file_name": "cats/1.png",
        "label": "cat",
        "annotator": "Ada",
        "time": datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC),
        "round": 0,
        "strategy": "npc",
    },
    {
        "file_name": ODD,
        "label": "a dog, or so",
        "time": datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=2))),
    },
    {"file_name": "3.png", "label": "cat", "round": 2, "strategy": "audit"},
]


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_labels_as_csv(tmp_path):
    path = tmp_path / "labels.csv"
    write_labels(path, ROWS)
    assert path.read_text("utf-8").splitlines()[:2] == [
        "file_name,label,annotator,time,round,strategy,source",
        "cats/1.png,cat,Ada,2026-03-01T12:30:15.250+00:00,0,npc,human",
    ]
    rows = read_csv(path)
    assert [row["file_name"] for row in rows] == ["cats/1.png", ODD, "3.png"]
    assert rows[1]["label"] == "a dog, or so"
    assert rows[1]["time"] == "2026-02-28T23:00:00.000+00:00"
    assert rows[1]["annotator"] == rows[1]["round"] == rows[2]["time"] == ""


def test_labels_as_parquet_hold_the_same(tmp_path):
    path = tmp_path / "labels.parquet"
    write_labels(path, iter(ROWS))
    found = pq.read_table(path).to_pylist()
    for row, expected in zip(found, ROWS, strict=True):
        assert row.pop("source") == "human"
        assert row == dict.fromkeys(row) | expected


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet"])
def test_no_labels_leave_the_columns(tmp_path, name):
    write_labels(tmp_path / name, [])
    if name.endswith("csv"):
        assert read_csv(tmp_path / name) == []
        assert (tmp_path / name).read_text().startswith("file_name,label,")
    else:
        assert pq.read_table(tmp_path / name).column_names[0] == "file_name"


def test_a_table_has_one_of_two_endings(tmp_path):
    with pytest.raises(UnknownNameError, match=r"Known: \.csv, \.parquet"):
        write_labels(tmp_path / "labels.xlsx", ROWS)


def test_a_folder_that_is_not_there_is_said(tmp_path):
    for name in ("labels.csv", "labels.parquet"):
        with pytest.raises(StorageError, match="could not be written"):
            write_labels(tmp_path / "nowhere" / name, ROWS)


def write(path):
    """Write predictions in two parts."""
    names, half = ["cat", "dog"], torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    sure = torch.tensor([[0.75, 0.25], [0.125, 0.875]])
    parts = [
        prediction_table(names, ["a.png", "b.png"], sure, [None, "cat"]),
        prediction_table(names, ["c.png"], half),
    ]
    write_table(path, prediction_schema(names), parts)


def test_predictions_as_parquet(tmp_path):
    path = tmp_path / "predictions.parquet"
    write(path)
    names = ["file_name", "label", "confidence", "source", "p_cat", "p_dog"]
    assert pq.read_table(path).to_pylist() == [
        dict(zip(names, row, strict=True))
        for row in [
            ("a.png", "cat", 0.75, "model", 0.75, 0.25),
            ("b.png", "cat", 0.125, "human", 0.125, 0.875),  # the model doubts it
            ("c.png", "cat", 0.5, "model", 0.5, 0.5),
        ]
    ]
    assert pq.ParquetFile(path).num_row_groups == 2


def test_predictions_as_csv(tmp_path):
    path = tmp_path / "predictions.csv"
    write(path)
    assert path.read_text("utf-8").splitlines()[:3] == [
        "file_name,label,confidence,source,p_cat,p_dog",
        "a.png,cat,0.75,model,0.75,0.25",
        "b.png,cat,0.125,human,0.125,0.875",
    ]


def test_refusals_leave_no_file(tmp_path):
    path = tmp_path / "predictions.parquet"
    with pytest.raises(UsageError, match="are not distinct"):
        write_table(path, prediction_schema(["a", "a"]), [])

    def too_wide():
        yield prediction_table(["a"], ["x"], torch.ones(1, 2))

    with pytest.raises(ValueError, match="arrays unequal"):
        write_table(path, prediction_schema(["a"]), too_wide())
    assert list(tmp_path.iterdir()) == []


def test_a_hundred_thousand_images_of_a_hundred_classes_are_streamed(tmp_path):
    num_images, num_classes, size = 100_000, 100, 20_000
    draws = stream(0, "predictions")
    names = [str(c) for c in range(num_classes)]
    made, most_alive = [], 0

    def parts():
        nonlocal most_alive
        for start in range(0, num_images, size):
            rows = torch.rand(size, num_classes, generator=draws)
            made.append(weakref.ref(rows))
            most_alive = max(most_alive, sum(one() is not None for one in made))
            paths = [f"{start + i}.png" for i in range(size)]
            yield prediction_table(names, paths, rows)

    path = tmp_path / "predictions.parquet"
    write_table(path, prediction_schema(names), parts())
    assert most_alive <= 2  # of five: the one being made and the one being written
    written = pq.ParquetFile(path)
    sizes = [
        written.metadata.row_group(number).num_rows
        for number in range(written.num_row_groups)
    ]
    assert sum(sizes) == num_images
    assert max(sizes) <= 8192
