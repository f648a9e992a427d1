"""``fewlabels select``: bring your own embeddings."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fewlabels.cli.options import Json, Quiet, StrategyOptions, read_options
from fewlabels.cli.terminal import Terminal, print_line
from fewlabels.data.npz import read_npz
from fewlabels.errors import DataError, UnknownNameError
from fewlabels.strategies.arrays import select as select_from_arrays

_ARRAYS = ("features", "logits", "labeled", "labels", "candidates")


def select(
    arrays: Annotated[
        Path,
        typer.Argument(
            metavar="FEATURES.npz",
            help="Arrays: features (N, F); optional logits (N, C), labeled, labels, "
            "candidates (indices).",
        ),
    ],
    *,
    strategy: Annotated[str, typer.Option(help="Name or module:Class.")] = "npc",
    option: StrategyOptions = None,
    size: Annotated[int, typer.Option(help="How many items to choose.")] = 20,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Choose which items to label next, from embeddings of any framework.

    Prints the chosen indices, one per line.
    """
    options = read_options(option)
    with Terminal.open(quiet=quiet or as_json).busy():
        given = _read(arrays)
        chosen = select_from_arrays(
            strategy, **given, size=size, seed=seed, options=options
        )
    if as_json:
        print_line(json.dumps({"strategy": strategy, "indices": chosen.tolist()}))
    else:
        print_line("\n".join(map(str, chosen.tolist())))


def _read(path: Path) -> dict[str, Any]:
    """Read the arrays of an .npz file and check their names."""
    given: dict[str, Any] = read_npz(path)
    for name in given:
        if name not in _ARRAYS:
            raise UnknownNameError(f"array of '{path.name}'", name, _ARRAYS)
    if "features" not in given:
        raise DataError(
            f"'{path}' contains {sorted(given)}; an array called 'features' is needed. "
            "Save it with numpy.savez(path, features=..., labeled=...)."
        )
    return given
