"""Runs on many machines, through Ray; needs the extra ``ray``.

All machines share the folder of the benchmark. Ray knows where there is room, replaces
workers that die, and moves runs away from machines that are gone; the runs go on there
where their files say.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fewlabels.bench.cells import Cell
from fewlabels.bench.engines import Ended
from fewlabels.bench.folder import BenchFolder, Failure
from fewlabels.bench.local import WORK, arguments
from fewlabels.bench.ray_tasks import do_run
from fewlabels.errors import UsageError
from fewlabels.jobs import cluster
from fewlabels.jobs.surroundings import num_cores


@dataclass(frozen=True)
class RayEngine:
    """Does runs on the machines of a Ray cluster.

    A Ray that this process is connected to already is used, and left as it is.
    """

    address: str | None = None
    """``"auto"``, ``"host:port"`` or ``"ray://host:port"``; None: start Ray on this
    machine, for the time of the runs."""
    cpus: float = 1
    """Cores of one run."""
    gpus: float = 0.0
    """GPUs of one run; 0.25 lets four runs share one."""
    retries: int = 3
    """How often a run is tried again whose worker died."""
    work: str = WORK
    """Import path of what does a run; only tests have reason to change it."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be meant."""
        if self.cpus <= 0 or self.gpus < 0 or self.retries < 0:
            raise UsageError(
                f"A run was given {self.cpus} cores, {self.gpus} GPUs and "
                f"{self.retries} retries; give more than 0 cores, and no less than 0 "
                "of the others."
            )

    @property
    def num_workers(self) -> int:
        """How many runs are done at a time."""
        if self.address is None and not cluster.is_connected():
            here = {"CPU": num_cores(), "GPU": torch.cuda.device_count()}
            return cluster.room(here, self.cpus, self.gpus)
        with cluster.connected(self.address) as ray:
            found = [node["Resources"] for node in cluster.alive(ray)]
            return sum(cluster.room(one, self.cpus, self.gpus) for one in found)

    def run(
        self, cells: Sequence[Cell], root: Path, *, tensorboard: bool = False
    ) -> Iterator[Ended]:
        """Do runs in the folder of a benchmark; yield each as it ends.

        Args:
            cells: The runs.
            root: The folder of the benchmark, under this path on all machines.
            tensorboard: Write the curves of trainings for TensorBoard too.

        Yields:
            Each run, finished or failed.
        """
        if not cells:
            return
        folder = BenchFolder(root.absolute())
        with cluster.connected(self.address) as ray:
            cluster.checked_room(ray, "A run", self.cpus, self.gpus, folder.path)
            task = self._task(ray)
            running = {}
            try:
                for cell in cells:
                    order = arguments(cell, folder.path, tensorboard=tensorboard)
                    running[task.remote(self.work, str(Path.cwd()), order)] = cell
                while running:
                    (done, *_), _ = ray.wait(list(running))
                    yield self._ended(ray, done, running.pop(done), folder)
            finally:
                for unfinished in running:
                    ray.cancel(unfinished, force=True)

    def _task(self, ray: Any) -> Any:
        """Return what Ray calls on some machine."""
        with_options = ray.remote(
            num_cpus=self.cpus,
            num_gpus=self.gpus,
            max_retries=self.retries,
            # A process keeps its data for the next run, but must let go of a GPU.
            max_calls=1 if self.gpus else 0,
            runtime_env=cluster.environment(),
        )
        return with_options(do_run)

    def _ended(self, ray: Any, done: Any, cell: Cell, folder: BenchFolder) -> Ended:
        """Return how a run has ended; write down what its worker could not."""
        try:
            return Ended(cell, error=ray.get(done))
        except ray.exceptions.RayError as lost:
            error = _told_loss(ray, lost, self.retries + 1)
        folder.write_failure(cell, Failure(label=cell.label, error=error))
        return Ended(cell, error=error)


def _told_loss(ray: Any, lost: Exception, times: int) -> str:
    """Say that a run has no answer, and what to do."""
    if isinstance(lost, ray.exceptions.RayTaskError):
        return (
            f"The run could not be started on its machine: {cluster.short(lost.cause)}"
        )
    often = f"{times} times" if times > 1 else "once"
    return (
        f"The worker of this run died {often}, most often because memory ran out or a "
        "machine was lost. Run the same command again with fewer runs at a time on a "
        "machine (more cores or GPUs for each); the run resumes from its last "
        f"checkpoint. Ray says: {cluster.short(lost)}"
    )
