"""One query from a large pool under a limit of memory, in a process of its own."""

import resource
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from fewlabels.conformance.asking import failure, one_line
from fewlabels.conformance.memory import Seen
from fewlabels.errors import FewlabelsError
from fewlabels.features import PrecomputedClassifier
from fewlabels.jobs import startable
from fewlabels.naming import AllowCode, check_code
from fewlabels.pool import UNKNOWN, ArrayImages, Images, Pool, check_query
from fewlabels.protocols import Classifier, Strategy
from fewlabels.rng import stream
from fewlabels.strategies import resolve

NUM_FEATURES, NUM_CLASSES, NUM_LABELED, SIZE = 32, 10, 20, 10


@dataclass(frozen=True, eq=False)
class LargeClassifier(PrecomputedClassifier):
    """Features and logits in memory; sampled networks are made when asked for."""

    def sample_logits(
        self, images: Images, indices: Tensor, num_samples: int, generator: Generator
    ) -> Tensor:
        """Return logits whose classes each sampled network weighs in its own way."""
        del images
        weights = 0.5 + torch.rand(
            num_samples, 1, self.num_classes, generator=generator
        )
        return weights * self.logits[indices]


def large_problem(rows: int) -> tuple[Pool, LargeClassifier]:
    """Return a pool of ``rows`` items of which a few are labeled, and a classifier."""
    generator = stream(0, "large", rows)
    features = torch.randn(rows, NUM_FEATURES, generator=generator)
    logits = 2 * torch.randn(rows, NUM_CLASSES, generator=generator)
    labels = torch.full((rows,), UNKNOWN)
    labels[:NUM_LABELED] = torch.arange(NUM_LABELED) % NUM_CLASSES
    pool = Pool.build(
        ArrayImages(features), labels, tuple(map(str, range(NUM_CLASSES)))
    )
    return pool, LargeClassifier(features, logits)


def choose(strategy: Strategy, pool: Pool, classifier: Classifier) -> Seen:
    """Let a strategy choose from a large pool, and say what it needed."""
    before, begun = _memory("VmRSS"), time.perf_counter()
    seen: dict[str, Any] = {}
    try:
        query = strategy.select(classifier, pool, SIZE, stream(0, "query"), history=())
        check_query(query, pool, SIZE)
    except FewlabelsError as error:
        seen = {"error": one_line(error)}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - told to the parent
        seen = {"error": failure(error, strategy), "is_memory": _ran_out(error)}
    return Seen(before, _memory("VmHWM"), time.perf_counter() - begun, **seen)


def _ran_out(error: BaseException) -> bool:
    text = str(error).lower()
    words = ("allocate", "bad_alloc", "out of memory")
    return isinstance(error, MemoryError) or any(word in text for word in words)


def _memory(name: str) -> int:
    """Return a figure of this process in bytes; its own peak, not a parent's."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    return 0


def _hold_at_most(limit: int) -> None:
    """Let this process hold so many bytes; what it asks for beyond them fails."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = limit if most == resource.RLIM_INFINITY else min(limit, most)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, most))


@startable
def ask(
    strategy: str,
    options: dict[str, Any],
    rows: int,
    limit: int,
    *,
    allow_code: AllowCode,
) -> dict[str, Any]:
    """Let a strategy choose from a large pool in this process, under a limit of memory.

    Args:
        strategy: A built-in name or ``"package.module:Name"``.
        options: Its options.
        rows: Items in the pool.
        limit: What the process may hold, in bytes.
        allow_code: Which import paths the strategy and its options may name.

    Returns:
        The fields of :class:`fewlabels.conformance.memory.Seen`.
    """
    check_code("job", [strategy, options], allow_code)
    asked = resolve(strategy, options)
    pool, classifier = large_problem(rows)
    _hold_at_most(limit)
    return asdict(choose(asked, pool, classifier))
