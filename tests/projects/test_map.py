"""Where each image lies and what is near it, for tools that draw maps."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.decomposition import PCA
from tests.projects.toy import begin, go_on

from fewlabels.experiments.settings import Choice
from fewlabels.projects.export import PredictionRows, write_predictions
from fewlabels.projects.export import map as module
from fewlabels.projects.export.map import NUM_NEIGHBORS, FeatureFile


def written(folder, rows, parts=3):
    """Return the map of some rows, which came in parts."""
    table, path = folder / "predictions.parquet", folder / "map.parquet"
    names = [f"{number}.png" for number in range(len(rows))]
    shares = torch.full((len(rows), 2), 0.5)
    write_predictions(table, ["a", "b"], [PredictionRows(names, shares)])
    features = FeatureFile(folder, len(rows))
    for part in torch.from_numpy(rows).tensor_split(parts):
        features.add(part)
    features.write_map(path, table)
    assert {one.name for one in folder.iterdir()} == {table.name, path.name}
    found = pq.read_table(path)
    assert found["file_name"].to_pylist() == names
    return found.to_pylist()


@pytest.fixture
def rows():
    draws = np.random.default_rng(0)
    return (draws.normal(size=(60, 9)) * np.arange(9, 0, -1)).astype(np.float32)


def test_positions_are_the_main_components(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 7)
    found = written(tmp_path, rows)
    own = np.asarray([[one["x"], one["y"]] for one in found])
    expected = PCA(2).fit_transform(rows.astype(np.float64))
    np.testing.assert_allclose(np.abs(own), np.abs(expected), atol=1e-4)
    assert written(tmp_path, rows) == found  # always the same


def test_neighbors_are_the_nearest_directions(rows, tmp_path):
    found = written(tmp_path, rows)
    centered = rows - rows.mean(axis=0)
    unit = centered / np.linalg.norm(centered, axis=1, keepdims=True)
    distances = np.linalg.norm(unit[:, None] - unit[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    for number, one in enumerate(found):
        near = one["neighbors"]
        order = np.argsort(distances[number])[:NUM_NEIGHBORS]
        assert near["ids"] == order.tolist()
        np.testing.assert_allclose(
            near["distances"], distances[number, order], atol=1e-4
        )


def test_few_rows_that_are_narrow_or_equal(tmp_path):
    alone = written(tmp_path, np.ones((1, 3), dtype=np.float32), parts=1)
    assert alone[0]["neighbors"] == {"ids": [], "distances": []}
    narrow = np.asarray([[0], [1], [1], [5]], dtype=np.float32)
    found = written(tmp_path, narrow, parts=2)
    assert [one["y"] for one in found] == [0.0] * 4
    assert found[1]["x"] == found[2]["x"]
    assert np.isfinite([one["x"] for one in found]).all()


def test_an_export_has_a_map(tmp_path):
    head = Choice(name="frozen-linear", options={"encoder": "pixels"})
    with begin(tmp_path, trainer=head) as project:
        go_on(project)
        project.train()
        done = project.export(tmp_path / "out")
    assert tmp_path / "out/map.parquet" in done.files
    found = pq.read_table(tmp_path / "out/map.parquet")
    other = pq.read_table(tmp_path / "out/predictions.parquet")
    for name in ("file_name", "label", "confidence", "source"):
        assert found[name].equals(other[name])
    assert found.column_names[4:] == ["x", "y", "neighbors"]
    ids = found["neighbors"].combine_chunks().field("ids").flatten().to_pylist()
    assert set(ids) <= set(range(24))
