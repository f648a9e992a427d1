"""A network in an ONNX file gives the rows that onnxruntime gives."""

import pickle

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from tests.models import toy

from fewlabels import models
from fewlabels.errors import UsageError
from fewlabels.models import encoders

IMAGES = toy.images(35, (3, 6, 6)).items
MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)[:, None, None]
SPREAD = np.array([0.229, 0.224, 0.225], dtype=np.float32)[:, None, None]


def written(path, at_a_time="n", sides=(6, 6), channels=3, seed=0):
    """Write a convolution, as maps and as their maxima."""
    draws = np.random.default_rng(seed)
    kernel = draws.normal(size=(5, channels, 2, 2)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["pictures", "kernel"], ["maps"]),
        helper.make_node("GlobalMaxPool", ["maps"], ["peaks"]),
        helper.make_node("Flatten", ["peaks"], ["rows"]),
    ]
    shape = (at_a_time, channels, *sides)
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("pictures", TensorProto.FLOAT, shape)],
        [
            helper.make_tensor_value_info("rows", TensorProto.FLOAT, (at_a_time, 5)),
            helper.make_tensor_value_info("maps", TensorProto.FLOAT, None),
        ],
        [numpy_helper.from_array(kernel, "kernel")],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[opset]), path)
    return path


def by_hand(path, images, output="rows", mean=MEAN, spread=SPREAD):
    """Normalize and run images one at a time."""
    session = onnxruntime.InferenceSession(str(path))
    inputs = (images.numpy() / np.float32(255) - mean) / spread
    parts = [session.run([output], {"pictures": one[None]})[0] for one in inputs]
    return torch.from_numpy(np.concatenate(parts))


@pytest.mark.parametrize("at_a_time", ["n", 1])
def test_rows_are_those_of_onnxruntime(tmp_path, at_a_time):
    path = written(tmp_path / "net.onnx", at_a_time)
    encoder = encoders.resolve(f"onnx:{path}")
    rows = encoder.embed(IMAGES)
    torch.testing.assert_close(rows, by_hand(path, IMAGES))
    assert encoder.feature_size == 5
    assert torch.equal(encoder.embed(IMAGES[30:31]), rows[30:31])


def test_a_fixed_number_of_images_at_a_time_is_filled_up(tmp_path):
    several = encoders.resolve(f"onnx:{written(tmp_path / 'three.onnx', 3)}")
    single = by_hand(written(tmp_path / "one.onnx", 1), IMAGES)
    torch.testing.assert_close(several.embed(IMAGES), single)


def test_options_say_how_images_are_prepared(tmp_path):
    path = written(tmp_path / "net.onnx")
    told = {"mean": [0, 0, 0], "spread": [1, 1, 1], "output": "maps"}
    encoder = encoders.resolve(f"onnx:{path}", **told)
    expected = by_hand(path, IMAGES, "maps", 0, 1).mean(dim=(2, 3))
    torch.testing.assert_close(encoder.embed(IMAGES), expected)


def test_images_are_brought_to_the_size_of_the_input(tmp_path):
    fixed = encoders.resolve(f"onnx:{written(tmp_path / 'a.onnx')}")
    path = written(tmp_path / "b.onnx", sides=("h", "w"))
    any_size = encoders.resolve(f"onnx:{path}", size=6)
    assert (fixed.side, any_size.side) == (6, 6)
    assert encoders.resolve(f"onnx:{path}").side == 224
    large = toy.images(3, (1, 9, 12)).items
    assert torch.equal(fixed.embed(large), any_size.embed(large))
    pictures = [Image.fromarray(one[0]) for one in large.numpy()]
    smaller = [one.resize((6, 6), Image.Resampling.BILINEAR) for one in pictures]
    levels = torch.from_numpy(np.stack(smaller))[:, None].expand(-1, 3, -1, -1)
    # Pillow rounds some colors to the level beside, which is less than 0.02 here.
    expected = by_hand(path, levels)
    torch.testing.assert_close(fixed.embed(large), expected, atol=0.1, rtol=0)


def test_names_tell_weights_and_preparation_apart(tmp_path):
    path = written(tmp_path / "net.onnx")
    names = {encoders.resolve(f"onnx:{path}").name}
    names.add(encoders.resolve(f"onnx:{path}", mean=(0.5, 0.5, 0.5)).name)
    names.add(encoders.resolve(f"onnx:{path}", output="maps").name)
    (tmp_path / "net.onnx.data").write_bytes(b"weights beside it")
    names.add(encoders.resolve(f"onnx:{path}").name)
    names.add(encoders.resolve(f"onnx:{written(path, seed=1)}").name)
    assert len(names) == 5
    assert all(name.startswith("onnx-net-") for name in names)


def test_another_process_opens_the_file_again(tmp_path):
    encoder = encoders.resolve(f"onnx:{written(tmp_path / 'net.onnx')}")
    sent = pickle.loads(pickle.dumps(encoder))
    assert torch.equal(sent.embed(IMAGES), encoder.embed(IMAGES))


def test_rows_go_through_the_cache(tmp_path):
    encoder = encoders.resolve(f"onnx:{written(tmp_path / 'net.onnx')}")
    cache = models.FeatureCache(tmp_path / "features")
    images = toy.images(35, (3, 6, 6))
    rows = models.embedded(images, encoder, cache=cache, dtype="float32")
    assert np.array_equal(np.asarray(rows), encoder.embed(IMAGES).numpy())


def test_what_is_no_such_network_is_explained(tmp_path):
    (tmp_path / "text.onnx").write_text("no network")
    written(tmp_path / "gray.onnx", channels=1)
    path = written(tmp_path / "net.onnx")
    for name, options, message in (
        ("none.onnx", {}, "There is no onnx:FILE.onnx at '.*none.onnx'"),
        ("net", {}, "There is no onnx:FILE.onnx at"),
        ("text.onnx", {}, "text.onnx' could not be made"),
        ("gray.onnx", {}, r"\('n', 1, 6, 6\)\], not \(n, 3, "),
        ("net.onnx", {"size": 8}, "takes images of 6 x 6 pixels"),
        ("net.onnx", {"output": "x"}, "no output of the network called 'x'.*rows"),
        ("net.onnx", {"spread": [0, 1, 1]}, "three numbers each"),
        ("net.onnx", {"sise": 8}, "Did you mean 'size'"),
        ("net.onnx", {"interpolation": "cubic"}, "no interpolation called 'cubic'"),
    ):
        with pytest.raises(UsageError, match=message):
            encoders.resolve(f"onnx:{path.parent / name}", **options)
