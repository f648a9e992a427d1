"""What kind of thing is to be checked: by its name, or by its methods."""

import inspect
from collections.abc import Mapping
from typing import Any, Literal

import torch

from fewlabels import naming, strategies, training
from fewlabels.conformance.problems import problem
from fewlabels.errors import UsageError
from fewlabels.naming import check_known
from fewlabels.protocols import Kernel
from fewlabels.strategies.kernels import own_kernel

Kind = Literal["strategy", "trainer", "classifier", "kernel"]

_METHODS: dict[Kind, tuple[str, ...]] = {
    "strategy": ("select",),
    "trainer": ("fit",),
    "classifier": ("outputs",),
    "kernel": ("block", "diagonal"),
}


def recognized(
    thing: str | object, options: Mapping[str, Any], kind: Kind | None
) -> tuple[Kind, Any]:
    """Return the kind of a thing, and the object that its name stands for.

    Without a kind, its methods say what it is.
    """
    if kind is not None:
        check_known("kind", kind, Kind)
    if kind == "trainer" or (kind is None and thing in training.names()):
        return "trainer", training.resolve(thing, options)  # type: ignore[arg-type]  # it checks
    if kind == "strategy" or (isinstance(thing, str) and ":" not in thing):
        return "strategy", strategies.resolve(thing, options)  # type: ignore[arg-type]  # it checks
    found = (
        _made_kernel(thing)
        if kind in {None, "kernel"} and not options and _makes_kernel(thing)
        else naming.resolve(kind or "thing to check", thing, options, {}, method=None)
    )
    offers = [one for one in _METHODS if _has(found, _METHODS[one])]
    if kind is None and len(offers) == 1:
        return offers[0], found
    if kind is not None and kind in offers:
        return kind, found
    wanted = "; ".join(
        f"a {one} {' and '.join(methods)}" for one, methods in _METHODS.items()
    )
    seen = " and ".join(f"a {one}" for one in offers) or "none of these"
    raise UsageError(
        f"An object of type {type(found).__name__} is to be checked, and its methods "
        f"are those of {seen}. Needed are: {wanted}. Name a class or function that "
        "makes one, or say which it is with kind."
    )


def _makes_kernel(thing: object) -> bool:
    """Tell whether this is a function of two arguments: outputs and a pool."""
    maker = naming.imported("kernel", thing) if isinstance(thing, str) else thing
    if not callable(maker):
        return False
    needed = [
        one
        for one in inspect.signature(maker).parameters.values()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    return len(needed) == 2


def _made_kernel(maker: Any) -> Kernel:
    pool, classifier = problem(0)
    outputs = classifier.outputs(pool.images, torch.arange(len(pool)))
    return own_kernel(maker, outputs, pool)


def _has(thing: object, methods: tuple[str, ...]) -> bool:
    return not isinstance(thing, type) and all(
        callable(getattr(thing, method, None)) for method in methods
    )
