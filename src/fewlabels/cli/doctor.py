"""``fewlabels doctor``: what is installed here, what is missing, and how to get it."""

import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from fewlabels.cli.options import Json
from fewlabels.cli.terminal import Terminal, table
from fewlabels.data.official import places
from fewlabels.models.encoders import available

_EXTRAS = {
    "page": "label images in the browser",
    "encoders": "features of photographs",
    "onnx": "ONNX export and encoders",
    "postgres": "labels of a team in PostgreSQL",
    "ray": "many machines",
    "track": "TensorBoard, MLflow",
}
"""What each extra is for; a test compares the names with those in the metadata."""


def doctor(*, terminal: Json) -> None:
    """Show versions, devices, extras, encoders and folders, and what to do about gaps.

    Nothing is changed or downloaded. Paste the output into a report of a fault.
    """
    machine = {
        "fewlabels": version("fewlabels"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        **_torch(),
    }
    extras = dict(_missing())
    encoders = {entry.name: entry.note or "here" for entry in available()}
    folders = {str(folder): _state(folder) for folder in places()}
    listed = {"missing": extras, "encoders": encoders}
    terminal.json({**machine, **listed, "folders": folders})
    _print(terminal, "", machine)
    drawn = table("extra", "for", "state")
    for name, missing in extras.items():
        command = f"pip install 'fewlabels[{name}]' (missing: {', '.join(missing)})"
        drawn.add_row(name, _EXTRAS[name], command if missing else "installed")
    terminal.result(drawn)
    _print(terminal, "encoder ", encoders)
    _print(terminal, "folder ", folders)


def _print(terminal: Terminal, kind: str, facts: Mapping[Any, str]) -> None:
    for name, value in facts.items():
        terminal.result(f"{kind}{name}: {value}")


def _torch() -> dict[str, str]:
    """Return the version of torch and what it can compute on."""
    import torch

    names = [f"cpu ({os.cpu_count()} cores)"]
    for number in range(torch.cuda.device_count()):
        names.append(f"cuda:{number} ({torch.cuda.get_device_name(number)})")
    names += ["mps"] if torch.backends.mps.is_available() else []
    return {"torch": str(torch.__version__), "devices": ", ".join(names)}


def _missing() -> Iterator[tuple[str, list[str]]]:
    """Yield each extra, and which of its packages are missing or too old."""
    declared = [Requirement(text) for text in requires("fewlabels") or ()]
    for extra in _EXTRAS:
        missing = []
        for need in declared:
            if need.marker is None or not need.marker.evaluate({"extra": extra}):
                continue
            try:
                is_met = need.specifier.contains(version(need.name), prereleases=True)
            except PackageNotFoundError:
                is_met = False
            if not is_met:
                missing.append(str(need).partition(";")[0])
        yield extra, missing


def _state(folder: Path) -> str:
    """Return whether a folder can be written to, and how much space is left there."""
    nearest = next(place for place in (folder, *folder.parents) if place.is_dir())
    can = "can be written" if os.access(nearest, os.W_OK) else "cannot be written"
    free = shutil.disk_usage(nearest).free / 1e9
    missing = "" if nearest == folder else "not there yet, "
    return f"{missing}{can}, {free:,.0f} GB free"
