import json
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from tests.data.pictures import tree
from tests.projects.trained import (
    CLASSES,
    SHAPE,
    by_neighbors,
    from_scratch,
    images,
    over,
    own_encoder,
)
from torch import nn

from fewlabels import models
from fewlabels.errors import DataError, StorageError, UsageError
from fewlabels.experiments.evaluation import accuracy_interval
from fewlabels.models import encoders
from fewlabels.models.classifiers import NetworkClassifier, PrecomputedClassifier
from fewlabels.models.model_folder import load_model, save_model, write_onnx
from fewlabels.projects import predict
from fewlabels.projects.export import model_card
from fewlabels.rng import stream

PHOTO = (3, 20, 24)

KINDS = {
    "from scratch": (from_scratch, SHAPE),
    "in color": (lambda: from_scratch("wrn-16-2", PHOTO), PHOTO),
    "head over rows": (lambda: from_scratch("mlp-5", (6,)), (6,)),
    "photos": (lambda: over(encoders.resolve("efficientnet-lite0", size=32)), PHOTO),
    "pixels": (lambda: over(encoders.resolve("pixels"), "mlp-6"), SHAPE),
    "neighbors": (by_neighbors, SHAPE),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_model_says_the_same(tmp_path, kind):
    make, shape = KINDS[kind]
    classifier = make()
    save_model(tmp_path / "model", classifier, CLASSES, shape)
    loaded = load_model(tmp_path / "model")
    assert loaded.classes == CLASSES
    assert loaded.input_shape == shape
    seen, everything = images(5, shape), torch.arange(5)
    expected = classifier.outputs(seen, everything)
    found = loaded.classifier.outputs(seen, everything)
    assert torch.equal(found.logits, expected.logits)
    assert torch.equal(found.features, expected.features)


def test_the_folder_holds_the_files_of_the_hub(tmp_path):
    save_model(tmp_path, from_scratch(), CLASSES, SHAPE)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"model.safetensors", "config.json"}
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    assert config["format"] == "fewlabels-model"
    assert config["network"] == "wrn-10-1"
    assert config["classes"] == list(CLASSES)
    assert config["input_shape"] == [1, 8, 8]
    with safe_open(tmp_path / "model.safetensors", framework="pt") as file:
        names = set(file.keys())
    assert names == set(from_scratch().module.state_dict())


def test_an_encoder_of_a_package_is_named_and_not_copied(tmp_path):
    classifier = over(encoders.resolve("efficientnet-lite0", size=64))
    config = save_model(tmp_path, classifier, CLASSES, PHOTO)
    assert (config.encoder.builtin, config.encoder.size) == ("efficientnet-lite0", 64)
    assert (tmp_path / "model.safetensors").stat().st_size < 40_000


def test_equal_models_make_equal_files(tmp_path):
    for name in ("first", "second"):
        save_model(tmp_path / name, from_scratch(), CLASSES, SHAPE)
    for file in (tmp_path / "first").iterdir():
        assert file.read_bytes() == (tmp_path / "second" / file.name).read_bytes()


def test_somebodys_own_encoder_is_brought_along(tmp_path):
    classifier = over(own_encoder())
    save_model(tmp_path, classifier, CLASSES, SHAPE)
    with pytest.raises(DataError, match="it is not in the files"):
        load_model(tmp_path)
    loaded = load_model(tmp_path, encoder=own_encoder())
    few = torch.arange(3)
    found = loaded.classifier.outputs(images(3), few)
    assert torch.equal(found.logits, classifier.outputs(images(3), few).logits)
    with pytest.raises(DataError, match=r"The encoder is 'Flatten-.* give 'Flatten-"):
        load_model(tmp_path, encoder=encoders.resolve(nn.Flatten(2)))


# ----------------------------------------------------------------------- the card


def card(folder, **status):
    """Return the card of a model, measured as it is given."""
    config = save_model(folder, from_scratch(), CLASSES, SHAPE)
    record = SimpleNamespace(
        trainer="fixmatch-darp",
        class_counts=(3, 4, 5),
        num_labeled=12,
        predicted=(1200,),
    )
    return model_card(config, record, SimpleNamespace(**status), "npc")


def test_the_card_says_what_a_stranger_needs(tmp_path):
    point = SimpleNamespace(audited=accuracy_interval(27, 30))
    text = card(tmp_path, curve=[point], audit_size=30, num_audited=30)
    assert text.startswith("---\nlibrary_name: fewlabels\n")
    for words in [
        "90.0 % (73.5 to 97.9 at the 95 % level, from 30 random images)",
        "on 1,200 images, 12 of them labeled by people",
        "fixmatch\\-darp",
        "labeled by people, chosen by npc",
        "| dog | 4 |",
        "| a\\|b\\_\\*c\\* | 5 |",  # no name changes the table
        "8 × 8 pixels, grey",
        "## Limits",
    ]:
        assert words in text


def test_the_card_says_when_nothing_was_measured(tmp_path):
    text = card(tmp_path, curve=[], audit_size=0, num_audited=0)
    assert "Not measured: no random slice" in text


# ----------------------------------------------------------------------- refusals


@pytest.fixture
def exported(tmp_path):
    save_model(tmp_path / "model", from_scratch(), CLASSES, SHAPE)
    return tmp_path / "model"


def change(folder, **fields):
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8"))
    config.pop("checksum", None)
    path.write_text(json.dumps(config | fields))


def test_missing_files_are_said(exported, tmp_path):
    with pytest.raises(DataError, match=r"There is no exported model in .*nowhere"):
        load_model(tmp_path / "nowhere")
    (exported / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"No such file.*model\.safetensors"):
        load_model(exported)


def test_a_damaged_byte_is_noticed(exported):
    path = exported / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="is damaged or of another config"):
        load_model(exported)


def test_files_of_two_exports_are_not_mixed(exported, tmp_path):
    other = tmp_path / "other"
    other_model = NetworkClassifier(
        models.build("wrn-10-1", SHAPE, 3, stream(9, "other")), 3
    )
    save_model(other, other_model, CLASSES, SHAPE)
    shutil.copy(other / "model.safetensors", exported)
    with pytest.raises(DataError, match="damaged or of another config"):
        load_model(exported)


@pytest.mark.parametrize(
    "content",
    [b"", b"not JSON", b"[]", b'{"architectures": ["ViT"]}', b"\xff\xfe", b"[" * 9999],
)
def test_a_foreign_configuration_is_said(exported, content):
    (exported / "config.json").write_bytes(content)
    with pytest.raises(DataError, match=r"config\.json is damaged"):
        load_model(exported)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format_version": 2}, "'format_version' is 2: input should be 1"),
        ({"classes": []}, "tuple should have at least 1"),
        ({"network": "resnet50"}, "cannot be used: There is no network called"),
        ({"network": "wrn-16-1"}, "does not belong to this network"),
        ({"classes": ["a", "b"]}, "does not belong to this network"),
        ({"input_shape": [1, 8, -8]}, "'input_shape.2' is -8: input should be greater"),
        ({"input_shape": [3]}, "cannot be used: The network 'wrn-10-1' needs images"),
        ({"encoder": {"identity": "os:system"}}, "is not in the files"),
        ({"network": "wrn-10-100"}, "does not belong to this network"),
        ({"network": "wrn-28-99999999999999999999"}, "There is no network called"),
        ({"network": "wrn-60004-1"}, "depth is .* at most 400"),
        ({"network": "mlp-999999999"}, "The width of a hidden layer is 999999999"),
        (
            {"input_shape": [1, 65536, 65536]},
            "1 x 65536 x 65536 is more than 4,194,304",
        ),
        ({"input_shape": [65536, 8, 8]}, "'stem.weight' has shape"),
        (
            {
                "encoder": {
                    "identity": "x",
                    "builtin": "efficientnet-lite0",
                    "size": 9**6,
                }
            },
            "size' is 531441: input should be less than or equal to 1024",
        ),
    ],
)
def test_a_configuration_that_does_not_fit(exported, fields, message):
    change(exported, **fields)
    with pytest.raises(DataError, match=message):
        load_model(exported)


def test_no_weights_are_made_that_the_file_does_not_hold(exported, monkeypatch):
    made = []
    build = models.build

    def watched(*given, **options):
        network = build(*given, **options)
        made.append(network.head.weight.device.type)
        return network

    monkeypatch.setattr(models, "build", watched)
    change(exported, network="wrn-16-30")
    with pytest.raises(DataError, match="does not belong to this network"):
        load_model(exported)
    assert made == ["meta"]  # shapes without numbers


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_pipe_or_a_device_is_not_waited_for(exported, name):
    (exported / name).unlink()
    os.mkfifo(exported / name)
    with pytest.raises(DataError, match=r"not a regular file"):
        load_model(exported)
    (exported / name).unlink()
    (exported / name).symlink_to("/dev/zero")
    with pytest.raises(DataError, match=r"not a regular file"):
        load_model(exported)


def test_nothing_is_imported_because_a_file_names_it(exported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trap.py").write_text("open('sprung', 'w').close()\n")
    change(exported, encoder={"identity": "x", "builtin": "trap:Encoder"})
    with pytest.raises(DataError, match="no encoder called 'trap:Encoder'"):
        load_model(exported)
    assert not (tmp_path / "sprung").exists()


def test_a_pickle_is_never_opened(exported):
    opened = []

    class Trap:
        def __reduce__(self):
            return opened.append, (1,)

    path = exported / "model.safetensors"
    torch.save({"head.weight": Trap()}, path)
    change(
        exported,
        weights_sha256=sha256(path.read_bytes()).hexdigest(),
    )
    with pytest.raises(DataError, match="cannot be read as a safetensors file"):
        load_model(exported)
    assert opened == []


def test_what_cannot_be_exported(tmp_path):
    known = PrecomputedClassifier(torch.zeros(2, 3), torch.zeros(2, 3))
    with pytest.raises(UsageError, match="A PrecomputedClassifier cannot be exp"):
        save_model(tmp_path, known, CLASSES, SHAPE)
    with pytest.raises(DataError, match="3 classes got the names"):
        save_model(tmp_path, from_scratch(), ("a", "b"), SHAPE)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="could not be written"):
        save_model(tmp_path / "file", from_scratch(), CLASSES, SHAPE)


# --------------------------------------------------------------------------- ONNX


@pytest.mark.parametrize(
    "kind",
    [
        "from scratch",
        pytest.param("photos", marks=pytest.mark.slow),
        "pixels",
        "neighbors",
    ],
)
def test_onnx_says_the_same(tmp_path, kind):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    make, shape = KINDS[kind]
    classifier = make()
    path = tmp_path / "model.onnx"
    write_onnx(path, classifier, shape)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "example.py", path]
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    seen = images(5, shape)
    (found,) = session.run(None, {"images": seen.items.numpy()})
    logits = classifier.outputs(seen, torch.arange(5)).logits
    np.testing.assert_allclose(found, torch.softmax(logits, dim=1), atol=2e-3)
    assert found.std() > 1e-3  # a constant would agree with anything uniform


def test_the_example_beside_it_says_what_predict_says(tmp_path):
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    save_model(tmp_path / "model", from_scratch(), CLASSES, SHAPE)
    write_onnx(tmp_path / "model" / "model.onnx", from_scratch(), SHAPE)
    folder = tree(tmp_path / "images", each=3)
    expected = predict(tmp_path / "model", folder)
    names = [str(folder / name) for name in expected.file_names]
    code = (
        "import sys, runpy; sys.modules['torch'] = None; sys.modules['fewlabels'] = None;"
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model" / "example.py"), *names],
        check=True,
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    for line, name, label, shares in zip(
        lines, names, expected.labels, expected.probabilities, strict=True
    ):
        assert line.startswith(f"{name} {label} ")
        share = float(line.rpartition(" ")[2])
        assert share == pytest.approx(float(shares.max()), abs=2e-3)


def test_onnx_without_its_extra_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("fewlabels.names.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'fewlabels\[onnx\]'"):
        write_onnx(tmp_path / "model.onnx", from_scratch(), SHAPE)
