"""Short names: their facts are true, and models behind them are fetched and used."""

import json
import os
import re
import subprocess
import sys
import time

import pytest
import torch
from tests.figures import RESULTS
from tests.models import hub, saved, toy

from fewlabels.errors import (
    AbsentModelError,
    DownloadError,
    UnknownNameError,
    UsageError,
)
from fewlabels.models import as_input, encoders
from fewlabels.models.catalog import RECOMMENDED, STRONGER

IMAGES = toy.images(2, (3, 40, 60)).items
OF_TIMM = [name for name in hub.MODELS if name in hub.TINY]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A hub's folders, and the networks in them."""
    folder = tmp_path_factory.mktemp("hub")
    networks = {
        name: hub.write_timm(name, folder / hub.repository(name)) for name in OF_TIMM
    }
    hub.write_open_clip(folder / hub.repository("bioclip2"))
    return folder, networks


@pytest.fixture
def served(root, tmp_path, monkeypatch):
    """The hub, and an empty cache."""
    with hub.serving(root[0]) as (address, asked):
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        monkeypatch.setattr(
            "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template
        )
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
        yield asked


@pytest.mark.parametrize("name", OF_TIMM)
def test_the_table_says_what_timm_says(name):
    library, facts = saved.timm(), RECOMMENDED[name]
    source = facts.source.removeprefix("timm/")
    assert source in library.list_pretrained()
    config = library.models.get_pretrained_cfg(source)
    assert config.hf_hub_id == facts.source
    assert config.license == facts.license
    with torch.device("meta"):
        network = library.create_model(source.partition(".")[0], num_classes=0)
        whole = library.create_model(
            source.partition(".")[0], num_classes=config.num_classes
        )
    assert network.num_features == facts.width
    size = sum(own.numel() for own in whole.parameters()) * 4 / 1e6
    assert facts.megabytes == pytest.approx(size, rel=0.03)
    assert facts.side == config.input_size[1] or name.startswith("dinov2")
    assert facts.side % facts.step == 0


def test_the_table_says_what_was_measured():
    [record] = json.loads((RESULTS / "encoder_times.json").read_text()).values()
    for name, spent in record.items():
        slowness = spent / record["efficientnet-lite0"]
        assert RECOMMENDED[name].slowness == pytest.approx(slowness, rel=0.1)


def test_the_documentation_has_the_same_table():
    text = (RESULTS.parent.parent / "docs" / "features.md").read_text("utf-8")
    for name, facts in RECOMMENDED.items():
        numbers = f"{facts.megabytes:,} | {facts.side} | {facts.width:,}"
        rest = f" | {numbers} | {facts.slowness:g} | {facts.good_for} |"
        link = rf"\[{re.escape(facts.license)}\]\(https://[^ )]+\)"
        assert re.search(rf"\| `{name}` \| {link}{re.escape(rest)}", text)


def test_the_table_says_what_is_built_in():
    for name in ("efficientnet-lite0", "efficientnet-lite2"):
        encoder = encoders.resolve(name)
        assert encoder.feature_size == RECOMMENDED[name].width
        size = sum(own.numel() for own in encoder.module.parameters()) * 4 / 1e6
        assert RECOMMENDED[name].megabytes == pytest.approx(size, rel=0.2)


@pytest.mark.parametrize("name", hub.MODELS)
def test_a_short_name_is_fetched_when_asked_and_used(name, served, tmp_path):
    with pytest.raises(AbsentModelError, match="is not on this machine"):
        encoders.resolve(name)
    assert not served  # nothing is fetched unasked
    encoders.download(name)
    number = len(served)
    encoders.download(name)
    assert len(served) == number  # it is here
    encoder = encoders.resolve(name)
    assert encoder.module.preparation.crop == (RECOMMENDED[name].side,) * 2
    rows = encoder.embed(IMAGES)
    assert rows.shape == (2, encoder.feature_size)
    assert torch.equal(rows[1:], encoder.embed(IMAGES[1:]))
    assert encoder.published == (name, {})
    step = RECOMMENDED[name].step
    asked = encoders.options_for_side(name, {}, 96, is_asked=True)
    assert asked == {"size": 96 // step * step}
    assert encoders.resolve(name, **asked).embed(IMAGES).shape == rows.shape
    assert not list(tmp_path.rglob("*.bin"))


def test_positions_are_interpolated_as_timm_does(root, served):
    encoders.download("dinov2-small")
    encoder = encoders.resolve("dinov2-small", size=28)
    network = root[1]["dinov2-small"]
    other = saved.timm().create_model(
        "vit_small_patch14_dinov2",
        num_classes=0,
        dynamic_img_size=True,
        **hub.TINY["dinov2-small"][1],
    )
    other.load_state_dict(network.state_dict())
    inputs = encoder.module.preparation.apply(as_input(IMAGES))
    assert inputs.shape == (2, 3, 28, 28)
    with torch.no_grad():
        expected = other.eval()(inputs)
    torch.testing.assert_close(encoder.embed(IMAGES), expected)


def test_half_of_an_open_clip_model_gives_what_it_gives(tmp_path):
    network = hub.write_open_clip(tmp_path / "net")
    encoder = encoders.resolve(f"local-dir:{tmp_path / 'net'}")
    small = toy.images(3, (3, 28, 28)).items
    with torch.no_grad():
        expected = network(as_input(small)).pooler_output  # mean and std are 0.5
    torch.testing.assert_close(encoder.embed(small), expected, atol=1e-5, rtol=1e-4)
    config = tmp_path / "net" / "open_clip_config.json"
    config.write_text(config.read_text().replace('"layers"', '"timm_model_name"'))
    with pytest.raises(UsageError, match="it is no plain ViT"):
        encoders.resolve(f"local-dir:{tmp_path / 'net'}")


def test_what_the_hub_lacks_is_one_sentence(served, root):
    with pytest.raises(DownloadError, match=r"\(.*404.*\): check its name") as caught:
        encoders.download("timm/nosuch")
    assert "\n" not in str(caught.value)
    assert served


def test_a_misspelled_short_name_is_recognized():
    with pytest.raises(UnknownNameError, match="Did you mean 'dinov2-small'"):
        encoders.check("dinov2-smal")


def test_what_a_stronger_encoder_costs_is_said_to_those_without():
    advice = encoders.stronger(encoders.ENCODER)
    assert f"The encoder {STRONGER} gives stronger features" in advice
    assert f"({RECOMMENDED[STRONGER].megabytes} MB to download once" in advice
    assert encoders.stronger("pixels") == encoders.stronger(None) == ""


@pytest.mark.parametrize("download", [True, False])
def test_without_a_connection_it_is_one_sentence_soon(tmp_path, download):
    words = ["encoders", STRONGER, *["--download"] * download]
    begun = time.perf_counter()
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-m", "fewlabels", *words],
        capture_output=True,
        text=True,
        env=os.environ
        | {"HF_HUB_CACHE": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:9"},
    )
    after = os.times()
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    assert done.returncode in {1, 2}
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("Error: The model 'timm/vit_small")
    assert spent < 2  # seconds of a processor; other programs may be waited for
    assert time.perf_counter() - begun < 60
