"""``fewlabels start``: a folder and a budget in, a page in the browser."""

import os
import shlex
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import typer

from fewlabels import strategies, training
from fewlabels.cli.options import (
    AllowCode,
    Download,
    Encoder,
    Quiet,
    StrategyName,
    found_encoder,
)
from fewlabels.cli.terminal import Terminal
from fewlabels.data.folder import check_images, folder_labels, image_names
from fewlabels.data.hugging_face import HubData
from fewlabels.data.order import natural_key
from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.features.encoders import Quality
from fewlabels.integers import count
from fewlabels.naming import (
    DEFAULT_STRATEGY,
    check_installed,
    check_known,
    import_paths,
)
from fewlabels.projects import Project
from fewlabels.projects.classes import class_names
from fewlabels.projects.project import check_free
from fewlabels.projects.settings import FILE, checked

_BESIDE = "-labels"
_MOST_FOLDERS = 100


def start(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="Image folder, the folder of a project, or hf-dataset:FOLDER[@SPLIT].",
        ),
    ],
    *,
    classes: Annotated[
        str | None,
        typer.Option(help="Names, such as cat,dog,other; for a new project."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="Total number of labels; for a new project.")
    ] = None,
    project: Annotated[
        Path | None,
        typer.Option(help="Project folder. [default: FOLDER-labels, beside FOLDER]"),
    ] = None,
    audit: Annotated[
        int | None, typer.Option(help="Labels that only measure. [default: a fifth]")
    ] = None,
    query: Annotated[int, typer.Option(help="Labels asked for in each round.")] = 20,
    overlap: Annotated[int, typer.Option(help="People who label each image.")] = 1,
    strategy: StrategyName = DEFAULT_STRATEGY,
    trainer: Annotated[
        str | None,
        typer.Option(help="Name or module:Class. [default: what fits the images]"),
    ] = None,
    encoder: Encoder = None,
    download: Download = False,
    quality: Annotated[
        str | None, typer.Option(help="fast, normal or best; see 'fewlabels init'.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at; others need --token.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="[default: the project's own]")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="FEWLABELS_TOKEN",
            help="What people sign in with. Other users of this machine can see the "
            "options of a running command, so set the variable FEWLABELS_TOKEN "
            "instead. [default: a new one]",
        ),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open a browser.")
    ] = True,
    import_folders: Annotated[
        bool | None,
        typer.Option(
            "--import-folders/--no-import-folders",
            help="Take the folders of FOLDER for labels; for a new project. "
            "[default: ask]",
            show_default=False,
        ),
    ] = None,
    allow_code: AllowCode = False,
    quiet: Quiet = False,
) -> None:
    """Label images in the browser, with a model that learns along.

    Begins a project beside FOLDER, or goes on with it. Stop it with Ctrl-C at any time:
    every label that the page shows as saved is on the disk.
    """
    check_installed("The page", "fastapi", "uvicorn", extra="web")
    from fewlabels.web.serving import check_reach, serve

    check_reach(host, token)
    terminal = Terminal.open(quiet=quiet)
    hub = HubData.of(str(folder))
    if hub is not None:
        with terminal.busy():
            folder, named = hub.unpack(), hub.classes()
        if classes is None and named and not any("," in name for name in named):
            classes = ",".join(named)
    place = _place(folder, project)
    creation: dict[str, Any] | None = None
    allowed = set[str]()
    if (place / FILE).exists():
        _go_on(place, classes, budget, terminal)
    else:
        options: dict[str, Any] = {"budget": budget, "audit": audit, "query": query}
        options |= {"strategy": strategy, "trainer": trainer, "quality": quality}
        options |= {"overlap": overlap}
        options |= {"encoder": found_encoder(encoder, download=download)}
        if hub is None and budget is not None and folder.is_dir():
            classes, import_folders = _offer_import(
                folder, place, classes, terminal, wanted=import_folders
            )
        names = _check_new(place, folder, classes, options)
        images = str(folder.expanduser().resolve())
        creation = {"images": images, "classes": names, "options": options}
        creation["import_folders"] = bool(import_folders)
        allowed = set(import_paths(options))  # the command names them

    def ready(address: str, launch: Callable[[], Path]) -> None:
        # Even if quiet: without the address there is no way in.
        terminal.out.print(f"Label at {address}", soft_wrap=True)
        terminal.say("Stop with Ctrl-C; the same command goes on.")
        if browser and _has_screen():
            # Others can see how a browser was called, and it keeps where it was.
            own = launch().resolve().as_uri()
            Thread(target=webbrowser.open, args=(own,), daemon=True).start()

    def created(result: dict[str, Any]) -> None:
        terminal.say(result["reason"])
        if import_folders:
            undo = shlex.join(("fewlabels", "import", str(place), "--undo"))
            terminal.say(f"{result['imported']} To undo that: {undo}")

    serve(
        place,
        host=host,
        port=port,
        token=token,
        allow_code=allow_code or allowed,
        creation=creation,
        on_ready=ready,
        on_created=created,
    )


def _place(folder: Path, project: Path | None) -> Path:
    """Return the folder of the project."""
    if project is not None:
        return project
    if (folder / FILE).exists():
        return folder
    real = folder.expanduser().resolve()
    return real.with_name(real.name + _BESIDE)


def _go_on(
    place: Path, classes: str | None, budget: int | None, terminal: Terminal
) -> None:
    """Say what an existing project is, where the command asked for something else."""
    with Project.open(place) as found:
        names = [one.name for one in found.store.classes()]
        own = found.settings.budget
    terminal.say(f"Going on with the project in {place}.")
    wanted = [name.strip() for name in classes.split(",")] if classes else []
    if set(wanted) - set(names):
        missing = ", ".join(name for name in wanted if name not in names)
        terminal.say(
            f"Its classes are {', '.join(names)}. To add {missing}: Shift+N on the "
            f"page, or fewlabels classes add {shlex.quote(str(place))} NAME."
        )
    if budget not in {None, own}:
        told = (
            f"Its budget is {own}; change 'budget' in {place / FILE} to have another."
        )
        terminal.say(told)


def _check_new(
    place: Path, images: Path, classes: str | None, options: dict[str, Any]
) -> list[str]:
    """Raise if a project cannot be begun, as far as that is quickly known.

    Returns:
        The names of its classes.
    """
    if classes is None or options["budget"] is None:
        raise UsageError(
            f"There is no project in '{place}' yet, and a new one needs classes and a "
            "budget: add --classes cat,dog,other --budget 200."
        )
    names = list(class_names(classes.split(",")))
    real = images.expanduser().resolve()
    if not real.is_dir():
        raise UsageError(f"There is no folder '{images}' with images.")
    check_images(real)
    check_free(place)
    names_of = {"strategy": strategies.names(), "trainer": training.names()}
    for kind, known in names_of.items():
        name = options[kind]
        if name is not None and ":" not in name and name not in known:
            raise UnknownNameError(kind, name, known)
    if options["quality"] is not None:
        check_known("quality", options["quality"], Quality)
    numbers = {key: options[key] for key in ("budget", "audit", "query", "overlap")}
    anything = {"images": str(real), "trainer": training.names()[0], "shape": (3, 8, 8)}
    checked(sys.maxsize, **anything, **numbers)
    return names


def _offer_import(
    folder: Path,
    place: Path,
    classes: str | None,
    terminal: Terminal,
    *,
    wanted: bool | None,
) -> tuple[str | None, bool]:
    """Return the classes, by folder if none are given, and whether to import labels."""
    names, _ = image_names(folder)
    labels = [label for label in folder_labels(names) if label is not None]
    folders = sorted(set(labels), key=natural_key)
    if not 2 <= len(folders) <= _MOST_FOLDERS or any("," in name for name in folders):
        if wanted:
            raise UsageError(
                f"'{folder}' has {count(len(folders), 'folder')} with images; labels "
                f"are imported from 2 to {_MOST_FOLDERS} without a comma in the name. "
                "Leave --import-folders out."
            )
        return classes, False
    if classes is None:
        classes = ",".join(folders)
        terminal.say(f"The classes are the folders of {folder}: {', '.join(folders)}.")
    question = f"Import the labels of {len(labels):,} images from the folder names?"
    if wanted is None and sys.stdin.isatty():
        wanted = typer.confirm(question, default=True)
    elif wanted is None:
        words = shlex.join(("fewlabels", "import", str(place), str(folder)))
        terminal.say(f"The folder names can be imported as labels: {words}")
    return classes, bool(wanted)


def _has_screen() -> bool:
    """Whether a browser can show itself; one that takes the terminal would not do."""
    if sys.platform in {"darwin", "win32"}:
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
