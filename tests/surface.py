"""The public surface: Python names, commands with their options, file formats.

``python -m tests.surface`` writes what the code says into ``surface.json``. A test
compares the two, so that nothing enters or leaves without a decision.
"""

import json
import sqlite3
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import fewlabels
from fewlabels.cli.app import _COMMANDS, command
from fewlabels.experiments.bench import Experiment
from fewlabels.experiments.bench import folder as bench
from fewlabels.experiments.runs import execute
from fewlabels.experiments.settings import RunSettings
from fewlabels.models.model_folder import EncoderConfig, ModelConfig
from fewlabels.projects.export import Manifest
from fewlabels.projects.folder import ModelRecord
from fewlabels.projects.settings import ProjectSettings
from fewlabels.projects.store import Store

FILE = Path(__file__).with_name("surface.json")
COMMAND = "python -m tests.surface"


def surface() -> dict[str, Any]:
    """Return all of it, as JSON can hold it."""
    return {
        "names": {
            "strategies": sorted(fewlabels.strategies.names()),
            "trainers": sorted(fewlabels.training.names()),
            "data": sorted(fewlabels.data.names()),
        },
        "python": _python(),
        "commands": {
            path: words
            for name in sorted(_COMMANDS)
            for path, words in _commands(command(name), f"fewlabels {name}")
        },
        "files": _models() | _run_files() | _store(),
    }


def rendered(content: dict[str, Any]) -> str:
    """Return the text of the file: one name, command or file per line."""
    blocks = []
    for part, entries in content.items():
        lines = [f"  {json.dumps(n)}: {json.dumps(v)}" for n, v in entries.items()]
        blocks.append(f"{json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _python() -> dict[str, list[str]]:
    """Return the names that each public module exports."""
    names = {"fewlabels": sorted(fewlabels.__all__)}
    documented = ["experiments.bench", "experiments.evaluation", "training.darp"]
    for name in sorted([*fewlabels.__all__, *documented]):
        try:
            module = import_module(f"fewlabels.{name}")
        except ModuleNotFoundError:  # a function or a class of the package itself
            continue
        if hasattr(module, "__all__"):
            names[module.__name__] = sorted(module.__all__)
    methods = [n for n in dir(fewlabels.projects.Project) if not n.startswith("_")]
    return names | {"fewlabels.projects.Project": methods}


def _commands(parsed: Any, path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command with its arguments and options."""
    for name, inner in sorted(getattr(parsed, "commands", {}).items()):
        yield from _commands(inner, f"{path} {name}")
    words = [
        word
        for param in parsed.params
        for word in (
            [param.name.upper()]
            if param.param_type_name == "argument"
            else [*param.opts, *param.secondary_opts]
        )
    ]
    yield path, sorted(words)


def _models() -> dict[str, Any]:
    """Return the fields of the files that a Pydantic model describes."""
    files: dict[str, type[BaseModel]] = {
        "project.json": ProjectSettings,
        "project: models/*/training.json": ModelRecord,
        "export: manifest": Manifest,
        "export: model/config.json": ModelConfig,
        "export: model/config.json: encoder": EncoderConfig,
        "bench: experiments/*.json": Experiment,
        "bench: failures/*.json": bench.Failure,
    }
    found: dict[str, Any] = {n: sorted(m.model_fields) for n, m in files.items()}
    return found | {"bench: version": bench._DESCRIPTION["schema_version"]}


def _run_files() -> dict[str, Any]:
    """Return the keys of the files of a small run."""
    pool = fewlabels.data.subset(fewlabels.load("digits"), [12] * 10)
    settings = RunSettings.model_validate(
        {"data": "digits", "trainer": "spreading", "query": 5, "budget": 15}
    )
    with tempfile.TemporaryDirectory() as place:
        list(execute(settings, Path(place), pool))
        files = sorted(f for f in Path(place).rglob("*") if f.suffix[:5] == ".json")
        found: dict[str, Any] = {}
        for file in files:
            text = file.read_text("utf-8")
            first = text.splitlines()[0] if file.suffix == ".jsonl" else text
            content = json.loads(first)
            found[f"run: {file.name}"] = _keys(content)
            if "schema_version" in content:
                found[f"run: {file.name}: version"] = content["schema_version"]
    return found


def _keys(content: Any, prefix: str = "") -> list[str]:
    """Return the keys of an object, and of the objects in it, joined by dots."""
    open_ended = {"made", "record", "options", "versions"}
    keys = []
    for key in content:
        keys.append(f"{prefix}{key}")
        if isinstance(content[key], dict) and key not in open_ended:
            keys += _keys(content[key], f"{prefix}{key}.")
    return keys


def _store() -> dict[str, Any]:
    """Return tables and views of a label store, with their columns."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "labels.sqlite"
        Store.open(file).close()
        connection = sqlite3.connect(file)
        query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        found: dict[str, Any] = {
            f"store: {name}": [
                row[1] for row in connection.execute(f"PRAGMA table_info('{name}')")
            ]
            for (name,) in sorted(connection.execute(query).fetchall())
        }
        query = "SELECT version FROM schema_version"
        found["store: version"] = connection.execute(query).fetchone()[0]
        connection.close()
    return found


if __name__ == "__main__":
    FILE.write_text(rendered(surface()), "utf-8")
