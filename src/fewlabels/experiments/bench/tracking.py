"""Finished runs for MLflow: parameters, accuracy by number of labels, seconds."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fewlabels.errors import UsageError
from fewlabels.experiments.bench.experiment import Cell
from fewlabels.experiments.bench.folder import BenchFolder
from fewlabels.jobs.cluster import restore_environment

_PASSWORD = re.compile(r"//[^/\s]*@")  # with the name before it
_TAG = "fewlabels.cell"
_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"


class Mlflow:
    """Sends finished runs to MLflow, each once."""

    def __init__(self, uri: str, experiment: str) -> None:
        """Find the experiment, or make it.

        Args:
            uri: Where MLflow keeps its runs, such as ``"sqlite:///mlflow.db"`` or the
                address of a server.
            experiment: Name of the experiment there. A :class:`UsageError` tells that
                MLflow is not installed, or does not answer.
        """
        self._mlflow, self._uri = _imported(), uri
        with self._explained(), restore_environment(_RETRIES):
            # By itself it tries for minutes to reach a server that is not there.
            os.environ.setdefault(_RETRIES, "1")
            self._client = self._mlflow.MlflowClient(uri)
            found = self._client.get_experiment_by_name(experiment)
            self._experiment = (
                self._client.create_experiment(experiment)
                if found is None
                else found.experiment_id
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (self._mlflow.exceptions.MlflowException, ImportError) as error:
            msg = (
                f"MLflow at '{self._uri}' cannot be used: {error}. Give an address "
                "that it knows, such as sqlite:///mlflow.db, or go on without."
            )
            raise UsageError(_PASSWORD.sub("//***@", msg)) from error

    def send(self, cell: Cell, folder: BenchFolder) -> bool:
        """Send a finished run, unless the whole of it is there.

        Args:
            cell: The run.
            folder: The benchmark that holds it.

        Returns:
            Whether it was sent.
        """
        with self._explained():
            whole = f"tags.`{_TAG}` = '{cell.address}' and status = 'FINISHED'"
            if self._client.search_runs([self._experiment], whole):
                return False
            self._send(cell, folder)
        return True

    def _send(self, cell: Cell, folder: BenchFolder) -> None:
        tags = {_TAG: cell.address, "mlflow.runName": cell.label}
        run = self._client.create_run(self._experiment, tags=tags).info.run_id
        for name, value in _parameters(cell).items():
            self._client.log_param(run, name, value)
        timings = {timing.get("step"): timing for timing in folder.timings(cell)}
        for line in folder.lines(cell):
            timing = timings.get(line.step, {})
            figures = {"accuracy": line.accuracy} | {
                name: value for name, value in timing.items() if _is_figure(name)
            }
            for name, value in figures.items():
                if value is not None:
                    self._client.log_metric(run, name, value, step=line.num_labeled)
        self._client.set_terminated(run)


def _parameters(cell: Cell) -> dict[str, Any]:
    s = cell.settings
    chosen = {"data": s.data, "strategy": s.strategy, "trainer": s.trainer}
    numbers = {"start": s.start, "query": s.query, "budget": s.budget, "seed": s.seed}
    return {name: choice.label for name, choice in chosen.items()} | numbers


def _is_figure(name: str) -> bool:
    return name.endswith(("_seconds", "_mb"))


def _imported() -> Any:
    """Return MLflow; an extra of this package installs it."""
    # MLflow reads this when it is imported; a person's own choice stays.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        import mlflow
    except ImportError as error:
        raise UsageError(
            f"MLflow is not installed ({error}). Install it with: pip install "
            "'fewlabels[mlflow]', or go on without it."
        ) from error
    return mlflow
