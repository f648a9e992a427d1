import pyarrow.parquet as pq
import pytest
import torch
from tests.data.pictures import save, tree
from tests.projects.trained import CLASSES, SHAPE, from_scratch, over

from fewlabels import data
from fewlabels.errors import DataError, NotFiniteError, UnknownNameError
from fewlabels.models import encoders
from fewlabels.models.model_folder import load_model, save_model
from fewlabels.progress import reporting
from fewlabels.projects import predict


@pytest.fixture
def model(tmp_path):
    save_model(tmp_path / "model", from_scratch(), CLASSES, SHAPE)
    return tmp_path / "model"


def test_it_says_what_the_trained_classifier_said(model, tmp_path):
    folder = tree(tmp_path / "images", each=3)
    found = predict(str(model), str(folder))
    pool = data.load(folder, "none")
    assert found.file_names == tuple(name.partition("@")[0] for name in pool.ids)
    logits = from_scratch().outputs(pool.images, torch.arange(len(pool))).logits
    assert torch.equal(found.probabilities, torch.softmax(logits, dim=1))
    assert found.labels == [CLASSES[number] for number in logits.argmax(dim=1)]
    assert len(found) == 6
    assert len(found.probabilities.unique(dim=0)) == 6


def test_a_loaded_model_may_be_given(model, tmp_path):
    folder = tree(tmp_path / "images", each=2)
    first, second = predict(model, folder), predict(load_model(model), folder)
    assert torch.equal(first.probabilities, second.probabilities)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_brought_to_the_shape_of_training(model, tmp_path, channels):
    """Color becomes grey and sizes become one, as when the pool was loaded."""
    folder = tmp_path / "images"
    for number in range(3):
        save(folder / f"{number}.png", number, height=20 + number, channels=channels)
    found = predict(model, folder)
    files = data.load(folder, "none", size=8).images.files
    images = data.files.FileImages(files, SHAPE)
    logits = from_scratch().outputs(images, torch.arange(3)).logits
    assert torch.equal(found.probabilities, torch.softmax(logits, dim=1))


def test_photos_go_through_the_encoder(tmp_path):
    shape = (3, 32, 32)
    classifier = over(encoders.resolve("efficientnet-lite0", size=32))
    save_model(tmp_path / "model", classifier, CLASSES, shape)
    for number in range(3):
        save(tmp_path / "images" / f"{number}.jpg", number, height=40, channels=3)
    found = predict(tmp_path / "model", tmp_path / "images")
    images = data.load(tmp_path / "images", "none", size=32).images
    logits = classifier.outputs(images, torch.arange(3)).logits
    assert torch.equal(found.probabilities, torch.softmax(logits, dim=1))


def test_what_cannot_be_read_is_listed(model, tmp_path):
    folder = tree(tmp_path / "images", each=2)
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    (folder / "phone.heic").write_bytes(b"x")
    found = predict(model, folder)
    assert len(found) == 4
    assert [file.name for file in found.unreadable] == ["broken.png", "phone.heic"]


def test_predictions_are_written(model, tmp_path):
    found = predict(model, tree(tmp_path / "images", each=2))
    found.write(tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table["file_name"].to_pylist() == list(found.file_names)
    assert table["label"].to_pylist() == found.labels
    assert set(table["source"].to_pylist()) == {"model"}
    with pytest.raises(UnknownNameError, match=r"format of a table"):
        found.write(tmp_path / "out.txt")


def test_refusals(model, tmp_path):
    with pytest.raises(DataError, match=r"There is no .*; give an image or a folder"):
        predict(model, tmp_path / "nowhere")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(
        DataError, match=r"There is no image to be used in .*empty'; give"
    ):
        predict(model, empty)
    (empty / "a.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"to be used in .*\(a\.png"):
        predict(model, empty)
    save_model(tmp_path / "rows", from_scratch("linear", (6,)), CLASSES, (6,))
    with pytest.raises(DataError, match=r"holds no \.parquet files"):
        predict(tmp_path / "rows", empty)


def test_weights_that_are_lost_predict_nothing(tmp_path):
    classifier = from_scratch()
    with torch.no_grad():
        classifier.module.head.weight[0] = float("nan")
    save_model(tmp_path / "model", classifier, CLASSES, SHAPE)
    folder = tree(tmp_path / "images", each=3)
    with pytest.raises(NotFiniteError, match=r"6 of 6 .* are NaN or infinite"):
        predict(tmp_path / "model", folder)


def test_progress_moves_with_every_hundred_images_or_so(model, tmp_path):
    folder = tmp_path / "images"
    for number in range(300):
        save(folder / f"{number}.png", number)
    seen = []

    class Listener:
        def start(self, task, total, done):
            return task

        def advance(self, task, amount):
            if task == "Predicting":
                seen.append(amount)

        def tell(self, step, figures):
            pass

        def finish(self, task):
            pass

    with reporting(Listener()):
        predict(model, folder)
    assert seen == [128, 128, 44]
