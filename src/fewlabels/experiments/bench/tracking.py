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
from fewlabels.names import check_installed

_PASSWORD = re.compile(r"//[^/\s]*@")  # with the name before it
_TAG = "fewlabels.cell"
_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"


class Mlflow:
    """Sends finished runs to MLflow, each once."""

    def __init__(self, uri: str, experiment: str) -> None:
        """Find the experiment, or create it.

        Args:
            uri: Where MLflow keeps its runs, such as ``"sqlite:///mlflow.db"`` or the
                address of a server.
            experiment: Name of the experiment there. A :class:`UsageError` says that
                MLflow is not installed, or does not answer.
        """
        # MLflow reads this when it is imported; a person's own choice stays.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        check_installed("Tracking", "mlflow", install="fewlabels[track]")
        import mlflow

        self._mlflow: Any = mlflow
        self._uri = uri
        with self._explained(), restore_environment(_RETRIES):
            # By itself it tries for minutes to reach a server that is not there.
            os.environ.setdefault(_RETRIES, "1")
            self._client = mlflow.MlflowClient(uri)
            known = self._client.get_experiment_by_name(experiment)
            self._experiment = (
                known.experiment_id
                if known
                else self._client.create_experiment(experiment)
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (self._mlflow.exceptions.MlflowException, ImportError) as error:
            msg = (
                f"MLflow at '{self._uri}' is not usable: {error}. Give a URI it knows."
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
            s, tags = cell.settings, {_TAG: cell.address, "mlflow.runName": cell.label}
            run = self._client.create_run(self._experiment, tags=tags).info.run_id
            for name in ("data", "strategy", "trainer"):
                self._client.log_param(run, name, getattr(s, name).label)
            for name in ("start", "query", "budget", "seed"):
                self._client.log_param(run, name, getattr(s, name))
            result = folder.result(cell)
            timings = {timing["step"]: timing for timing in result.timings}
            for line in result.lines:
                figures = {"accuracy": line.accuracy} | timings.get(line.step, {})
                for name, value in figures.items():
                    is_figure = name.endswith(("accuracy", "_seconds", "_mb"))
                    if is_figure and value is not None:
                        self._client.log_metric(run, name, value, step=line.num_labeled)
            self._client.set_terminated(run)
        return True
