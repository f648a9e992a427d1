"""``fewlabels start``: a folder and a budget in, a page in the browser."""

import os
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import typer

from fewlabels import strategies, training
from fewlabels.cli import options
from fewlabels.cli.terminal import Terminal, command_line
from fewlabels.data import hugging_face
from fewlabels.data.folder import check_images, folder_labels, image_names
from fewlabels.data.untrusted import natural_key
from fewlabels.errors import UnknownNameError, UsageError, count
from fewlabels.names import check_installed, import_paths
from fewlabels.projects import Project
from fewlabels.projects.folder import check_empty
from fewlabels.projects.labels import check_class_names
from fewlabels.projects.settings import FILE, NewProject

_MOST_FOLDERS = 100


@options.taking(
    NewProject,
    *("budget", "audit", "query", "overlap", "strategy", "trainer", "quality"),
)
def start(
    folder: Path,
    *,
    classes: str | None = None,
    project: Path | None = None,
    encoder: options.Encoder = None,
    host: str = "127.0.0.1",
    port: options.Port = None,
    token: options.Token = None,
    browser: bool = True,
    import_folders: bool | None = None,
    allow_code: options.AllowCode = False,
    quiet: Annotated[bool, options.QUIET] = False,
    **given: Any,
) -> None:
    """Label images in the browser, with a model that learns along.

    Begins a project beside FOLDER, or goes on with it. Stop it with Ctrl-C at any time:
    every label that the page shows as saved is on the disk.

    Options:
        folder: Image folder, the folder of a project, or hf-dataset:FOLDER[@SPLIT].
        classes: Names, such as cat,dog,other; for a new project.
        project: Project folder. [default: FOLDER-labels, beside FOLDER]
        host: Address to listen at; others need --token.
        browser: Open a browser.
        import_folders: Take the folders of FOLDER for labels; for a new project.
            [default: ask]
    """
    check_installed("The page", "fastapi", "uvicorn", install="fewlabels[page]")
    from fewlabels.web.server import check_reach, serve

    check_reach(host, token)
    terminal = Terminal(quiet)
    is_hub = str(folder).startswith(hugging_face.PREFIX)
    if is_hub:
        with terminal.busy():
            folder, named = hugging_face.unpack(str(folder))
        if classes is None and named and not any("," in name for name in named):
            classes = ",".join(named)
    real = folder.expanduser().resolve()
    is_project = project is None and (folder / FILE).exists()
    place = project or (folder if is_project else Path(f"{real}-labels"))
    creation: dict[str, Any] | None = None
    allowed = set[str]()
    if (place / FILE).exists():
        _describe_existing(place, classes, given.get("budget"), terminal)
    else:
        given["encoder"] = encoder
        if not is_hub and given.get("budget") is not None and folder.is_dir():
            classes, import_folders = _offer_import(
                folder, place, classes, terminal, wanted=import_folders
            )
        names = _check_beginning(place, real, classes, given)
        creation = {"images": str(real), "options": given, "classes": names}
        creation["import_folders"] = bool(import_folders)
        allowed = set(import_paths(given))  # the command names them

    def ready(address: str, launch: Callable[[], Path]) -> None:
        # Even if quiet: without the address there is no way in.
        terminal.out.print(f"Label at {address}", soft_wrap=True)
        terminal.say("Stop with Ctrl-C; the same command continues.")
        has_screen = sys.platform in {"darwin", "win32"} or bool(
            os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        )
        if browser and has_screen:  # one that takes the terminal would not do
            # Others can see how a browser was called, and it keeps where it was.
            own = launch().resolve().as_uri()
            Thread(target=webbrowser.open, args=(own,), daemon=True).start()

    def created(result: dict[str, Any]) -> None:
        terminal.say(result["reason"])
        if result["advice"]:
            terminal.say(result["advice"])
        if import_folders:
            undo = command_line("import", place, "--undo")
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


def _describe_existing(
    place: Path, classes: str | None, budget: int | None, terminal: Terminal
) -> None:
    """Say what an existing project is, where the command asked for something else."""
    with Project.open(place) as project:
        names = ",".join(known.name for known in project.store.classes())
        own = project.settings.budget
    terminal.say(f"Continuing the project in {place}.")
    if classes not in {None, names} or budget not in {None, own}:
        terminal.say(
            f"It keeps its classes ({names}; Shift+N on the page adds one) and its "
            f"budget ({own}, in {place / FILE})."
        )


def _check_beginning(
    place: Path, images: Path, classes: str | None, given: dict[str, Any]
) -> list[str]:
    """Raise if a project cannot be begun, as far as that is quickly known.

    Returns:
        The names of its classes.
    """
    if classes is None or given.get("budget") is None:
        raise UsageError(
            f"'{place}' has no project yet; add --classes cat,dog,other --budget 200."
        )
    names = list(check_class_names(classes.split(",")))
    if not images.is_dir():
        raise UsageError(f"There is no folder '{images}' with images.")
    check_images(images)
    check_empty(place)
    new = NewProject.of(given)
    known = {"strategy": strategies.names(), "trainer": training.names()}
    for kind, choice in (("strategy", new.strategy), ("trainer", new.trainer)):
        name = "" if choice is None else choice.name
        if name and ":" not in name and name not in known[kind]:
            raise UnknownNameError(kind, name, known[kind])
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
                f"'{folder}' has {count(len(folders), 'folder')} with images; 2 to "
                f"{_MOST_FOLDERS} are imported. Leave --import-folders out."
            )
        return classes, False
    if classes is None:
        classes = ",".join(folders)
        terminal.say(f"The classes are the folders of {folder}: {', '.join(folders)}.")
    question = f"Import the labels of {len(labels):,} images from the folder names?"
    if wanted is None and sys.stdin.isatty():
        wanted = typer.confirm(question, default=True)
    elif wanted is None:
        following = command_line("import", place, folder)
        terminal.say(f"The folder names can be imported as labels: {following}")
    return classes, bool(wanted)
