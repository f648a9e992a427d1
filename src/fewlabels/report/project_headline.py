"""How good the model of a project is and how far the project has come, in words."""

from collections.abc import Iterator
from dataclasses import dataclass

from fewlabels.evaluation import AuditedAccuracy
from fewlabels.integers import count
from fewlabels.projects import Status
from fewlabels.report.wording import rough_percent


@dataclass(frozen=True)
class FigureTile:
    """A number in large letters."""

    name: str
    figure: str
    details: tuple[str, ...] = ()
    """What else is known, a line each."""
    share: float | None = None
    """How much of something is done, to be drawn as a bar."""


def project_headline(status: Status) -> str:
    """Say in one sentence how good the model is, or that nobody knows."""
    audited = _measured(status)
    if audited is None or audited.accuracy is None:
        return f"Accuracy not measured: {why_unmeasured(status)}."
    return (
        f"{rough_percent(audited.accuracy)} of images right, "
        f"between {interval_text(audited, ' and ')}."
    )


def why_unmeasured(status: Status) -> str:
    """Return why nobody knows the accuracy of the latest model."""
    if status.model is None:
        return "no model has been trained yet"
    if not status.audit_size:
        return "no images were set aside to measure on"
    if not status.num_audited:
        return "none of the audit images has a label"
    return "the audit images were drawn after the model was trained"


def interval_text(audited: AuditedAccuracy, between: str = " to ") -> str:
    """Return the two ends of an interval, in percent."""
    low, high = rough_percent(audited.low), rough_percent(audited.high)
    return f"{low[:-2]}{between}{high}"


def project_explanation(status: Status) -> Iterator[str]:
    """Yield what the number rests on, and how many labels are spent."""
    audited, model = _measured(status), status.model
    if model is not None:
        trained = f"trained on {count(model.num_labeled, 'label')}"
        if audited is not None:
            yield (
                f"{audited.num_right:,} of {count(audited.num_audited, 'image')} drawn "
                f"at random are classified correctly by {model.name}, {trained} for "
                f"other images. The range is the exact {100 * audited.level:g} % "
                "interval."
            )
        else:
            yield (
                f"The latest model is {model.name}, {trained}. Its accuracy on the "
                "images it learned from says nothing about others."
            )
    spent = f"{status.num_spent:,} of {count(status.budget, 'label')}"
    yield f"{spent} {'is' if status.budget == 1 else 'are'} spent."


def project_tiles(status: Status) -> tuple[FigureTile, ...]:
    """Return labels, images and rounds as numbers."""
    labels = [f"{sum(status.class_counts):,} to train on"]
    if status.audit_size:
        labels.append(f"{status.num_audited:,} to measure")
    images = [f"{status.num_candidates:,} left to choose from"]
    if status.num_skipped:
        images.append(f"{status.num_skipped:,} skipped")
    if status.num_unsure:
        images.append(f"{status.num_unsure:,} unsure")
    is_open = f"{count(status.num_open, 'image')} of the last one open"
    share = min(1.0, status.num_spent / status.budget)
    return (
        FigureTile(
            "Labels",
            f"{status.num_spent:,} of {status.budget:,}",
            (", ".join(labels),),
            share,
        ),
        FigureTile("Images", f"{status.num_images:,}", (", ".join(images),)),
        FigureTile(
            "Rounds",
            f"{status.num_rounds:,}",
            (is_open if status.num_open else "no image is open",),
        ),
    )


def project_notes(status: Status) -> tuple[str, ...]:
    """Return what to keep in mind, in sentences."""
    notes = list(status.notes)
    if status.model is not None and status.num_unused:
        one = status.num_unused == 1
        notes.append(
            f"{count(status.num_unused, 'label')} {'was' if one else 'were'} added "
            f"after {status.model.name} was trained, so it has not seen "
            f"{'it' if one else 'them'}."
        )
    return tuple(notes)


def _measured(status: Status) -> AuditedAccuracy | None:
    if not status.curve or not status.curve[-1].audited.num_audited:
        return None
    return status.curve[-1].audited
