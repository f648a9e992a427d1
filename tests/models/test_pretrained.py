"""Networks of timm and transformers give the rows that their libraries give."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models import saved, toy

from fewlabels.errors import DataError, UsageError
from fewlabels.models import as_input, encoders
from fewlabels.models.pretrained import timm_preparation as preparation

SMALL = toy.images(3, (3, 32, 32)).items


def normalized(levels, mean, std):
    mean, std = (torch.tensor(one)[:, None, None] for one in (mean, std))
    return (levels / 255 - mean) / std


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    """A ViT of transformers with a pooler: folder, network, processor."""
    folder = tmp_path_factory.mktemp("vit")
    return folder, *saved.saved_vit(folder)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A ViT of timm, without a crop: folder and network."""
    folder = tmp_path_factory.mktemp("tiny")
    return folder, saved.saved_timm(folder, crop_pct=1.0)


@pytest.mark.usefixtures("untouched_randomness")
def test_rows_of_timm_are_those_of_timm(tiny):
    folder, network = tiny
    encoder = encoders.resolve(f"local-dir:{folder}")
    told = network.pretrained_cfg
    inputs = normalized(SMALL, told["mean"], told["std"])
    with torch.no_grad():
        expected = network.forward_head(
            network.forward_features(inputs), pre_logits=True
        )
    torch.testing.assert_close(encoder.embed(SMALL), expected)
    assert (encoder.feature_size, encoder.side) == (16, 32)
    assert torch.equal(encoder.embed(SMALL[1:2]), encoder.embed(SMALL)[1:2])


def test_images_are_scaled_and_cropped_as_timm_says(tmp_path):
    network = saved.saved_timm(tmp_path, crop_pct=0.8, interpolation="bicubic")
    encoder = encoders.resolve(f"local-dir:{tmp_path}")
    assert encoder.side == 40
    image = toy.images(1, (3, 50, 60)).items
    # By hand, as torchvision's Resize(40), CenterCrop(32) and Normalize do with PIL.
    picture = Image.fromarray(image[0].permute(1, 2, 0).numpy())
    picture = picture.resize((48, 40), Image.Resampling.BICUBIC).crop((8, 4, 40, 36))
    levels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None]
    told = network.pretrained_cfg
    prepared = preparation(tmp_path, config_of(tmp_path), None).apply(as_input(image))
    expected = normalized(levels, told["mean"], told["std"])
    assert prepared.shape == expected.shape
    level = 1 / 255 / min(told["std"])  # PIL rounds after each of two passes
    torch.testing.assert_close(prepared, expected, atol=1.01 * level, rtol=0)


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize("size", [(3, 224, 224), (3, 288, 288), (3, 240, 320)])
@pytest.mark.parametrize("mode", ["center", "squash"])
def test_the_preparation_is_that_of_timm(size, mode):
    saved.timm()
    from timm.data import resolve_data_config

    told = {"input_size": size, "crop_mode": mode, "crop_pct": 0.95}
    for config in (told, {}, {"mean": [0.5] * 3, "interpolation": "bilinear"}):
        library = resolve_data_config({}, pretrained_cfg=config or {"a": 1})
        own = preparation(".", {"pretrained_cfg": config}, None)
        assert own.crop == tuple(library["input_size"][1:])
        assert own.mean == tuple(library["mean"])
        assert own.spread == tuple(library["std"])
        assert own.interpolation == library["interpolation"]
        height, width = (int(one / library["crop_pct"]) for one in own.crop)
        keeps = library["crop_mode"] == "center" and height == width
        assert own.scale == (height if keeps else (height, width))


def test_a_network_of_timm_may_see_another_size(tmp_path):
    network = saved.saved_timm(tmp_path, "test_resnet", crop_pct=1.0)
    encoder = encoders.resolve(f"local-dir:{tmp_path}", size=32)
    told = network.pretrained_cfg
    inputs = normalized(SMALL, told["mean"], told["std"])
    with torch.no_grad():
        expected = network.forward_head(
            network.forward_features(inputs), pre_logits=True
        )
    torch.testing.assert_close(encoder.embed(SMALL), expected)
    assert encoder.name != encoders.resolve(f"local-dir:{tmp_path}").name


@pytest.mark.usefixtures("untouched_randomness")
def test_rows_of_transformers_are_those_of_transformers(vit):
    folder, network, processor = vit
    encoder = encoders.resolve(f"local-dir:{folder}")
    images = toy.images(3, (3, 20, 50)).items  # the processor resizes them
    with torch.no_grad():
        inputs = processor(list(images.numpy()), return_tensors="pt")
        expected = network(**inputs).pooler_output
        torch.testing.assert_close(encoder.embed(images), expected)
        inputs = normalized(SMALL, [0.5] * 3, [0.5] * 3)
        expected = network(inputs).pooler_output
    torch.testing.assert_close(encoder.embed(SMALL), expected)
    assert (encoder.feature_size, encoder.side) == (16, 32)


def test_grey_images_have_three_equal_colors(vit):
    encoder = encoders.resolve(f"local-dir:{vit[0]}")
    grey = SMALL[:, :1]
    assert torch.equal(encoder.embed(grey), encoder.embed(grey.expand(-1, 3, -1, -1)))


def test_where_no_pooler_came_with_the_model_the_class_token_is_the_row(tmp_path):
    network, _ = saved.saved_vit(tmp_path, "ViTForImageClassification")
    encoder = encoders.resolve(f"local-dir:{tmp_path}")
    inputs = normalized(SMALL, [0.5] * 3, [0.5] * 3)
    with torch.no_grad():
        expected = network.vit(inputs).last_hidden_state[:, 0]
    torch.testing.assert_close(encoder.embed(SMALL), expected)


def test_names_tell_weights_and_preparation_apart(vit, tmp_path):
    names = {encoders.resolve(f"local-dir:{vit[0]}").name}
    copy = shutil.copytree(vit[0], tmp_path / "copy")
    names.add(encoders.resolve(f"local-dir:{copy}").name)
    assert len(names) == 1
    file = copy / "preprocessor_config.json"
    file.write_text(file.read_text().replace("0.5", "0.4"))
    names.add(encoders.resolve(f"local-dir:{copy}").name)
    other = tmp_path / "other"
    saved.saved_vit(other, "ViTForImageClassification")
    names.add(encoders.resolve(f"local-dir:{other}").name)
    assert len(names) == 3
    assert all(name.startswith("transformers-vit-") for name in names)


def test_a_copy_in_the_cache_of_hugging_face_is_found(vit, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--org--net"
    shutil.copytree(vit[0], repository / "snapshots" / "abc123")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc123")
    own = encoders.resolve(f"local-dir:{vit[0]}")
    for name in ("hf-hub:org/net", "hf-hub:org/net@abc123", "hf-hub:org/net@main"):
        assert encoders.resolve(name).name == own.name
        encoders.download(name)  # nothing is fetched: it is here
    with pytest.raises(UsageError, match="'org/net@v2' is not on this machine"):
        encoders.resolve("hf-hub:org/net@v2")
    with pytest.raises(UsageError, match="'timm/net' is not on this machine"):
        encoders.resolve("timm/net")
    with pytest.raises(UsageError, match=r"'\.\./net' is not a model"):
        encoders.resolve("hf-hub:../net")
    (repository / "refs" / "v3").write_text(str(vit[0]))
    for name in (f"org/net@{vit[0]}", "org/net@a/../../b", "org/net@v3"):
        with pytest.raises(UsageError, match=f"'{re.escape(name)}' is not on this"):
            encoders.resolve(f"hf-hub:{name}")


def test_what_cannot_be_loaded_is_explained(vit, tiny, tmp_path):
    for name, message in (
        ("nosuch", "There is no local-dir:PATH at '.*nosuch'"),
        (tmp_path, "no config.json names"),
    ):
        with pytest.raises(UsageError, match=message):
            encoders.resolve(f"local-dir:{name}")
    for folder, change, message in (
        (vit[0], {"hidden_size": 24}, "could not be made"),
        (vit[0], {"num_hidden_layers": 2}, "lack 16 tensors"),
        (vit[0], {"model_type": "nosuch"}, "could not be made .*nosuch"),
        (tiny[0], {"architecture": "hf-hub:a/b"}, "has no network 'hf-hub:a/b'"),
        (tiny[0], {"model_args": {"checkpoint_path": "x"}}, "has no network 'vit_t"),
        (tiny[0], {"model_args": saved.VIT | {"depth": 2}}, "lack 12 tensors"),
        (tiny[0], {"pretrained_cfg": {"crop_mode": "border"}}, "crop_mode 'border'"),
    ):
        copy = shutil.copytree(folder, tmp_path / "copy", dirs_exist_ok=True)
        (copy / "config.json").write_text(json.dumps(config_of(folder) | change))
        with pytest.raises(UsageError, match=message):
            encoders.resolve(f"local-dir:{copy}")
        shutil.rmtree(copy)
    with pytest.raises(UsageError, match=r"size is 64; .* models of transformers"):
        encoders.resolve(f"local-dir:{vit[0]}", size=64)


def test_what_is_damaged_or_missing_is_told(vit, tiny, tmp_path):
    for number, folder in enumerate((vit[0], tiny[0])):
        copy = shutil.copytree(folder, tmp_path / str(number))
        weights = copy / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1])
        message = "safetensors' cannot be used: it is damaged"
        with pytest.raises(UsageError, match=message):
            encoders.resolve(f"local-dir:{copy}")
    (tmp_path / "0" / "preprocessor_config.json").unlink()
    with pytest.raises(UsageError, match="it has no preprocessor_config"):
        encoders.resolve(f"local-dir:{tmp_path / '0'}")


def test_a_network_that_draws_at_random_is_refused(tmp_path):
    library = saved.transformers()
    config = library.ViTMAEConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=32,
        patch_size=8,
    )
    with torch.random.fork_rng():
        library.ViTMAEModel(config).save_pretrained(tmp_path)
    prepares = library.ViTImageProcessorPil(size={"height": 32, "width": 32})
    prepares.save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="features are random"):
        encoders.resolve(f"local-dir:{tmp_path}")


def test_pickled_weights_are_never_opened(tiny, tmp_path):
    shutil.copy(tiny[0] / "config.json", tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"a program")
    message = "no weights as safetensors"
    with pytest.raises(UsageError, match=message):
        encoders.resolve(f"local-dir:{tmp_path}")


def test_what_comes_with_a_model_is_not_run(vit, tmp_path):
    copy = shutil.copytree(vit[0], tmp_path / "copy")
    (copy / "own.py").write_text("raise SystemExit('it was run')")
    own = {"auto_map": {"AutoModel": "own.Net"}, "model_type": "own"}
    (copy / "config.json").write_text(json.dumps(config_of(copy) | own))
    message = "could not be made"
    with pytest.raises(UsageError, match=message) as caught:
        encoders.resolve(f"local-dir:{copy}")
    assert "it was run" not in str(caught.value)


NO_WEIGHTS = b'{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
GREEDY = {
    "wide": (0, {"hidden_size": 16_384, "intermediate_size": 32_768}, "larger network"),
    "deep": (0, {"num_hidden_layers": 500_000}, "larger network"),
    "pooler": (0, {"hidden_size": 9_000}, "larger network"),
    "labels": (0, {"num_labels": 10**9}, "1,000,000,000, above 524,288"),
    "timm wide": (1, {"model_args": saved.VIT | {"embed_dim": 16_384}}, "larger netw"),
    "timm deep": (1, {"model_args": saved.VIT | {"depth": 2**16}}, "larger network"),
    "timm side": (1, {"pretrained_cfg": {"input_size": [3, 60_000, 60_000]}}, "2048"),
    "timm share": (
        1,
        {"pretrained_cfg": {"crop_pct": 1e-9}},
        "crop_pct is 1e-09, below",
    ),
}
MEASURED = """
import resource, sys
from tests.models import saved
saved.timm()
from fewlabels.errors import UsageError
from fewlabels.models import encoders

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

for folder in sys.argv[1:3]:
    encoders.resolve(f"local-dir:{folder}")  # now the libraries are imported
for folder in sys.argv[3:]:
    before = peak()
    try:
        encoders.resolve(f"local-dir:{folder}")
    except UsageError as error:
        print(peak() - before, error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="others count memory differently")
def test_a_configuration_takes_no_more_memory_than_the_weights(vit, tiny, tmp_path):
    """They took 4 GB and more, with a file of weights of 68 bytes."""
    folders, messages = [vit[0], tiny[0]], []
    for name, (which, change, message) in GREEDY.items():
        copy = shutil.copytree(folders[which], tmp_path / name)
        config = config_of(copy)
        for key, value in change.items():
            whole = isinstance(value, dict) and key == "pretrained_cfg"
            config[key] = config[key] | value if whole else value
        if "side" in name:
            config["model_args"].pop("img_size")
        (copy / "config.json").write_text(json.dumps(config))
        header = len(NO_WEIGHTS).to_bytes(8, "little") + NO_WEIGHTS
        (copy / "model.safetensors").write_bytes(header)
        messages.append(message)
    for name, size in (("int", 60_000), ("float", 60_000.0)):
        copy = shutil.copytree(vit[0], tmp_path / name)
        file = copy / "preprocessor_config.json"
        sides = {"size": {"height": size, "width": size}}
        file.write_text(json.dumps(json.loads(file.read_text()) | sides))
        messages.append("has the number 60,000")
    folders += [tmp_path / name for name in (*GREEDY, "int", "float")]
    command = [sys.executable, "-c", MEASURED, *map(str, folders)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = result.stdout.splitlines()
    for line, message in zip(lines, messages, strict=True):
        taken, _, reason = line.partition(" ")
        assert message in reason
        assert int(taken) < 1e8, reason


@pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation"])
def test_no_attention_that_a_file_names_is_fetched(vit, tmp_path, key):
    copy = shutil.copytree(vit[0], tmp_path / "copy")
    changed = config_of(copy) | {key: "somebody/kernels", "fusion_config": {"a": True}}
    (copy / "config.json").write_text(json.dumps(changed))
    own, other = (encoders.resolve(f"local-dir:{path}") for path in (vit[0], copy))
    assert torch.equal(own.embed(SMALL), other.embed(SMALL))


@pytest.mark.parametrize(
    "change",
    [
        {"quantization_config": {"quant_method": "somebody"}},
        {"backbone": "hf-hub:some/body", "use_timm_backbone": True},
        {"vision_config": {"model_type": "timm_wrapper", "architecture": "hf-hub:a/b"}},
    ],
)
def test_models_around_other_ones_are_refused(vit, tmp_path, change):
    copy = shutil.copytree(vit[0], tmp_path / "copy")
    (copy / "config.json").write_text(json.dumps(config_of(copy) | change))
    with pytest.raises(UsageError, match="is not supported"):
        encoders.resolve(f"local-dir:{copy}")


def test_a_nested_configuration_is_a_sentence(tmp_path):
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(UsageError, match="is no JSON"):
        encoders.resolve(f"local-dir:{tmp_path}")


def test_nothing_is_fetched_without_a_network(monkeypatch):
    pytest.importorskip("huggingface_hub", reason="it is not installed")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")

    def refused(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refused)
    with pytest.raises(
        DataError, match=r"'a/b' could not be downloaded \(no network\)"
    ):
        encoders.download("hf-hub:a/b")
