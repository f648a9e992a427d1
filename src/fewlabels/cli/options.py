"""Options that several commands have, and where the help of options is written."""

import re
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, getdoc, signature
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel
from typer import Argument, Option, Typer

from fewlabels.cli.terminal import Terminal
from fewlabels.errors import AbsentModelError, UsageError
from fewlabels.names import check_known

_ANNOTATED: Any = Annotated  # subscripted with what is known when a command is called
_ENTRY = re.compile(r"(?ms)^    (\w+)(?: \((\S+)\))?: (.*?)(?=^    \w|\Z)")
Command = TypeVar("Command", bound=Callable[..., None])

QUIET = Option("--quiet", "-q", help="Print only errors, no progress.")
_SWITCHES = {
    "is_quiet": QUIET,
    "as_json": Option("--json", help="Print results as JSON, for other programs."),
    "download": Option(
        "--download", help="Fetch the encoder's model, if it is not on this machine."
    ),
}
Quiet = Annotated[Terminal, "is_quiet"]
"""Where a command prints, with these options."""
Json = Annotated[Terminal, "as_json"]
QuietOrJson = Annotated[Terminal, "is_quiet", "as_json"]
StrategyName = Annotated[str, Option(help="Name or module:Class.")]
StrategyOptions = Annotated[
    list[str] | None,
    Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of what is named; may be repeated.",
    ),
]
SetOptions = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="NAME=VALUE",
        help="Another setting for all conditions, such as budget=40 or "
        "trainer.precision=bf16-mixed; may be repeated.",
    ),
]
Encoder = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="What makes features: a name that 'fewlabels encoders' lists, timm/NAME, "
        "hf-hub:ORG/REPO, local-dir:PATH, onnx:FILE, vectors:FILE (rows or shards) "
        "or module:object. [default: the trainer's]",
    ),
]
Download = Annotated[bool, _SWITCHES["download"]]
Engine = Annotated[str, Option(help="local: a process per core; ray: a cluster.")]
Workers = Annotated[
    int | None, Option(help="Processes for 'local'. [default: one per core]")
]
Address = Annotated[
    str | None, Option(help="Address of a Ray cluster. [default: start one]")
]
Port = Annotated[
    int | None, Option(min=1, max=65535, help="[default: one for each folder]")
]
Token = Annotated[
    str | None,
    Option(
        envvar="FEWLABELS_TOKEN",
        help="What people or programs sign in with. Other users of this machine can "
        "see the options of a running command, so set the variable FEWLABELS_TOKEN "
        "instead. [default: a new one]",
    ),
]
AllowCode = Annotated[
    bool,
    Option("--allow-code", help="Import code that a file names; it can do anything."),
]


def group(about: str) -> Typer:
    """Return a command that has commands of its own."""
    return Typer(
        help=about, no_args_is_help=True, add_completion=False, rich_markup_mode=None
    )


def documented(command: Command) -> Callable[..., None]:
    """Return a command as Typer calls it: its options come from its docstring.

    Its section "Options" has lines such as ``size: How many.`` or, with the word that
    stands for a value, ``out (FILE): Where to write.`` Positional parameters become
    arguments, a bool becomes a flag; others keep what their types say. A parameter
    ``terminal`` becomes the options that its type names; what is reported while the
    command runs is shown there. An :data:`Encoder` is looked for on this machine
    before, and there is an option to download it.
    """
    about, _, section = (getdoc(command) or "").partition("\n\nOptions:\n")
    own = signature(command)
    changed = dict(own.parameters)
    for name, metavar, text in _ENTRY.findall(section):
        parameter, about_it = changed[name], " ".join(text.split())
        is_flag = parameter.annotation is bool and not parameter.default
        flags = [f"--{name.replace('_', '-')}"] if is_flag else []
        given = Option(*flags, metavar=metavar or None, help=about_it)
        if parameter.kind is not Parameter.KEYWORD_ONLY:
            given = Argument(metavar=metavar or name.upper(), help=about_it)
        annotation = _ANNOTATED[parameter.annotation, given]
        changed[name] = parameter.replace(annotation=annotation)
    printing = changed.pop("terminal", None)
    switches = () if printing is None else get_args(printing.annotation)[1:]
    encoded = [name for name in changed if changed[name].annotation is Encoder]
    for name in (*["download" for _ in encoded], *switches):
        changed[name] = _parameter(name, bool, _SWITCHES[name], default=False)

    def call(**given: Any) -> None:
        for name in encoded:
            given[name] = local_encoder(given[name], download=given.pop("download"))
        if printing is None:
            command(**given)
            return
        terminal = Terminal(**{name: given.pop(name) for name in switches})
        with terminal.busy():
            command(terminal=terminal, **given)

    call.__name__, call.__doc__ = command.__name__, about
    changed_signature = own.replace(parameters=list(changed.values()))
    call.__signature__ = changed_signature  # type: ignore[attr-defined]  # for Typer
    return call


def _parameter(name: str, kind: Any, option: Any, default: Any) -> Parameter:
    hint = _ANNOTATED[kind, option]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def taking(
    model: type[BaseModel], *names: str, is_required: bool = False
) -> Callable[[Command], Command]:
    """Give a command fields of a model as options, in the place of ``**options``.

    Args:
        model: What states the settings.
        *names: Which fields; an option that is not given is None.
        is_required: Whether fields without a default must be given.

    Returns:
        A decorator.
    """
    options = []
    for name in names:
        field = model.model_fields[name]
        is_needed = field.is_required() and is_required
        kind = int if int in {field.annotation, *get_args(field.annotation)} else str
        about = " ".join((field.description or "").split())
        default = getattr(field.default, "name", field.default)
        if not field.is_required() and default is not None:
            about += f" [default: {default}]"
        default = Parameter.empty if is_needed else None
        options.append(_parameter(name, kind | None, Option(help=about), default))

    def decorate(command: Command) -> Command:
        own = signature(command)
        first, *others, _ = own.parameters.values()  # the last one is **options
        changed = own.replace(parameters=[first, *options, *others])
        command.__signature__ = changed  # type: ignore[attr-defined]  # Typer reads it
        return command

    return decorate


def read_options(words: Iterable[str] | None) -> dict[str, Any]:
    """Return names and values; a value is read as in a settings file."""
    from fewlabels.experiments.settings import read_value

    values = {}
    for word in words or ():
        name, equals, text = word.partition("=")
        if not (name and equals):
            raise UsageError(f"'{word}' has no value; write name=value.")
        try:
            values[name] = read_value(text)
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise UsageError(f"'{word}' cannot be read: {reason}.") from error
    return values


def check_engine(
    engine: str, *, local: Mapping[str, object], ray: Mapping[str, object]
) -> None:
    """Raise if an engine is unknown, or an option that was given has no effect.

    Args:
        engine: Its name.
        local: Options for processes of this machine alone; None: not given.
        ray: Options for a cluster alone.
    """
    check_known("engine", engine, Literal["local", "ray"])
    other, unused = ("ray", ray) if engine == "local" else ("local", local)
    for option, value in unused.items():
        if value is not None:
            raise UsageError(
                f"{option} {value} works only with --engine {other}; leave it out."
            )


def local_encoder(encoder: str | None, *, download: bool) -> str | None:
    """Return the name of an encoder, once it is known to be on this machine.

    A misspelled path is reported before anything heavy is imported.
    """
    if encoder is None:
        if download:
            raise UsageError("There is nothing to download; name it with --encoder.")
        return None
    from fewlabels.models import encoders

    encoders.check(encoder)
    if download:
        encoders.download(encoder)
    try:
        encoders.find(encoder)
    except AbsentModelError as error:
        raise UsageError(f"{error} --download downloads it.") from error
    return encoders.absolute(encoder)
