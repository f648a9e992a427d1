"""What a project does in a process of its own."""

from typing import Any

from fewlabels.jobs import startable
from fewlabels.names import AllowCode
from fewlabels.projects.project import Project


@startable
def train(folder: str, *, allow_code: AllowCode) -> dict[str, Any]:
    """Return the name of a model, and whether it was trained now."""
    with Project.open(folder, allow_code=allow_code) as project:
        trained = project.train()
    return {"model": trained.record.name, "is_new": trained.is_new}
