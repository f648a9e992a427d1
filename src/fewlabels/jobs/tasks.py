"""Parts of one piece of work as tasks of a Ray cluster; needs the extra ``ray``."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fewlabels.errors import FewlabelsError, JobError
from fewlabels.jobs.cluster import alive, environment, short

_AHEAD = 2  # tasks per core that wait or run, so that results cannot pile up


@dataclass(frozen=True)
class RayTasks:
    """Maps as the executors of ``concurrent.futures`` do, by tasks of Ray.

    Each part is a task of one core. Tasks whose worker dies are done again elsewhere.
    """

    ray: Any
    """The module, connected to a cluster."""
    retries: int = 3
    """How often a part is tried again whose worker died."""

    def map(
        self, function: Callable[[Any], Any], parts: Iterable[Any], /
    ) -> Iterator[Any]:
        """Yield what ``function`` makes of each part, in their order."""
        remote = self.ray.remote(
            num_cpus=1, max_retries=self.retries, runtime_env=environment()
        )
        task = remote(_done)
        sent = self.ray.put(function)  # once for all parts
        cores = sum(node["Resources"].get("CPU", 0) for node in alive(self.ray))
        running: deque[Any] = deque()
        try:
            for part in parts:
                if len(running) >= _AHEAD * max(1, int(cores)):
                    yield self._result(running.popleft())
                running.append(task.remote(sent, part))
            while running:
                yield self._result(running.popleft())
        finally:
            for unfinished in running:
                self.ray.cancel(unfinished, force=True)

    def _result(self, task: Any) -> Any:
        try:
            return self.ray.get(task)
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, FewlabelsError):
                raise error.cause from error
            raise
        except self.ray.exceptions.RayError as error:
            raise JobError(
                f"A part of the work was lost {self.retries + 1} times, most often "
                "because memory ran out on its machine. Run the same command again, "
                f"with fewer cores for Ray there. Ray says: {short(error)}"
            ) from error


def _done(function: Callable[[Any], Any], part: Any) -> Any:
    """Do a part, on some machine."""
    return function(part)
