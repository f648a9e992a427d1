"""Have I labeled enough? What is known about that, for the page."""

from typing import Any

from fewlabels.projects import Project
from fewlabels.report.wording import project_explanation, project_headline


def standing(project: Project) -> dict[str, Any]:
    """Return how good the model is, how it became so, and what more labels may bring.

    Args:
        project: The project.

    Returns:
        What the page shows, as JSON can hold it.
    """
    status = project.status()
    model = status.model
    points = [
        {
            "labels": point.num_labeled,
            "accuracy": point.audited.accuracy,
            "low": point.audited.low,
            "high": point.audited.high,
        }
        for point in status.curve
        if point.audited.num_audited
    ]
    predicted = model.predicted if model is not None else ()
    unknown = (None,) * (len(status.classes) - len(predicted))
    return {
        "headline": project_headline(status),
        "explanation": list(project_explanation(status)),
        "curve": points,
        "gain": None if status.gain is None else str(status.gain),
        "notes": list(status.notes),
        "num_unused": status.num_unused,
        "num_images": status.num_images,
        "classes": [
            {
                "name": name,
                "labels": labels + measuring,
                "measuring": measuring,
                "predicted": share,
            }
            for name, labels, measuring, share in zip(
                status.classes,
                status.class_counts,
                status.audit_counts,
                (*predicted, *unknown),
                strict=True,
            )
        ],
    }
