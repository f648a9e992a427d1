"""Overviews for the page: how good the model is, and how far people agree."""

from collections import Counter, defaultdict
from typing import Any

from fewlabels.projects import Project
from fewlabels.projects.store import Kind, agreement, consensus
from fewlabels.projects.store.records import LABELS
from fewlabels.report.wording import project_explanation, project_headline

MOST_DISPUTED = 60
"""Images with different labels that are shown."""


def model_status(project: Project) -> dict[str, Any]:
    """Return how good the model is, its learning curve, and the gain of more labels.

    Args:
        project: The project.

    Returns:
        What the page shows, as JSON can hold it.
    """
    status = project.status()
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
    predicted = status.model.predicted if status.model is not None else ()
    unknown = (None,) * (len(status.classes) - len(predicted))
    shares = (*predicted, *unknown)
    counts = zip(status.class_counts, status.audit_counts, shares, strict=True)
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
            for name, (labels, measuring, share) in zip(
                status.classes, counts, strict=True
            )
        ],
    }


def people_status(project: Project) -> dict[str, Any]:
    """Return who labeled, how far people agree, and on which images they do not.

    Args:
        project: The project.

    Returns:
        How much each labeled, how far each two agree, and images with different labels
        that have as many as were wanted, so that nobody will be asked about them.
    """
    with project.store.reading() as moment:
        verdicts = moment.verdicts()
        names = {entry.number: entry.name for entry in moment.classes()}
    # Labels that a model suggested, or a file had, say little about agreement.
    given = [verdict for verdict in verdicts if verdict.is_asked]
    labels = [verdict for verdict in given if verdict.kind in LABELS]
    by_person: dict[str, dict[str, int | None]] = defaultdict(dict)
    for verdict in labels:
        by_person[verdict.annotator][verdict.item] = verdict.class_number
    kappas = agreement(labels)
    pairs = []
    for (first, other), kappa in sorted(kappas.cohen.items()):
        own, others = by_person[first], by_person[other]
        shared = own.keys() & others.keys()
        same = sum(own[item] == others[item] for item in shared)
        facts: dict[str, Any] = {"one": first, "other": other, "shared": len(shared)}
        pairs.append(facts | {"same": same, "kappa": kappa})
    kinds = Counter((verdict.annotator, verdict.kind) for verdict in given)
    votes = consensus(labels, project.settings.overlap)
    apart = [vote.item for vote in votes if vote.is_complete and len(vote.votes) > 1]
    shown = set(apart[:MOST_DISPUTED])
    answers: dict[str, list[dict[str, str]]] = defaultdict(list)
    for verdict in labels:
        if verdict.item in shown:
            label = names[verdict.class_number or 0]
            answers[verdict.item].append(
                {"annotator": verdict.annotator, "label": label}
            )
    return {
        "people": [
            {
                "name": name,
                "labels": len(by_person[name]),
                "skipped": kinds[name, Kind.SKIP],
                "unsure": kinds[name, Kind.UNSURE],
            }
            for name in sorted({verdict.annotator for verdict in given})
        ],
        "pairs": pairs,
        "kappa": kappas.fleiss,
        "num_apart": len(apart),
        "apart": [{"item": item, "answers": answers[item]} for item in sorted(shown)],
    }
