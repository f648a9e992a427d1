"""Finished runs for MLflow and Weights & Biases: parameters, figures by labels."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fewlabels.errors import UsageError
from fewlabels.experiments.bench.experiment import Cell
from fewlabels.experiments.bench.folder import BenchFolder
from fewlabels.experiments.runs import MEASURES
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
            create = self._client.create_experiment
            self._experiment = known.experiment_id if known else create(experiment)

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
            tags = {_TAG: cell.address, "mlflow.runName": cell.label}
            run = self._client.create_run(self._experiment, tags=tags).info.run_id
            for name, value in _parameters(cell).items():
                self._client.log_param(run, name, value)
            for num_labels, figures in _figures(cell, folder):
                for name, figure in figures.items():
                    self._client.log_metric(run, name, figure, step=num_labels)
            self._client.set_terminated(run)
        return True


class WeightsAndBiases:
    """Sends finished runs to a project of Weights & Biases, each once.

    With ``WANDB_MODE=offline`` they stay in the folder ``wandb`` of the benchmark until
    ``wandb sync`` sends them.
    """

    def __init__(self, project: str) -> None:
        """Check that its package is there."""
        check_installed("Tracking", "wandb", install="fewlabels[track]")
        self.project = project

    def send(self, cell: Cell, folder: BenchFolder) -> bool:
        """Send a finished run unless it was sent; return whether it was sent now."""
        import wandb

        if [*(folder.path / "wandb").glob(f"*run-*-{cell.address}")]:
            return False
        try:
            run = wandb.init(
                project=self.project,
                id=cell.address,
                name=cell.label,
                dir=folder.path,
                config=_parameters(cell),
                settings=wandb.Settings(console="off", silent=True),
            )
            with run:
                for num_labels, figures in _figures(cell, folder):
                    run.log(figures, step=num_labels)
        except (wandb.Error, OSError) as error:
            raise UsageError(
                f"Weights & Biases cannot be used: {error}. Run 'wandb login', or set "
                "WANDB_MODE=offline."
            ) from error
        return True


def _parameters(cell: Cell) -> dict[str, Any]:
    """Return the settings of a run by name."""
    s = cell.settings
    chosen = {n: getattr(s, n).label for n in ("data", "strategy", "trainer")}
    return chosen | {n: getattr(s, n) for n in ("start", "query", "budget", "seed")}


def _figures(cell: Cell, folder: BenchFolder) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the number of labels of each round, and what was measured in it."""
    result = folder.result(cell)
    timings = {timing["step"]: timing for timing in result.timings}
    for line in result.lines:
        figures = {name: getattr(line, name) for name in MEASURES}
        times = timings.get(line.step, {})
        figures |= {n: v for n, v in times.items() if n.endswith(("_seconds", "_mb"))}
        yield line.num_labeled, {n: v for n, v in figures.items() if v is not None}
