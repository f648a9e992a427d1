"""Which kernel a strategy looks through: chosen by name, or once per run by rank."""

import logging
from collections.abc import Sequence
from typing import Literal

from torch import Generator, Tensor

from fewlabels import gram
from fewlabels.errors import UsageError
from fewlabels.matrices import Rows
from fewlabels.models import as_input
from fewlabels.pool import Pool, Round
from fewlabels.protocols import Classifier, Kernel, Outputs, OwnInputs

KernelName = Literal["auto", "last-layer", "wide-head", "softmax", "ntk"]

_RANK_SHARE = 0.9
_log = logging.getLogger(__name__)


def decided(
    name: KernelName, features: Rows, pool: Pool, size: int, history: Sequence[Round]
) -> str:
    """Return the kernel to use; ``auto`` decides in the first round, others follow.

    The last layer's Gram matrix has the rank of [H, 1] at most. It is taken while the
    labels at the end of the run need at most nine tenths of that, else the wide head.

    Args:
        name: What was asked for.
        features: Rows of the whole pool, shape (N, F).
        pool: The pool; its budget says how many labels there will be.
        size: How many items are asked about now.
        history: The rounds so far.

    Returns:
        Name of a kernel.
    """
    if name != "auto":
        return name
    for earlier in history:
        if "kernel" in earlier.query.record:
            return str(earlier.query.record["kernel"])
    num_members = pool.budget or len(pool.labeled) + size
    rank = gram.numerical_rank(features)
    choice = "last-layer" if num_members <= _RANK_SHARE * rank else "wide-head"
    _log.info(
        "kernel %s: %d items to be labeled, %d independent gradient features",
        choice,
        num_members,
        rank,
    )
    return choice


def kernel_of(
    name: str,
    classifier: Classifier,
    outputs: Outputs,
    pool: Pool,
    generator: Generator,
    *,
    normalize: bool,
) -> Kernel:
    """Return a kernel over the whole pool.

    Args:
        name: ``"last-layer"``, ``"wide-head"``, ``"softmax"`` or ``"ntk"``.
        classifier: The classifier, for the kernel of its whole network.
        outputs: Its features and logits of the whole pool.
        pool: The pool.
        generator: Draws the sketch of the whole network's gradients.
        normalize: Whether gradients are scaled to length one.

    Returns:
        The kernel.

    Raises:
        UsageError: If the kernel needs a network or logits that are not there.
    """
    if name == "wide-head":
        return gram.wide_head_kernel(outputs.features, normalize=normalize)
    if name == "softmax":
        if outputs.logits.shape[1] < 2:
            msg = (
                f"The softmax kernel compares predictions, and there are "
                f"{outputs.logits.shape[1]} logits per item; pass logits with at least "
                "two classes, or choose another kernel."
            )
            raise UsageError(msg)
        return gram.softmax_kernel(
            outputs.features, outputs.logits, normalize=normalize
        )
    if name == "ntk":
        return _tangent_kernel(classifier, pool, generator, normalize=normalize)
    return gram.last_layer_kernel(
        outputs.features, pool.num_classes, normalize=normalize
    )


def check_share(name: str, share: float) -> None:
    """Raise unless ``share`` of a kernel's diagonal makes every Gram matrix regular."""
    if not 0 < share < float("inf"):
        msg = (
            f"{name} is {share}; copies make a Gram matrix singular without it, so it "
            f"is a positive share of the kernel's mean diagonal, such as {1e-3}."
        )
        raise UsageError(msg)


def share_of_variance(share: float, kernel: Kernel, items: Tensor) -> float:
    """Return ``share`` of the mean k(i, i); of 1, where the kernel is zero."""
    return share * (float(kernel.diagonal(items).mean()) or 1.0)


def _tangent_kernel(
    classifier: Classifier, pool: Pool, generator: Generator, *, normalize: bool
) -> Kernel:
    """Return the sketched kernel of all layers' gradients."""
    if classifier.module is None:
        msg = (
            "The 'ntk' kernel needs the network, and only its outputs are known; "
            "choose 'auto', 'last-layer', 'wide-head' or 'softmax'."
        )
        raise UsageError(msg)
    images = pool.images
    return gram.ntk_kernel(
        classifier.module,
        lambda indices: (
            classifier.inputs(images, indices)
            if isinstance(classifier, OwnInputs)
            else as_input(images.read(indices))
        ),
        len(pool),
        num_classes=pool.num_classes,
        generator=generator,
        normalize=normalize,
    )
