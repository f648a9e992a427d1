"""Rows that somebody brings, from the first question to predictions on new ones."""

import csv
import json

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from fewlabels.errors import FewlabelsError
from fewlabels.models.bulk import write_shard
from fewlabels.projects import Project, predict

CLASSES = ("cat", "dog", "owl")


@pytest.fixture
def invoke(fewlabels):
    """Call the command line, which must succeed; return what it prints."""

    def call(*words):
        code, out, err = fewlabels(*words)
        assert code == 0, err
        return out

    return call


def clouds(num_rows, width, seed=0):
    """Rows around a center for each class, and their names, which tell the class."""
    draws = np.random.default_rng(seed)
    labels = np.arange(num_rows) % len(CLASSES)
    centers = np.random.default_rng(99).normal(size=(len(CLASSES), width))
    rows = centers[labels] + 0.3 * draws.normal(size=(num_rows, width))
    names = [f"{CLASSES[one]}/{seed}-{n}.jpg" for n, one in enumerate(labels)]
    return rows.astype(np.float32), names


def write_rows(path, rows, names):
    if not path.suffix:  # a folder of shards
        path.mkdir()
        for number, part in enumerate(np.array_split(np.arange(len(rows)), 3)):
            some = [names[one] for one in part]
            write_shard(path / f"{number}.parquet", some, rows[part], "", ())
        return path
    table = {"file_name": names, "embedding": pa.array(list(rows))}
    parquet.write_table(pa.table(table), path)
    return path


def answer(file):
    """Label every row of a query by the class that its name tells."""
    with file.open(newline="", encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    for row in rows:
        row["label"] = row["file_name"].partition("/")[0]
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return rows


def labels_in(path):
    with path.open(newline="", encoding="utf-8") as opened:
        return {row["file_name"]: row["label"] for row in csv.DictReader(opened)}


@pytest.mark.parametrize(
    ("num_rows", "width", "end"),
    [
        (60, 8, ".parquet"),
        (60, 8, ""),
        pytest.param(5000, 384, ".parquet", marks=pytest.mark.slow),
    ],
)
def test_ask_label_train_export_and_predict_on_rows(
    tmp_path, invoke, num_rows, width, end
):
    write_rows(tmp_path / f"rows{end}", *clouds(num_rows, width))
    begun = invoke(
        *("init", "pets", "--encoder", f"vectors:rows{end}"),
        *("--classes", ",".join(CLASSES), "--budget", "30", "--query", "12"),
    )
    assert f"{num_rows:,} rows, {num_rows:,} to choose from" in begun
    assert f"rows of {width} numbers" in begun
    for step in range(2):
        asked = invoke("ask", "pets")
        assert ".html" not in asked
        assert "image" not in asked
        assert answer(tmp_path / "pets" / f"round-{step:03d}.csv")
        invoke("tell", "pets", f"pets/round-{step:03d}.csv")
    trained = invoke("train", "pets")
    assert "Accuracy: 100 %" in trained
    assert "6 rows drawn at random" in trained
    assert "trained before, unchanged" in invoke("train", "pets")
    invoke("status", "pets")
    exported = invoke("export", "pets")
    assert "report.html" in exported
    found = parquet.read_table(tmp_path / "pets/export/predictions.parquet")
    assert len(found) == num_rows

    rows, names = clouds(num_rows // 5, width, seed=1)
    write_rows(tmp_path / f"new{end}", rows, names)
    words = ("predict", "pets/export/model", f"new{end}", "--out", "p.csv")
    told = json.loads(invoke(*words, "--json"))
    assert told["num_images"] == num_rows // 5
    said = invoke(*words)
    assert said.startswith(f"{num_rows // 5:,} rows: ")
    predicted = labels_in(tmp_path / "p.csv")
    right = [name.partition("/")[0] == predicted[name] for name in names]
    assert np.mean(right) > 0.95


def begin(place, images=None, **options):
    options = {"budget": 12, "audit": 3, "query": 6, "strategy": "random", **options}
    return Project.create(place / "project", images, CLASSES, **options)


def labeled(project):
    asked = project.ask()
    file = project.write_query(asked, project.folder / "round.csv")
    answer(file)
    project.tell(file, annotator="ann")
    return asked


def test_rows_of_images_in_a_folder_are_learned_from_and_the_images_are_seen(tmp_path):
    rows, names = clouds(24, 5)
    for number, name in enumerate(names):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (6, 6), number * 10).save(path)
    order = np.random.default_rng(1).permutation(24)
    file = tmp_path / "rows.npz"
    lasts = [names[n].rpartition("/")[2] for n in order]
    np.savez(file, names=np.array(lasts), rows=rows[order])
    encoder = f"vectors:{file}"
    with begin(
        tmp_path, tmp_path / "images", encoder=encoder, trainer="frozen-linear"
    ) as project:
        assert project.settings.trainer.name == "linear"
        assert (project.settings.images, project.settings.vectors) == (
            "../images",
            "../rows.npz",
        )
        snapshot = project.snapshot()
        seen = project.images(snapshot).items.numpy()
        expected = [rows[names.index(item.path)] for item in snapshot.items]
        assert np.array_equal(seen, expected)
        assert len(project.image_files(snapshot)) == 24
        labeled(project)
        assert project.train().is_new
        Image.new("L", (6, 6), 255).save(tmp_path / "images" / "cat" / "new.png")
        with pytest.raises(FewlabelsError, match="1 of 25 items have no row"):
            project.ask()


def test_a_label_belongs_to_the_name_and_new_numbers_are_learned_from(tmp_path):
    rows, names = clouds(30, 4)
    file = write_rows(tmp_path / "rows.parquet", rows, names)
    with begin(tmp_path, encoder=f"vectors:{file}") as project:
        labeled(project)
        assert project.train().is_new
        before = project.snapshot().known
        write_rows(file, 2 * rows[::-1], names[::-1])
        assert project.train().is_new
        assert not project.train().is_new
        assert project.snapshot().known == before
        write_rows(file, rows[:, :3], names)
        with pytest.raises(FewlabelsError, match=r"rows of shape \(3,\), not \(4,\)"):
            project.train()
        file.unlink()
        with pytest.raises(FewlabelsError, match="labels are safe"):
            project.ask()


def test_rows_without_names_go_by_what_they_hold(tmp_path):
    rows, _ = clouds(20, 4)
    np.save(tmp_path / "rows.npy", rows)
    with begin(tmp_path, encoder=f"vectors:{tmp_path / 'rows.npy'}") as project:
        asked = project.ask()
        first = asked.items[0].item
        path_of = {item.id: item.path for item in project.snapshot().items}
        number = int(path_of[first].removeprefix("row-")) - 1
        project.label(first, "owl")
        np.save(tmp_path / "rows.npy", rows[::-1])
        project.index()
        snapshot = project.snapshot()
        place = snapshot.positions[first]
        assert snapshot.items[place].path == f"row-{20 - number:02}"
        assert snapshot.known == {first: CLASSES.index("owl")}
        seen = project.images(snapshot).items[place].numpy()
        assert np.array_equal(seen, rows[number])


def test_neither_images_nor_rows_is_nothing_to_label(tmp_path):
    with pytest.raises(FewlabelsError, match="Give a folder of images"):
        begin(tmp_path)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"trainer": "remixmatch"}, r"images are \(4,\); take square ones"),
    ],
    ids=str,
)
def test_what_cannot_be_done_with_rows_is_told_before_anything_is_made(
    tmp_path, options, told
):
    file = write_rows(tmp_path / "rows.parquet", *clouds(12, 4))
    with pytest.raises(FewlabelsError, match=told):
        begin(tmp_path, encoder=f"vectors:{file}", **options)
    assert not (tmp_path / "project").exists()


def test_a_model_of_rows_refuses_others(tmp_path):
    file = write_rows(tmp_path / "rows.parquet", *clouds(30, 4))
    with begin(tmp_path, encoder=f"vectors:{file}") as project:
        labeled(project)
        project.train()
        project.export(tmp_path / "export")
    model = str(tmp_path / "export" / "model")
    assert "predict THIS_FOLDER ROWS.parquet" in (
        tmp_path / "export" / "model" / "README.md"
    ).read_text("utf-8")
    narrow = write_rows(tmp_path / "narrow.parquet", *clouds(3, 3))
    with pytest.raises(FewlabelsError, match=r"rows of 4 numbers, not 3"):
        predict(model, narrow)
    (tmp_path / "photos").mkdir()
    with pytest.raises(FewlabelsError, match=r"holds no \.parquet files"):
        predict(model, tmp_path / "photos")


def test_a_run_over_rows(tmp_path, invoke):
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(1797, 5)))
    done = invoke(
        *("run", "digits", "--encoder", "vectors:rows.npy", "--trainer"),
        *("frozen-linear", "--strategy", "random", "--start", "10", "--budget", "20"),
        *("--query", "10", "--out", "run"),
    )
    assert "20 labels" in done
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert settings["trainer"]["name"] == "linear"
    assert settings["data"]["options"] == {"vectors": str(tmp_path / "rows.npy")}
