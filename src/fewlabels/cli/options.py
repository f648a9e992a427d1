"""Options that several commands have."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from fewlabels.errors import AbsentModelError, UnknownNameError, UsageError

Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only errors, no progress.")
]
Json = Annotated[
    bool, typer.Option("--json", help="Print results as JSON, for other programs.")
]

StrategyName = Annotated[str, typer.Option(help="Name or module:Class.")]
StrategyOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of what is named; may be repeated.",
    ),
]

Encoder = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What makes features: a name that 'fewlabels encoders' lists, timm/NAME, "
        "hf-hub:ORG/REPO, local-dir:PATH, onnx:FILE, vectors:FILE (rows or shards) "
        "or module:object. [default: the trainer's]",
    ),
]

Download = Annotated[
    bool,
    typer.Option(
        "--download", help="Fetch the encoder's model, if it is not on this machine."
    ),
]

Engine = Annotated[str, typer.Option(help="local: a process per core; ray: a cluster.")]
Workers = Annotated[
    int | None, typer.Option(help="Processes for 'local'. [default: one per core]")
]
Address = Annotated[
    str | None, typer.Option(help="Address of a Ray cluster. [default: start one]")
]

AllowCode = Annotated[
    bool,
    typer.Option(
        "--allow-code", help="Import code that a file names; it can do anything."
    ),
]


def read_options(words: Iterable[str] | None) -> dict[str, Any]:
    """Return names and values; a value is read as in a settings file."""
    return dict(map(_option, words or ()))


def check_engine(
    engine: str, *, local: Mapping[str, object], ray: Mapping[str, object]
) -> None:
    """Raise if an engine is unknown, or would not heed an option that was given.

    Args:
        engine: Its name.
        local: Options that only the engine of this machine heeds; None: not given.
        ray: Options that only a cluster heeds.
    """
    if engine not in {"local", "ray"}:
        raise UnknownNameError("engine", engine, ("local", "ray"))
    other, unheeded = ("ray", ray) if engine == "local" else ("local", local)
    for option, value in unheeded.items():
        if value is not None:
            raise UsageError(
                f"{option} {value} works only with --engine {other} and would have no "
                f"effect here. Add --engine {other}, or leave {option} out."
            )


def found_encoder(encoder: str | None, *, download: bool) -> str | None:
    """Return the name of an encoder, once it is known to be on this machine.

    Whoever misspelled a path hears of it before anything heavy is imported.
    """
    from fewlabels.features import encoders

    if encoder is None:
        if download:
            raise UsageError("There is nothing to download; name it with --encoder.")
        return None
    encoders.check(encoder)
    if download:
        encoders.download(encoder)
    try:
        encoders.find(encoder)
    except AbsentModelError as error:
        raise UsageError(f"{error} --download downloads it.") from error
    return encoders.placed(encoder)


def _option(word: str) -> tuple[str, Any]:
    from fewlabels.runs.yaml_files import read_value

    name, equals, text = word.partition("=")
    if not (name and equals):
        raise UsageError(f"The option '{word}' has no value; write it as name=value.")
    try:
        return name, read_value(text)
    except ValueError as error:
        msg = f"The value of '{word}' cannot be read: {' '.join(str(error).split())}."
        raise UsageError(msg) from error
