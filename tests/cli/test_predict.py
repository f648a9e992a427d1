import csv
import json

import pytest
from tests.data.pictures import tree
from tests.projects.trained import CLASSES, SHAPE, from_scratch

from fewlabels.errors import UsageError
from fewlabels.models.model_folder import save_model
from fewlabels.projects import predict


@pytest.fixture
def model(tmp_path):
    save_model(tmp_path / "model", from_scratch(), CLASSES, SHAPE)
    return tmp_path / "model"


@pytest.fixture
def folder(tmp_path):
    folder = tree(tmp_path / "images", each=3)
    (folder / "broken.png").write_bytes(b"no image")
    return folder


def test_predictions_are_written_and_counted(fewlabels, model, folder, tmp_path):
    code, out, err = fewlabels("predict", model, folder)
    assert code == 0, err
    assert out.startswith("6 images: ")
    assert "1 could not be read. Written to predictions.csv" in out
    assert "Left out: broken.png (not an image of a known format" in err
    with (tmp_path / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = predict(model, folder)
    assert [row["file_name"] for row in rows] == list(found.file_names)
    assert [row["label"] for row in rows] == found.labels


def test_for_other_programs(fewlabels, model, folder, tmp_path):
    place = tmp_path / "out.parquet"
    code, out, err = fewlabels("predict", model, folder, "--out", place, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["num_images"] == sum(told["labels"].values()) == 6
    assert list(told["unreadable"]) == ["broken.png"]
    assert place.is_file()


def test_names_of_classes_and_files_are_not_obeyed(fewlabels, folder, tmp_path):
    evil = tuple(f"{name}\x1b[2J\x9b31m" for name in CLASSES)
    save_model(tmp_path / "model", from_scratch(), evil, SHAPE)
    (folder / "\x1b]0;mine\x07.png").write_bytes(b"no image")
    for words in (("predict", "model", folder), ("predict", "\x1b[31m", folder)):
        _, out, err = fewlabels(*words)
        assert all(line.isprintable() for line in (out + err).splitlines())
    assert "\\u001b[31m" in err


def test_a_single_image_is_classified(fewlabels, model, folder):
    image = next(
        path for path in sorted(folder.rglob("*.png")) if path.parent != folder
    )
    code, out, err = fewlabels("predict", model, image, "--out", "one.csv")
    assert code == 0, err
    assert out.startswith("1 image: ")
    alone, together = predict(model, image), predict(model, folder)
    assert alone.file_names == (image.name,)
    number = together.file_names.index(image.relative_to(folder).as_posix())
    assert alone.labels == together.labels[number : number + 1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broken.png", "(not an image of a known format"),
        ("nothing", "There is no '"),
        ("", "There is no image to be used in '"),
    ],
)
def test_a_source_without_images(fewlabels, model, tmp_path, name, words):
    folder = tmp_path / "damaged"
    folder.mkdir()
    (folder / "broken.png").write_bytes(b"no image")
    code, _, err = fewlabels("predict", model, folder / name)
    said = " ".join(err.split())
    assert code == 1
    assert words in said
    assert said.endswith("give an image or a folder of images.")


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_only_predictions_are_replaced(fewlabels, model, folder, tmp_path, name):
    words = ("predict", model, folder, "--out", name)
    place = tmp_path / name
    place.touch()
    for _ in range(2):
        assert fewlabels(*words)[0] == 0
    place.write_text("file_name,label\n1.png,cat\n")
    code, _, err = fewlabels(*words)
    assert code == 2
    assert f"'{name}' holds no predictions" in " ".join(err.split())
    with pytest.raises(UsageError, match="holds no predictions"):
        predict(model, folder).write(place)
    assert place.read_text() == "file_name,label\n1.png,cat\n"


def test_quiet(fewlabels, model, folder):
    assert fewlabels("predict", model, folder, "--quiet") == (0, "", "")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["predict", "nowhere", "images"], 1, "no exported model in 'nowhere'"),
        (
            ["serve", "nowhere"],
            1,
            "Error: There is no exported model in 'nowhere' (No such file or "
            "directory: config.json); 'fewlabels export' writes one.",
        ),
        (["predict", "model", "nowhere"], 1, "There is no 'nowhere'"),
        (["predict", "model", "images", "--out", "x.txt"], 2, "Known: .csv, .parquet"),
        (
            ["predict", "model", "images", "--out", "no/x.csv"],
            1,
            "could not be written",
        ),
        (["predict", "model"], 2, "Missing argument 'SOURCE'"),
    ],
)
def test_exit_codes(fewlabels, model, folder, words, code, message):
    found, _, err = fewlabels(*words)
    assert found == code
    assert message in " ".join(err.split())
    assert "Traceback" not in err
