"""A hub of models on loopback, with tiny networks under the recommended names."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import torch
from safetensors.torch import save_file
from tests.models import saved

from fewlabels.models.catalog import RECOMMENDED

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_SMALL = {"embed_dim": 64, "depth": 1, "num_heads": 2}
TINY = {
    "mobileclip2": ("fastvit_mci0", {"layers": [1] * 4, "embed_dims": [8, 16, 32, 64]}),
    "dinov2-small": ("vit_small_patch14_dinov2", {**_SMALL, "img_size": 56}),
    "dinov2-base": ("vit_base_patch14_dinov2", {**_SMALL, "img_size": 56}),
    "dinov3-small": ("vit_small_patch16_dinov3", _SMALL),
    "siglip2-base": ("vit_base_patch16_siglip_224", _SMALL),
}
"""Architectures as published, narrow and shallow."""
MODELS = {name: facts for name, facts in RECOMMENDED.items() if facts.source}


def repository(name: str) -> str:
    """Return where the hub has a recommended model."""
    return MODELS[name].source.removeprefix("hf-hub:")


def write_timm(name: str, folder: Path):
    """Write a tiny network of timm as it is published; return the network."""
    architecture, arguments = TINY[name]
    library = saved.timm()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = library.create_model(architecture, num_classes=0, **arguments)
    folder.mkdir(parents=True)
    library.models.save_for_hf(
        network.eval(), folder, model_args=arguments, safe_serialization=True
    )
    return network


def write_open_clip(folder: Path, width=64, patch=14, side=28):
    """Write a tiny model of open_clip; return its half for images, of transformers."""
    library = saved.transformers()
    config = library.CLIPVisionConfig(
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=2,
        num_attention_heads=1,
        image_size=side,
        patch_size=patch,
        hidden_act="gelu",
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = library.CLIPVisionModel(config).eval()
    own = {k.removeprefix("vision_model."): v for k, v in network.state_dict().items()}
    tensors = {
        "visual.class_embedding": own["embeddings.class_embedding"],
        "visual.conv1.weight": own["embeddings.patch_embedding.weight"],
        "visual.positional_embedding": own["embeddings.position_embedding.weight"],
        "visual.proj": torch.zeros(width, 8),
        "token_embedding.weight": torch.zeros(9, 8),  # of the half for texts
        "logit_scale": torch.zeros(()),
    }
    norms = {"ln_pre": "pre_layrnorm", "ln_post": "post_layernorm"}
    parts = {"ln_1": "layer_norm1", "ln_2": "layer_norm2", "mlp.c_fc": "mlp.fc1"}
    parts |= {"mlp.c_proj": "mlp.fc2", "attn.out_proj": "self_attn.out_proj"}
    for kind in ("weight", "bias"):
        for ours, theirs in norms.items():
            tensors[f"visual.{ours}.{kind}"] = own[f"{theirs}.{kind}"]
        for layer in range(2):
            block, other = (
                f"visual.transformer.resblocks.{layer}",
                f"encoder.layers.{layer}",
            )
            for ours, theirs in parts.items():
                tensors[f"{block}.{ours}.{kind}"] = own[f"{other}.{theirs}.{kind}"]
            stacked = [own[f"{other}.self_attn.{x}_proj.{kind}"] for x in "qkv"]
            tensors[f"{block}.attn.in_proj_{kind}"] = torch.cat(stacked)
    folder.mkdir(parents=True)
    copies = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    save_file(copies, folder / "open_clip_model.safetensors")
    vision = {"image_size": side, "layers": 2, "width": width, "patch_size": patch}
    content = {"model_cfg": {"embed_dim": 8, "vision_cfg": vision, "text_cfg": {}}}
    content["preprocess_cfg"] = {"mean": [0.5] * 3, "std": [0.5] * 3}
    (folder / "open_clip_config.json").write_text(json.dumps(content))
    (folder / "open_clip_pytorch_model.bin").write_bytes(b"a program")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    return network


@contextmanager
def serving(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve the folders ``ORG/REPO``; yield the address and the list of requests."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_) -> None:
            """Print nothing."""

        def do_HEAD(self) -> None:
            self.answer(has_body=False)

        def do_GET(self) -> None:
            self.answer(has_body=True)

        def answer(self, *, has_body: bool) -> None:
            path = self.path.partition("?")[0].lstrip("/")
            asked.append(path)
            if path.startswith("api/models/"):
                name = "/".join(path.split("/")[2:4])
                folder = root / name
                files = [{"rfilename": p.name} for p in sorted(folder.glob("*"))]
                facts: object = {"id": name, "sha": COMMIT, "siblings": files}
                if "/tree/" in path:
                    own = {"type": "file", "oid": COMMIT}
                    facts = [
                        {**own, "path": p.name, "size": p.stat().st_size}
                        for p in sorted(folder.glob("*"))
                    ]
                body, kind = json.dumps(facts).encode(), "application/json"
                is_there = folder.is_dir()
            else:
                name, _, rest = path.partition("/resolve/")
                file = root / name / rest.partition("/")[2]
                is_there, kind = file.is_file(), "application/octet-stream"
                body = file.read_bytes() if is_there else b""
            self.send_response(200 if is_there else 404)
            if not is_there:
                self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("ETag", f'"{sha256(body).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if has_body:
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
