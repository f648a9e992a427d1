"""All parsers of the package, each with good files to damage, made here."""

import json
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray
from tests.harness import fuzz_mutations as mutations
from tests.harness.fuzz_data import data_targets
from tests.harness.fuzz_mutations import Mutation, Target, json_lines

from fewlabels import models
from fewlabels.data import load
from fewlabels.experiments.acquisition import Evaluations
from fewlabels.experiments.bench.experiment import read_experiment
from fewlabels.experiments.runs import RunFolder, execute
from fewlabels.experiments.settings import Choice, RunSettings
from fewlabels.files import FIELD
from fewlabels.models.cache import CONTENT, FeatureCache
from fewlabels.models.classifiers import NetworkClassifier
from fewlabels.models.model_folder import load_model, save_model
from fewlabels.projects.exchange import read_answers
from fewlabels.projects.folder import ModelRecord
from fewlabels.projects.folder import read_records as records
from fewlabels.projects.settings import ProjectSettings
from fewlabels.report import write_report
from fewlabels.rng import stream


def targets(place: Path) -> tuple[Target, ...]:
    """Return all targets.

    Args:
        place: A folder for what cannot be made in memory.

    Returns:
        The targets; the same files every time, but for times of runs.
    """
    return (
        *data_targets(),
        *_answers(),
        *_settings(),
        *_run(place / "run"),
        *_models(place / "model"),
        *_features(place / "features"),
    )


def _answers() -> list[Target]:
    rows = [
        {"file_name": "a.png", "label": "cat", "annotator": "ann", "seconds": "1.5"},
        {"file_name": "b/c.png", "label": "dog", "status": "", "number": 2},
        {"file_name": "d.png", "status": "skip", "time": "2024-05-01T10:00:00+02:00"},
    ]
    columns = sorted({name for row in rows for name in row})
    cells = [[str(row.get(name, "")) for name in columns] for row in rows]
    task = {
        "id": 1,
        "data": {"image": "/data/local-files/?d=a.png"},
        "annotations": [
            {
                "completed_by": {"email": "ann@example.org"},
                "created_at": "2024-05-01T10:00:00.000000Z",
                "lead_time": 3.5,
                "was_cancelled": False,
                "result": [{"type": "choices", "value": {"choices": ["cat"]}}],
            }
        ],
    }
    other = {**task, "id": 2, "data": {"image": "d.png"}}
    files: dict[str, tuple[bytes, tuple[Mutation, ...]]] = {
        "q.csv": ("\n".join(map(",".join, [columns, *cells])).encode(), ()),
        "q.jsonl": (json_lines(rows), (mutations.damaged_json_lines,) * 2),
        "q.json": (json.dumps([task, other]).encode(), (mutations.damaged_json,) * 3),
    }
    return [
        Target(
            f"answers in {name}", {name: made}, {name: damage}, partial(_answered, name)
        )
        for name, (made, damage) in files.items()
    ]


def _answered(name: str, folder: Path) -> object:
    items = {"a.png": "a.png@1", "b/c.png": "b/c.png@2", "d.png": "d.png@3"}
    return read_answers(folder / name, items=items, asked=None, classes=("cat", "dog"))


def _settings() -> list[Target]:
    run = {
        "data": {"name": "digits", "counts": {"3": 40, "8": 5}},
        "strategy": {"name": "npc", "draws": 100},
        "trainer": {"name": "fixmatch", "options": {"steps": 30}},
        "start": 10,
        "budget": 50,
        "seeds": {"train": 1},
    }
    experiment = {
        "name": "mine",
        "title": "Mine",
        "conditions": [{"name": "one", "settings": run}],
        "strategies": ["random", {"name": "npc", "draws": 50}],
        "seeds": [0, 1],
        "retrainings": 2,
        "footprint": {"seconds_per_step": 0.1, "megabytes": 500},
    }
    project = {
        "images": "images",
        "budget": 100,
        "audit": 20,
        "trainer": {"name": "fixmatch", "options": {}},
        "shape": [3, 32, 32],
    }
    damage: tuple[Mutation, ...] = (mutations.damaged_yaml,) * 3
    return [
        Target(
            "settings of a run",
            {"a.yaml": yaml.safe_dump(run).encode()},
            {"a.yaml": damage},
            lambda folder: RunSettings.merged(folder / "a.yaml", {}),
        ),
        Target(
            "an experiment",
            {"a.yaml": yaml.safe_dump(experiment).encode()},
            {"a.yaml": damage},
            lambda folder: read_experiment(folder / "a.yaml"),
        ),
        Target(
            "project.json",
            {"project.json": json.dumps(project).encode()},
            {"project.json": (mutations.damaged_json,) * 3},
            ProjectSettings.read,
        ),
    ]


def _run(place: Path) -> list[Target]:
    pool = load("digits", counts=[3] * 10)
    settings = RunSettings(
        data=Choice(name="digits", options={"counts": [3] * 10}),
        strategy=Choice(name="npc", options={"draws": 20}),
        trainer=Choice(name="supervised", options={"network": "wrn-10-1", "steps": 1}),
        start=4,
        query=2,
        budget=8,
    )
    for _ in execute(settings, place, pool):
        pass
    sealed = {path.name: path.read_bytes() for path in place.glob("*.json*")}
    files = {name: _unsealed(content) for name, content in sealed.items()}

    def report(folder: Path) -> object:
        return write_report(folder / "report.html", RunFolder(folder), pool)

    def resume(folder: Path) -> object:
        found = RunFolder(folder)
        return found.description(), found.start(), found.lines(), found.timings()

    accuracies = [{"step": step, "accuracy": 0.5} for step in (1, 2)]
    damage: dict[str, tuple[Mutation, ...]] = {
        "run.json": (mutations.damaged_json,) * 3,
        "start.json": (mutations.damaged_json,) * 3,
        "rounds.jsonl": (mutations.damaged_json_lines,) * 3,
        "timings.jsonl": (mutations.damaged_json_lines,) * 3,
    }
    return [
        Target("a run, reported", files, damage, report),
        Target("a sealed run", sealed, damage, resume),
        *(
            Target(f"{name}, read", files, {name: damage[name]}, resume)
            for name in ("run.json", "rounds.jsonl")
        ),
        Target(
            "evaluations",
            {"evaluations.jsonl": json_lines([{"mark": "m"}, *accuracies])},
            {"evaluations.jsonl": (mutations.damaged_json_lines,) * 3},
            lambda folder: Evaluations(pool.test, folder, "m"),
        ),
    ]


def _unsealed(content: bytes) -> bytes:
    """Return JSON without checksums, as earlier versions wrote it."""
    try:
        values = [json.loads(content)]
    except ValueError:
        values = [json.loads(line) for line in content.splitlines()]
    return json_lines([{k: v[k] for k in v if k != FIELD} for v in values])


def _models(place: Path) -> list[Target]:
    built = models.build("wrn-10-1", (1, 8, 8), 3, stream(1, "weights"))
    classifier = NetworkClassifier(built.eval(), 3)
    save_model(place, classifier, ("cat", "dog", "cow"), (1, 8, 8))
    files = {path.name: path.read_bytes() for path in place.iterdir()}
    files["config.json"] = _unsealed(files["config.json"])
    record = ModelRecord(
        number=0,
        created=datetime(2024, 5, 1, tzinfo=UTC),
        seconds=1.5,
        trainer="fixmatch",
        reason="You chose the trainer.",
        settings="0123",
        labels="4567",
        classes=("cat", "dog"),
        class_counts=(3, 4),
        audit={"a.png@1": "cat"},
        predicted=(5, 6),
    )
    told = record.model_dump_json().encode()
    config = (mutations.damaged_json,) * 3
    weights = (mutations.damaged_safetensors,) * 3
    return [
        Target("config.json", files, {"config.json": config}, _predict),
        Target("weights", files, {"model.safetensors": weights}, _predict),
        Target("a model", files, {"model.safetensors": weights}, _matched),
        Target(
            "training.json",
            {"model-000/training.json": told},
            {"model-000/training.json": (mutations.damaged_json,) * 3},
            records,
        ),
    ]


def _predict(folder: Path) -> object:
    return load_model(folder)


def _matched(folder: Path) -> object:
    """Read a model whose configuration vouches for whatever weights there are."""
    config = json.loads((folder / "config.json").read_bytes())
    weights = (folder / "model.safetensors").read_bytes()
    config["weights_sha256"] = sha256(weights).hexdigest()
    config.pop(FIELD, None)
    (folder / "config.json").write_text(json.dumps(config))
    return load_model(folder)


def _features(place: Path) -> list[Target]:
    facts = {"encoder": "toy", "dtype": "float32"}
    contents = np.array([f"item {number}" for number in range(20)]).astype(CONTENT)

    def rows_of(items: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.repeat(items[:, None], 3, axis=1).astype(np.float32)

    def read(folder: Path) -> object:
        rows = FeatureCache(folder).rows(facts, contents, rows_of)
        assert np.array_equal(rows, rows_of(np.arange(20)))
        return rows

    read(place)
    names = {path.suffix: path.name for path in place.iterdir()}
    files = {
        name: (place / name).read_bytes()
        for kind, name in names.items()
        if kind != ".lock"
    }
    return [
        Target("features", files, {names[".rows"]: ()}, read),
        Target("index of features", files, {names[".index"]: ()}, read),
        Target(
            "description of features",
            files,
            {names[".json"]: (mutations.damaged_json,)},
            read,
        ),
    ]
