"""What came of a project, on one page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from fewlabels.evaluation import CurvePoint
from fewlabels.integers import count
from fewlabels.projects import Project, Status
from fewlabels.report.curves import Curve, Panel, Point, page_curves
from fewlabels.report.facts import FactGroup
from fewlabels.report.project_galleries import ProjectImages, project_images
from fewlabels.report.project_headline import (
    FigureTile,
    interval_text,
    project_explanation,
    project_headline,
    project_notes,
    project_tiles,
)
from fewlabels.report.project_tables import (
    AgreementView,
    ModelRow,
    RoundRow,
    agreement_view,
    model_rows,
    project_facts,
    round_rows,
)
from fewlabels.report.rendering import write_page
from fewlabels.report.wording import MISSING, rough_percent

_TEMPLATE = "project.html.j2"
_LARGEST_NAME = 16


@dataclass(frozen=True, kw_only=True)
class ProjectPage:
    """Everything the page shows."""

    title: str
    headline: str
    explanation: tuple[str, ...]
    tiles: tuple[FigureTile, ...]
    notes: tuple[str, ...]
    curves: tuple[Markup, ...]
    """The same drawing for wide and for narrow screens; none without a curve."""
    forecast: str
    """What the next labels are expected to bring; empty where nobody can say."""
    models: tuple[ModelRow, ...]
    classes: dict[str, int]
    """Labels to train on, by class."""
    rounds: tuple[RoundRow, ...]
    agreement: AgreementView | None
    images: ProjectImages
    facts: tuple[FactGroup, ...]

    @property
    def is_measured(self) -> bool:
        """Whether the accuracy of models is known."""
        return any(row.accuracy != MISSING for row in self.models)

    @property
    def longest_name(self) -> int:
        """Letters to leave room for before the bars of the classes."""
        return min(max(map(len, self.classes), default=0) + 1, _LARGEST_NAME)

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Classes without a label to train on."""
        return tuple(name for name, amount in self.classes.items() if not amount)

    @property
    def image_size(self) -> str:
        """How images are shown: up to 64 pixels they are enlarged pixel by pixel."""
        return self.images.size


def write_project_report(path: Path, project: Project) -> Path:
    """Write the page of a project: how good its model is, and what it rests on.

    The page is one file that needs no script and no other file. The same project gives
    the same bytes.

    Args:
        path: Where the page shall stand.
        project: The project; without rounds or a model the page says so.

    Returns:
        ``path``.
    """
    return write_page(path, _TEMPLATE, _contents(project))


def _contents(project: Project) -> ProjectPage:
    status, snapshot = project.status(), project.snapshot()
    return ProjectPage(
        title=project.folder.resolve().name,
        headline=project_headline(status),
        explanation=tuple(project_explanation(status)),
        tiles=project_tiles(status),
        notes=project_notes(status),
        curves=_drawings(status.curve),
        forecast=_forecast(status),
        models=model_rows(status, project.records()),
        classes=dict(zip(status.classes, status.class_counts, strict=True)),
        rounds=round_rows(snapshot),
        agreement=agreement_view(snapshot, status.agreement),
        images=project_images(project, snapshot, status.model),
        facts=project_facts(project, status),
    )


def _forecast(status: Status) -> str:
    return "" if status.gain is None else str(status.gain)


def _drawings(curve: Sequence[CurvePoint]) -> tuple[Markup, ...]:
    """Draw accuracy against labels; of models on equally many, the later one."""
    last = {one.num_labeled: one.audited for one in curve if one.audited.num_audited}
    if len(last) < 2:  # a single number is no curve, and stands in the table
        return ()
    points, words = [], []
    for amount, audited in sorted(last.items()):
        assert audited.accuracy is not None
        points.append(Point(amount, audited.accuracy, audited.low, audited.high))
        words.append(
            f"{rough_percent(audited.accuracy)} ({interval_text(audited)}) after "
            f"{count(amount, 'label')}"
        )
    drawn = Curve("accuracy", 1, tuple(points), is_rough=True)
    told = f"Accuracy against number of labels: {', '.join(words)}."
    return page_curves(Panel((drawn,)), words=told)
