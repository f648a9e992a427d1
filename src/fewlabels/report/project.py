"""What came of a project, on one page."""

from pathlib import Path

from fewlabels.projects import Project


def write_project_report(path: Path, project: Project) -> Path:
    """Write the page of a project."""
    raise NotImplementedError
