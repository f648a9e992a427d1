"""An encoder that learns from the pool itself, without a label.

Two strong views of an image learn to be more alike than views of two images: SimCLR
(Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations",
ICML 2020), on a network small enough for a CPU and images small enough for the network.

Shapes: B images in a minibatch, F features, P outputs of the projector.
"""

import json
import math
import time
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import torch
import torch.nn.functional as F
from filelock import FileLock
from torch import Generator, Tensor

from fewlabels import files, models, progress, rng
from fewlabels.data.augment import Strong, StrongAugment, strong
from fewlabels.errors import (
    Count,
    DataError,
    Limits,
    Settings,
    TrainingError,
    Weight,
    check_range,
)
from fewlabels.models import as_input, checkpoint
from fewlabels.models.cache import FeatureCache
from fewlabels.models.embedding import content_key
from fewlabels.models.module_encoder import ModuleEncoder, fingerprint
from fewlabels.pool import Images

_NAME = "self-supervised"
_REPORT_EVERY = 10
_FINISHED = "encoder.safetensors"
_UNFINISHED = "encoder-state.safetensors"
_Positive = Annotated[float, Limits(above=0)]


@dataclass(frozen=True, kw_only=True)
class SelfSupervised(Settings):
    """How an encoder is trained on images alone; the defaults suit small images."""

    network: str = "wrn-10-1"
    """Name of the network, ``"wrn-DEPTH-WIDTH"``."""
    steps: Count = 600
    """Number of optimizer steps."""
    minibatch_size: Count = 128
    """Images in a step, each in two views; each is compared with all others."""
    temperature: _Positive = 0.5
    """What similarities are divided by (tau)."""
    learning_rate: _Positive = 0.3
    """Learning rate of the first step; it falls to zero along a half cosine."""
    momentum: Annotated[float, Limits(above=0, below=1)] = 0.9
    """Nesterov momentum."""
    weight_decay: Weight = 1e-4
    """Weight decay."""
    hidden_size: Count = 128
    """Width of the projector's hidden layer."""
    projection_size: Count = 64
    """Outputs of the projector (P)."""
    views: Strong = field(default_factory=StrongAugment)
    """How images are varied; ``flip`` for photographs, not for digits."""
    save_every: float = 30.0
    """Seconds between two savings of an unfinished training."""

    def __post_init__(self) -> None:
        """Check the network's name and the ranges."""
        models.check_name(self.network)
        super().__post_init__()

    def fit(
        self,
        images: Images,
        generator: Generator,
        *,
        workspace: Path | None = None,
    ) -> ModuleEncoder:
        """Train from scratch, go on with what is unfinished, or find what is finished.

        The outcome is the same, bit for bit, on the same machine.

        Args:
            images: All images of the pool; labels are neither needed nor seen.
            generator: The only source of randomness; one number is taken.
            workspace: A folder that belongs to this encoder; None: nothing is kept.

        Returns:
            The encoder.
        """
        check_range("The number of images", len(images), at_least=2)
        key = rng.fork(generator)
        with torch.inference_mode(mode=False), torch.enable_grad():
            training = _Training(self, images.shape, key)
            network = training.network
            if workspace is None:
                training.run(images)
            else:
                mark, path = self._mark(images, key), workspace / _FINISHED
                if not _read(network.state_dict(), path, mark):
                    files.make_folder(workspace)
                    training.run(images, workspace / _UNFINISHED, mark)
                    words = {"fingerprint": mark, "settings": json.dumps(asdict(self))}
                    checkpoint.write(network.state_dict(), path, words)
                    files.remove_leftovers([path, workspace / _UNFINISHED])
                    (workspace / _UNFINISHED).unlink(missing_ok=True)
            return ModuleEncoder(network, name=f"{_NAME}-{fingerprint(network)}")

    def for_images(self, images: Images, cache: FeatureCache) -> ModuleEncoder:
        """Return the encoder of some images; it is trained once and kept.

        Args:
            images: All images of the pool.
            cache: It is kept in a folder of its own beside the rows.

        Returns:
            The encoder.
        """
        settings = sha256(repr(self).encode()).hexdigest()[:16]
        folder = cache.folder / _NAME / f"{content_key(images)}-{settings}"
        files.make_folder(folder)
        with FileLock(folder / ".lock"):  # of two processes, one trains and one waits
            return self.fit(images, rng.stream(0, _NAME), workspace=folder)

    def _mark(self, images: Images, key: int) -> str:
        """Return a hash of all that decides the outcome."""
        settings = {**asdict(self), "save_every": None}
        decisive = [settings, type(self.views).__name__, content_key(images), key]
        return sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


class _Training:
    """A training under way: everything that a step reads and changes."""

    def __init__(
        self, settings: SelfSupervised, shape: tuple[int, ...], key: int
    ) -> None:
        """Draw the first weights.

        The features of the network are what is wanted; its head is the hidden layer of
        the projector.
        """
        hidden, outputs = settings.hidden_size, settings.projection_size
        draws = rng.stream(key, "initialize encoder")
        self.settings, self.key = settings, key
        self.network = models.build(settings.network, shape, hidden, draws)
        self.projector = models.build("linear", (hidden,), outputs, draws)
        parameters = [*self.network.parameters(), *self.projector.parameters()]
        self.optimizer = torch.optim.SGD(
            parameters,
            lr=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            nesterov=True,
        )
        for parameter in parameters:  # there from the start, so that it can be filled
            zeros = torch.zeros_like(parameter)
            self.optimizer.state[parameter]["momentum_buffer"] = zeros

    def run(self, images: Images, path: Path | None = None, mark: str = "") -> None:
        """Do all steps that are left, saving to ``path`` now and then."""
        settings, start = self.settings, 0
        if path is not None:
            start = int(_read(self.tensors(), path, mark).get("step", 0))
        size = min(settings.minibatch_size, len(images))
        reported, saved_at = start, time.monotonic()
        with progress.track("Learning features", settings.steps, done=start) as advance:
            for step in range(start, settings.steps):
                draws = rng.stream(self.key, "items", step)
                order = torch.randperm(len(images), generator=draws)
                loss = self.advance(step, images.read(order[:size]))
                if not math.isfinite(loss):
                    raise TrainingError(
                        f"The loss is {loss} at step {step} of {settings.steps}. Lower "
                        f"learning_rate (now {settings.learning_rate})."
                    )
                done = step + 1
                if done % _REPORT_EVERY == 0 or done == settings.steps:
                    advance(done - reported)
                    progress.tell(done, {"loss": loss})
                    reported = done
                if path and time.monotonic() - saved_at >= settings.save_every:
                    words = {"fingerprint": mark, "step": str(done)}
                    checkpoint.write(self.tensors(), path, words)
                    saved_at = time.monotonic()

    def advance(self, step: int, images: Tensor) -> float:
        """Do one optimizer step; all its randomness is named by its number."""
        for group in self.optimizer.param_groups:
            share = (1 + math.cos(math.pi * step / self.settings.steps)) / 2
            group["lr"] = self.settings.learning_rate * share
        views = [
            strong(images, rng.stream(self.key, purpose, step), self.settings.views)
            for purpose in ("first views", "second views")
        ]
        hidden = self.network.train()(as_input(torch.cat(views))).relu()
        first_BP, second_BP = self.projector(hidden).chunk(2)
        loss = contrastive_loss(first_BP, second_BP, self.settings.temperature)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no type here
        self.optimizer.step()
        return float(loss.detach())

    def tensors(self) -> dict[str, Tensor]:
        """Return all that a step changes, by name; themselves and not copies."""
        tensors: dict[str, Tensor] = {}
        for part, module in (("network", self.network), ("projector", self.projector)):
            for name, tensor in module.state_dict().items():
                tensors[f"{part}.{name}"] = tensor
            for name, parameter in module.named_parameters():
                momentum = self.optimizer.state[parameter]["momentum_buffer"]
                tensors[f"{part} momentum.{name}"] = momentum
        return tensors


def _read(tensors: dict[str, Tensor], path: Path, mark: str) -> dict[str, str]:
    """Fill tensors from a file with this fingerprint, if there is an undamaged one.

    Returns:
        Its metadata; empty if there is none, and nothing was filled.
    """
    try:
        if checkpoint.metadata(path).get("fingerprint") == mark:
            return checkpoint.read_into(tensors, path)
    except DataError:
        pass
    return {}


def contrastive_loss(first_BP: Tensor, second_BP: Tensor, temperature: float) -> Tensor:
    """Return NT-Xent (SimCLR, Eq. 1), the mean over all 2B views.

    It is the cross-entropy of finding a view's partner among the 2B - 1 other views, by
    the cosines of their projections.

    Args:
        first_BP: Projections of one view of each image.
        second_BP: Projections of the other view.
        temperature: Divides the cosines.

    Returns:
        The loss, a scalar.
    """
    num_images = len(first_BP)
    rows = F.normalize(torch.cat([first_BP, second_BP]), dim=1)
    cosines = rows @ rows.T / temperature
    itself = torch.eye(2 * num_images, dtype=torch.bool, device=rows.device)
    partner = torch.arange(2 * num_images, device=rows.device).roll(num_images)
    return F.cross_entropy(cosines.masked_fill(itself, -torch.inf), partner)
