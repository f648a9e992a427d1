"""The steps of a training, which all learners share: settings, optimizer, averages."""

import copy
import math
from collections import abc, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from fewlabels import progress, rng
from fewlabels.data.augment import WeakAugment
from fewlabels.errors import (
    Count,
    Limits,
    Settings,
    Share,
    TrainingError,
    UsageError,
    Weight,
)
from fewlabels.gram import last_layer_kernel
from fewlabels.gram.spectra import spectrum
from fewlabels.models import check_name
from fewlabels.models.network import Network, draw_from
from fewlabels.names import OMIT_DEFAULT
from fewlabels.training.devices import OnCheckpoint, ProcessGroup
from fewlabels.training.learner import Learner, LearningNetwork, Loss, Minibatch, Step
from fewlabels.training.views import OF_FEATURES, OF_VIEWS

if TYPE_CHECKING:  # they train by this module
    from fewlabels.training.training import SavedState, TrainingTask

OFFICIAL: Mapping[str, Any] = {
    "network": "wrn-28-2",
    "steps": 2**20,
    "minibatch_size": 64,
    "balances_classes": False,
    "learning_rate": 0.03,
    "ema_decay": 0.999,
    "weak": WeakAugment(flip=True),
    "checkpoint_every": 1024,
    "mu": 7,
    "strong": "official",
}
"""What FixMatch's official code has instead of the defaults: days on a large GPU."""

_REPORT_EVERY = 10
_PREFETCH_ON_GPU = 4
_MOST_READERS = 4
_LOST = 1e4  # guessing costs log C, about 10 for ten thousand classes


@dataclass(frozen=True, kw_only=True)
class Schedule(Settings):
    """Network, steps, optimizer, averaging and the arithmetic of devices.

    The method is that of FixMatch's official code (Sohn et al., 2020, Sec. 2.4 and
    Table 4): Nesterov momentum, a cosine that ends above zero, weight decay on kernels
    only. The defaults, which the names of trainers stand for, suit small images and
    some fifteen seconds on one core; they were chosen on digits, with parts of the pool
    held out. :data:`OFFICIAL` has the numbers of the official code.
    """

    network: str = "wrn-10-1"
    """Name of the network: ``"wrn-DEPTH-WIDTH"``."""
    steps: Count = 600
    """Number of optimizer steps (K)."""
    minibatch_size: Count = 32
    """Labeled items in a step (B)."""
    balances_classes: bool = True
    """Show every class equally often, however its labels are spread; with few labels
    the spread says more about chance than about the classes. No difference for the
    balanced label sets of the paper."""
    learning_rate: Weight = 0.06
    """Learning rate of the first step (eta)."""
    rate_limit: Literal["none", "linearized", "theorem"] = "none"
    """An upper bound of the learning rate from the Gram matrix of the labeled items:
    see :func:`fewlabels.training.loop.rate_bound`."""
    momentum: Share = 0.9
    """Nesterov momentum (beta)."""
    weight_decay: Weight = 5e-4
    """Weight decay of convolution and dense kernels; nothing else decays. The official
    code takes .001 for CIFAR-100."""
    ema_decay: Share = 0.99
    """Weight of the past in the averaged network."""
    dropout: Share = 0.0
    """Share of activations dropped in each block; above 0 for sampled networks."""
    checkpoint_every: Count = 30
    """Steps between two calls of ``on_checkpoint``; the last step always calls."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute; ``"auto"`` takes a GPU where there is one."""
    devices: Count = 1
    """Processes, each with a device and an equal share of every minibatch. Batch
    normalization sees the shares one by one, so that the number matters a little."""
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    """Arithmetic of the network; ``"bf16-mixed"`` is faster on recent GPUs."""
    compiles: bool = False
    """Compile the network with ``torch.compile``: a minute at the start, faster steps
    on a GPU. Sums are rounded in another order then."""
    channels_last: bool = field(default=False, metadata=OMIT_DEFAULT)
    """Keep the channels of a pixel together: faster convolutions on recent GPUs, other
    rounding."""

    def __post_init__(self) -> None:
        """Check the network's name, and options that depend on each other."""
        super().__post_init__()
        check_name(self.network)
        if self.minibatch_size % self.devices:
            raise UsageError(
                f"minibatch_size {self.minibatch_size} is not a multiple of "
                f"{self.devices} devices; choose one that is."
            )


@dataclass(frozen=True, kw_only=True)
class Execution(Settings):
    """How a training is done; no result depends on it."""

    prefetch: Annotated[int | None, Limits(at_least=0)] = field(
        default=None, metadata=OF_VIEWS
    )
    """Minibatches prepared ahead by threads; None: 4 where the network runs on a GPU,
    else none, since reading and computing would share the cores."""
    save_every: Weight = field(default=20.0, metadata=OF_VIEWS)
    """Seconds between two savings of the unfinished training in its workspace."""
    cache: str | None = field(default=None, metadata=OF_FEATURES)
    """Folder where features are kept; None: the cache folder of this user."""


def cosine_factor(step: int, num_steps: int) -> float:
    """Return cos(7πk / 16K): 1 at the start, .195 at the end.

    FixMatch (Sohn et al., 2020, Sec. 2.4).

    Example:
        >>> round(cosine_factor(500, 1000), 6)
        0.77301
    """
    return math.cos(7 * math.pi * step / (16 * num_steps))


def sgd(
    network: nn.Module, learning_rate: float, momentum: float, weight_decay: float
) -> torch.optim.SGD:
    """Return Nesterov SGD whose weight decay spares normalization and biases."""
    kernels = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    decaying = {"params": kernels, "weight_decay": weight_decay}
    optimizer = torch.optim.SGD(
        [decaying, {"params": others, "weight_decay": 0.0}],
        lr=learning_rate,
        momentum=momentum,
        nesterov=momentum > 0,
        fused=True,
    )
    if momentum > 0:
        # There from the start, so that a saved training can be filled in.
        for parameter in network.parameters():
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def rate_bound(
    features: Tensor, num_classes: int, limit: Literal["linearized", "theorem"]
) -> float:
    """Return the largest learning rate that the labeled items admit.

    The NPC paper's outlook (Sec. 6) reads its Theorem 1 as a bound of the learning
    rate. The loss is a mean over the n labeled items, so the eigenvalues are those of
    the Gram matrix of the last layer's gradients divided by n.

    Args:
        features: Inputs of the last layer of the untrained network for the labeled
            items, shape (n, F).
        num_classes: Number of classes.
        limit: ``"linearized"``: 1 / largest eigenvalue, below which the linearized
            training cannot diverge. ``"theorem"``: the smallest eigenvalue, the
            theorem's O(λmin) with the constant one.

    Returns:
        The bound.

    Raises:
        TrainingError: If the Gram matrix is singular and the theorem has no bound.
    """
    items = torch.arange(len(features))
    kernel = last_layer_kernel(features, num_classes, blocks="full")
    eigenvalues = spectrum(kernel.block(items, items) / len(items))
    if limit == "linearized":
        return 1 / eigenvalues.largest
    if eigenvalues.rank < len(items) or eigenvalues.smallest <= 0:
        raise TrainingError(
            f"The Gram matrix of {len(items)} labeled items is singular; take "
            "rate_limit 'linearized' or 'none'."
        )
    return eigenvalues.smallest


def averaged(network: nn.Module, decay: float) -> AveragedModel:
    """Return an exponential moving average of a network's weights.

    Parameters are averaged, from the network before the first step on; buffers (the
    running statistics, which are averages already) are copied: averaged weights under
    initial statistics would be useless.
    """
    mean = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
    average = AveragedModel(network, multi_avg_fn=mean)
    average.n_averaged.fill_(1)
    return average.eval().requires_grad_(requires_grad=False)


def draw_items(items: Tensor, size: int, key: int, purpose: str, step: int) -> Tensor:
    """Return the items of one step of endless shuffled passes, cut into minibatches.

    Few labels simply repeat inside a minibatch, and no item is ever more than one pass
    ahead of another. The items depend on the step alone, so that a training can be
    resumed at any step.

    Args:
        items: Of which to draw, shape (n,), at least one.
        size: How many, in a step.
        key: What distinguishes this training from every other.
        purpose: What distinguishes these passes from others of the same training.
        step: Number of the step.

    Returns:
        Items, shape (size,).
    """
    first, last = step * size, (step + 1) * size - 1
    passes = range(first // len(items), last // len(items) + 1)
    order = torch.cat([_shuffled(len(items), key, purpose, n) for n in passes])
    start = first - passes[0] * len(items)
    return items[order[start : start + size]]


def oversample(indices: Tensor, labels: Tensor) -> Tensor:
    """Return the indices, repeated so that all classes have equally many.

    Example:
        >>> oversample(torch.tensor([4, 6, 7]), torch.tensor([0, 1, 1])).tolist()
        [4, 4, 6, 7]
    """
    members = [indices[labels == number] for number in sorted(set(labels.tolist()))]
    most = max(map(len, members))
    return torch.cat([m.repeat(math.ceil(most / len(m)))[:most] for m in members])


@lru_cache(maxsize=4)
def _shuffled(num_items: int, key: int, purpose: str, number: int) -> Tensor:
    """Return the order of one pass."""
    return torch.randperm(num_items, generator=rng.stream(key, purpose, number))


def prefetch_minibatches(
    make: Callable[[int], Minibatch], start: int, stop: int, depth: int
) -> abc.Generator[Minibatch]:
    """Yield the minibatches of some steps, up to ``depth`` of them prepared ahead.

    A minibatch depends on its step alone, so that the depth changes nothing but time.
    """
    if depth == 0:
        yield from map(make, range(start, stop))
        return
    # A thread begins with as many threads of its own as there are cores.
    threads = ("minibatches", torch.set_num_threads, (torch.get_num_threads(),))
    with ThreadPoolExecutor(min(depth, _MOST_READERS), *threads) as worker:
        waiting: deque[Future[Minibatch]] = deque()
        for step in range(start, stop):
            waiting.append(worker.submit(make, step))
            if len(waiting) > depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class Stepper:
    """A running training: all that one step reads and changes.

    Attributes:
        memory: The tensors of learner and alignment that outlive a step.
        learning: The network whose weights change.
        module: The same network as the group calls it, so that gradients are averaged.
        average: Its exponential average.
        learning_rate: That of the first step.
    """

    def __init__(
        self, task: "TrainingTask", group: ProcessGroup, network: Network
    ) -> None:
        """Begin with an untrained network."""
        training, pool, schedule = task.training, task.pool, task.settings
        assert isinstance(training.learner, Learner)
        self.task, self.group, self.learner = task, group, training.learner
        self.learning_rate = schedule.learning_rate
        if schedule.rate_limit != "none":
            outputs = task.views.classifier(network).outputs(pool.images, pool.labeled)
            bound = rate_bound(
                outputs.features[:], pool.num_classes, schedule.rate_limit
            )
            self.learning_rate = min(bound, self.learning_rate)
        self.learning = LearningNetwork(network, self.learner.heads, task.key)
        self.learning.to(group.device)
        if schedule.channels_last:
            for weight in self.learning.parameters():
                if weight.ndim == 4:
                    weight.data = weight.to(memory_format=torch.channels_last)
        self._average = averaged(self.learning, schedule.ema_decay)
        assert isinstance(self._average.module, LearningNetwork)
        self.average = self._average.module
        if schedule.compiles:
            self.learning.compile()
        self.memory = self.learner.memory(pool)
        if training.alignment is not None:
            self.memory |= training.alignment.memory(pool)
            for name in getattr(training.alignment, "on_device", ()):
                self.memory[name] = self.memory[name].to(group.device)
        self.module = group.fabric.setup_module(self.learning, move_to_device=False)
        self.optimizer = sgd(
            self.learning, self.learning_rate, schedule.momentum, schedule.weight_decay
        )
        self._labeled = pool.labeled
        if schedule.balances_classes:
            self._labeled = oversample(pool.labeled, pool.labels[pool.labeled])

    def minibatch(self, number: int) -> Minibatch:
        """Return this process's share of the minibatch of a step.

        It depends on no other, so it can be prepared ahead, and a training can be
        resumed at any step.
        """
        task, group, mu = self.task, self.group, self.learner.mu
        size, key = task.settings.minibatch_size, task.key
        labeled_B = draw_items(self._labeled, size, key, "labeled items", number)
        items_U = labeled_B[:0]
        if mu:  # labeled items are among the unlabeled ones, as in official code
            every = torch.arange(len(task.pool))
            items_U = draw_items(every, mu * size, key, "unlabeled items", number)
        labeled_B, items_U = group.share(labeled_B), group.share(items_U)
        views: dict[str, Tensor] = {}
        for is_labeled, items in ((True, labeled_B), (False, items_U)):
            wanted = {
                name: (view.kind, group.stream(key, f"{name} views", number))
                for name, view in self.learner.views.items()
                if view.is_labeled == is_labeled
            }
            if wanted:
                views |= task.views.read_views(items, wanted)
        minibatch = Minibatch(task.pool.labels[labeled_B], items_U, views)
        return minibatch.pinned() if group.device.type == "cuda" else minibatch

    def step(self, number: int, minibatch: Minibatch) -> Step:
        """Return what a learner is given in a step."""
        ours = self.task, self.group, self.memory, self.module, self.average
        return Step(number, minibatch, *ours)

    def advance(self, number: int, minibatch: Minibatch) -> Loss:
        """Do one optimizer step and update the average."""
        self.learning.train()
        draws = self.group.stream(self.task.key, "dropout", number)
        draw_from(self.learning.network, draws)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate_at(number)
        loss = self.learner.loss(self.step(number, minibatch.to(self.group.device)))
        loss = loss if isinstance(loss, Loss) else Loss(loss)
        self.optimizer.zero_grad()
        self.group.fabric.backward(loss.total)
        self.optimizer.step()
        self.group.average_(self.learning.buffers())
        self._average.update_parameters(self.learning)
        return loss

    def result(self) -> Network:
        """Return the result of the training if it ends here."""
        return self.learner.result(copy.deepcopy(self.average), self.task.views)

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step."""
        return self.learning_rate * cosine_factor(step, self.task.settings.steps)

    def tensors(self) -> dict[str, Tensor]:
        """Return all that a step changes, by name; themselves and not copies."""
        tensors = {f"memory.{name}": tensor for name, tensor in self.memory.items()}
        for end, part in (("", "network"), ("-heads", "heads")):
            own, mean = getattr(self.learning, part), getattr(self.average, part)
            states = {"network": own.state_dict(), "average": mean.state_dict()}
            states["momentum"] = {
                name: self.optimizer.state[parameter]["momentum_buffer"]
                for name, parameter in own.named_parameters()
                if self.task.settings.momentum > 0
            }
            for kind, state in states.items():
                tensors |= {f"{kind}{end}.{name}": state[name] for name in state}
        return tensors


def run_steps(
    stepper: Stepper, saved: "SavedState | None", on_checkpoint: OnCheckpoint
) -> None:
    """Do all steps that are left; report progress, checkpoints and breakdown."""
    start = 0 if saved is None else saved.fill()
    group, schedule = stepper.group, stepper.task.settings
    total, depth = schedule.steps, stepper.task.training.execution.prefetch
    if depth is None:
        depth = 0 if group.device.type == "cpu" else _PREFETCH_ON_GPU
    minibatches = prefetch_minibatches(stepper.minibatch, start, total, depth)
    with closing(minibatches), progress.track("Training", total, done=start) as advance:
        for step, minibatch in enumerate(minibatches, start):
            loss, done = stepper.advance(step, minibatch), step + 1
            advance(1)
            if saved is not None and saved.taken:
                check_loss(loss, step, schedule, saved)
                saved.write()
                if progress.is_stopped():
                    raise progress.Canceled
            if done % _REPORT_EVERY == 0 or done == total:
                check_loss(loss, step, schedule, saved)
                terms = {"loss": loss.total, **loss.figures}
                figures = {name: float(f.detach()) for name, f in terms.items()}
                figures["learning-rate"] = stepper.rate_at(step)
                progress.tell(done, figures)
            if group.rank:
                continue
            if done % schedule.checkpoint_every == 0 or done == total:
                on_checkpoint(done, stepper.result())
            if saved is None and progress.is_stopped():
                raise progress.Canceled
            if saved is not None and saved.is_due():
                saved.take(done)


def check_loss(
    loss: Loss, step: int, schedule: Schedule, saved: "SavedState | None"
) -> None:
    """Raise if training broke down; NaN stays, so an occasional check is enough."""
    value = float(loss.total.detach())
    if not math.isfinite(value) or value >= _LOST:
        kept = "" if saved is None else saved.last_good()
        raise TrainingError(
            f"The loss is {value:.6g} by step {step} of {schedule.steps}. Lower "
            f"learning_rate (now {schedule.learning_rate}).{kept}"
        )
