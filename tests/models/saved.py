"""Tiny networks with random weights, saved as their libraries do."""

import json
from importlib import import_module
from importlib.util import find_spec

import pytest
import torch
from tests.harness import torchvision

VIT = {"embed_dim": 16, "depth": 1, "num_heads": 2, "patch_size": 8, "img_size": 32}


def timm():
    """Return timm, with something empty for torchvision where that is missing."""
    if find_spec("timm") is None:
        pytest.skip("timm is not installed")
    with torchvision.emptied():
        return import_module("timm")


def transformers():
    """Return transformers."""
    return pytest.importorskip("transformers", reason="it is not installed")


def saved_timm(folder, name="vit_tiny_patch16_224", **changes):
    """Save a network of timm with five classes; return it."""
    library = timm()
    arguments = VIT if name.startswith("vit") else {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = library.create_model(name, num_classes=5, **arguments).eval()
    library.models.save_for_hf(
        network, folder, model_args=arguments, safe_serialization=True
    )
    config = json.loads((folder / "config.json").read_text())
    config["pretrained_cfg"] |= changes
    (folder / "config.json").write_text(json.dumps(config))
    return network


def saved_vit(folder, kind="ViTModel", **processor):
    """Save a ViT of transformers and its processor; return both."""
    library = transformers()
    library.utils.logging.disable_progress_bar()
    config = library.ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=32,
        patch_size=8,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = getattr(library, kind)(config).eval()
    network.save_pretrained(folder)
    prepares = library.ViTImageProcessorPil(
        size={"height": 32, "width": 32}, **processor
    )
    prepares.save_pretrained(folder)
    return network, prepares
