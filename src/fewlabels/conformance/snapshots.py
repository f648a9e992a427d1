"""What tensors and objects hold, so that a change can be seen and named."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from fewlabels.conformance.problems import CheckCase
from fewlabels.pool import Pool

_DEEPEST = 4


def tensors(given: CheckCase) -> dict[str, Tensor]:
    """Return a copy of every tensor that a strategy is given, by its name."""
    pool, classifier = given
    found = {
        "classifier.features": classifier.features[:],
        "classifier.logits": classifier.logits,
    }
    if classifier.samples is not None:
        found["classifier.samples"] = classifier.samples
    copies = {name: tensor.clone() for name, tensor in found.items()}
    return pool_tensors(pool) | copies


def pool_tensors(pool: Pool) -> dict[str, Tensor]:
    """Return a copy of every tensor of a pool, by its name."""
    return {
        "pool.labels": pool.labels.clone(),
        "pool.candidates": pool.candidates.clone(),
        "pool.images": pool.images.read(torch.arange(len(pool))).clone(),
    }


def change(name: str, before: Tensor, after: Tensor) -> str | None:
    """Say how a tensor changed; None where it did not."""
    if before.shape != after.shape:
        return f"{name} had shape {tuple(before.shape)}, now {tuple(after.shape)}"
    differs = torch.nonzero(before != after)
    if not len(differs):
        return None
    first = tuple(differs[0].tolist())
    place = first[0] if len(first) == 1 else first
    return (
        f"{name} changed in {len(differs)} of its {before.numel()} entries, the first "
        f"at {place} from {before[first].item():.4g} to {after[first].item():.4g}"
    )


def attributes(thing: object) -> dict[str, object]:
    """Return what each attribute of an object holds, in a form that can be compared."""
    return {name: _held(value, 0) for name, value in _vars(thing).items()}


def _vars(thing: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in {"__dict__", "__weakref__"} and hasattr(thing, name):
                found[name] = getattr(thing, name)
    return found | getattr(thing, "__dict__", {})


def _held(value: Any, depth: int) -> object:
    """Return a value's content, a few levels down, as plain comparable things."""
    if isinstance(value, Generator):
        value = value.get_state()
    if isinstance(value, Tensor) and value.layout == torch.strided:
        octets = value.detach().cpu().flatten().view(torch.uint8)
        return str(value.dtype), tuple(value.shape), octets.numpy().tobytes()
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    return repr(value) if depth == _DEEPEST else _inside(value, depth + 1)


def _inside(value: Any, depth: int) -> object:
    if isinstance(value, Mapping):
        return [(repr(key), _held(entry, depth)) for key, entry in value.items()]
    if isinstance(value, list | tuple):
        return [_held(entry, depth) for entry in value]
    inner = {} if isinstance(value, type | ModuleType) else _vars(value)
    if inner:
        return [(name, _held(entry, depth)) for name, entry in inner.items()]
    return repr(value)
