"""An encoder that learns from the pool itself, without a label.

Two strong views of an image shall be more alike than views of different images: SimCLR
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

import torch
import torch.nn.functional as F
from filelock import FileLock
from torch import Generator, Tensor

from fewlabels import files, models, progress, rng
from fewlabels.data.augment import Strong, StrongAugment, strong
from fewlabels.errors import DataError, TrainingError, UsageError, check_range
from fewlabels.models import Network, as_input, checkpoint
from fewlabels.models.cache import FeatureCache
from fewlabels.models.embedding import content_key
from fewlabels.models.module_encoder import ModuleEncoder, fingerprint
from fewlabels.pool import Images

_NAME = "self-supervised"
_REPORT_EVERY = 10
_FINISHED = "encoder.safetensors"
_UNFINISHED = "encoder-state.safetensors"


@dataclass(frozen=True, kw_only=True)
class SelfSupervised:
    """How an encoder is trained on images alone; the defaults suit small images."""

    network: str = "wrn-10-1"
    """Name of the network, ``"wrn-DEPTH-WIDTH"``."""
    steps: int = 600
    """Number of optimizer steps."""
    minibatch_size: int = 128
    """Images in a step, each in two views; each is compared with all others."""
    temperature: float = 0.5
    """What similarities are divided by (tau)."""
    learning_rate: float = 0.3
    """Learning rate of the first step; it falls to zero along a half cosine."""
    momentum: float = 0.9
    """Nesterov momentum."""
    weight_decay: float = 1e-4
    """Weight decay."""
    hidden_size: int = 128
    """Width of the projector's hidden layer."""
    projection_size: int = 64
    """Outputs of the projector (P)."""
    views: Strong = field(default_factory=StrongAugment)
    """How images are varied; ``flip`` for photographs, not for digits."""
    save_every: float = 30.0
    """Seconds between two savings of an unfinished training."""

    def __post_init__(self) -> None:
        """Check the network's name and the ranges."""
        models.check_name(self.network)
        for name in ("steps", "minibatch_size", "hidden_size", "projection_size"):
            check_range(name, getattr(self, name), at_least=1)
        for name in ("temperature", "learning_rate"):
            check_range(name, getattr(self, name), above=0)
        check_range("momentum", self.momentum, above=0, below=1)
        check_range("weight_decay", self.weight_decay, at_least=0)

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

        Raises:
            UsageError: If there are fewer than two images to compare.
        """
        if len(images) < 2:
            raise UsageError(
                f"{len(images)} images cannot be told apart; give at least two."
            )
        key = rng.fork(generator)
        with torch.inference_mode(mode=False), torch.enable_grad():
            training = _Training.begun(self, images.shape, key)
            if workspace is None:
                _run(training, images, key, None)
                return training.encoder()
            kept = _Kept(workspace, self._mark(images, key))
            if not kept.finds(training.network):
                _run(training, images, key, kept)
                kept.finish(training.network, self)
            return training.encoder()

    def for_images(self, images: Images, cache: FeatureCache) -> ModuleEncoder:
        """Return the encoder of some images; it is trained once and kept.

        Args:
            images: All images of the pool.
            cache: It is kept in a folder of its own beside the rows.

        Returns:
            The encoder.
        """
        told = sha256(repr(self).encode()).hexdigest()[:16]
        place = cache.folder / _NAME / f"{content_key(images)}-{told}"
        files.make_folder(place)
        with FileLock(place / ".lock"):  # of two processes, one trains and one waits
            return self.fit(images, rng.stream(0, _NAME), workspace=place)

    def _mark(self, images: Images, key: int) -> str:
        """Return a hash of all that decides the outcome."""
        settings = {**asdict(self), "save_every": None}
        decisive = [settings, type(self.views).__name__, content_key(images), key]
        return sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class _Training:
    """A training under way: all that one step reads and changes."""

    settings: SelfSupervised
    network: Network
    """Its features are what is wanted; its head is the projector's hidden layer."""
    projector: Network
    """The last layer, over the hidden one."""
    optimizer: torch.optim.Optimizer

    @classmethod
    def begun(
        cls, settings: SelfSupervised, shape: tuple[int, ...], key: int
    ) -> "_Training":
        """Draw the first weights."""
        hidden, outputs = settings.hidden_size, settings.projection_size
        draws = rng.stream(key, "initialize encoder")
        network = models.build(settings.network, shape, hidden, draws)
        projector = models.build("linear", (hidden,), outputs, draws)
        parameters = [*network.parameters(), *projector.parameters()]
        optimizer = torch.optim.SGD(
            parameters,
            lr=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            nesterov=True,
        )
        for parameter in parameters:  # there from the start, so that it can be filled
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return cls(settings, network, projector, optimizer)

    def advance(self, step: int, images: Tensor, key: int) -> float:
        """Do one optimizer step; all its randomness is named by its number."""
        for group in self.optimizer.param_groups:
            share = (1 + math.cos(math.pi * step / self.settings.steps)) / 2
            group["lr"] = self.settings.learning_rate * share
        pair = [
            strong(images, rng.stream(key, purpose, step), self.settings.views)
            for purpose in ("first views", "second views")
        ]
        hidden = self.network.train()(as_input(torch.cat(pair))).relu()
        first_BP, second_BP = self.projector(hidden).chunk(2)
        loss = contrastive_loss(first_BP, second_BP, self.settings.temperature)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no type here
        self.optimizer.step()
        return float(loss.detach())

    def tensors(self) -> dict[str, Tensor]:
        """Return all that a step changes, by name; themselves and not copies."""
        found: dict[str, Tensor] = {}
        for part, module in (("network", self.network), ("projector", self.projector)):
            for name, tensor in module.state_dict().items():
                found[f"{part}.{name}"] = tensor
            for name, parameter in module.named_parameters():
                momentum = self.optimizer.state[parameter]["momentum_buffer"]
                found[f"{part} momentum.{name}"] = momentum
        return found

    def encoder(self) -> ModuleEncoder:
        """Return the network as it is now."""
        name = f"{_NAME}-{fingerprint(self.network)}"
        return ModuleEncoder(self.network, name=name)


@dataclass(frozen=True)
class _Kept:
    """The files of one encoder."""

    folder: Path
    mark: str

    def finds(self, network: Network) -> bool:
        """Fill ``network`` with the finished encoder, if there is one."""
        path = self.folder / _FINISHED
        try:
            if checkpoint.metadata(path).get("fingerprint") != self.mark:
                return False
            checkpoint.load(network, path)
        except DataError:  # a damaged file counts as none
            return False
        return True

    def fill(self, training: _Training) -> int:
        """Fill a fresh training with the unfinished one; return the steps done."""
        path = self.folder / _UNFINISHED
        try:
            if checkpoint.metadata(path).get("fingerprint") != self.mark:
                return 0
            words = checkpoint.read_into(training.tensors(), path)
        except DataError:
            return 0
        return int(words["step"])

    def save(self, training: _Training, step: int) -> None:
        """Keep the training after ``step`` steps."""
        files.make_folder(self.folder)
        words = {"fingerprint": self.mark, "step": str(step)}
        checkpoint.write(training.tensors(), self.folder / _UNFINISHED, words)

    def finish(self, network: Network, settings: SelfSupervised) -> None:
        """Keep the encoder; the unfinished training goes."""
        files.make_folder(self.folder)
        words = {"fingerprint": self.mark, "settings": json.dumps(asdict(settings))}
        checkpoint.save(network, self.folder / _FINISHED, words)
        files.remove_leftovers([self.folder / _FINISHED, self.folder / _UNFINISHED])
        (self.folder / _UNFINISHED).unlink(missing_ok=True)


def contrastive_loss(first_BP: Tensor, second_BP: Tensor, temperature: float) -> Tensor:
    """Return NT-Xent (SimCLR, Eq. 1), the mean over all 2B views.

    Each view shall recognize its partner among the 2B - 1 other views, by the cosine of
    their projections.

    Args:
        first_BP: Projections of one view of each image.
        second_BP: Projections of the other view.
        temperature: What cosines are divided by.

    Returns:
        A scalar.
    """
    num_images = len(first_BP)
    rows = F.normalize(torch.cat([first_BP, second_BP]), dim=1)
    cosines = rows @ rows.T / temperature
    itself = torch.eye(2 * num_images, dtype=torch.bool, device=rows.device)
    partner = torch.arange(2 * num_images, device=rows.device).roll(num_images)
    return F.cross_entropy(cosines.masked_fill(itself, -torch.inf), partner)


def _run(training: _Training, images: Images, key: int, kept: _Kept | None) -> None:
    """Do all steps that are left, saving now and then."""
    settings = training.settings
    start = 0 if kept is None else kept.fill(training)
    size = min(settings.minibatch_size, len(images))
    since, saved_at = start, time.monotonic()
    with progress.track("Learning features", settings.steps, done=start) as advance:
        for step in range(start, settings.steps):
            order = torch.randperm(
                len(images), generator=rng.stream(key, "items", step)
            )
            loss = training.advance(step, images.read(order[:size]), key)
            if not math.isfinite(loss):
                raise TrainingError(
                    f"The loss is {loss} at step {step} of {settings.steps}. Lower "
                    f"learning_rate (now {settings.learning_rate})."
                )
            done = step + 1
            if done % _REPORT_EVERY == 0 or done == settings.steps:
                advance(done - since)
                progress.tell(done, {"loss": loss})
                since = done
            if kept and time.monotonic() - saved_at >= settings.save_every:
                kept.save(training, done)
                saved_at = time.monotonic()
