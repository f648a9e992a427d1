"""Models, rounds, annotators and settings of a project as rows of tables."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from fewlabels.evaluation import accuracy_interval
from fewlabels.integers import count
from fewlabels.projects import Project, Status
from fewlabels.projects.models import ModelRecord
from fewlabels.projects.snapshot import Snapshot
from fewlabels.report.facts import FactGroup, class_list, environment_facts, grouped
from fewlabels.report.project_headline import interval_text
from fewlabels.report.wording import MISSING, rough_percent
from fewlabels.runs import environment
from fewlabels.store import Agreement
from fewlabels.store.records import LABELS

_LARGEST_PAIR_LIST = 20


@dataclass(frozen=True)
class ModelRow:
    """A model, and how good it is."""

    name: str
    num_labels: int
    accuracy: str
    interval: str
    seconds: float
    created: str


@dataclass(frozen=True)
class RoundRow:
    """A round: who chose what, and how much of it is answered."""

    step: int
    strategy: str
    model: str
    num_images: int
    num_audit: int
    num_answered: int
    created: str


@dataclass(frozen=True)
class AnnotatorRow:
    """What one person said."""

    name: str
    num_labels: int
    num_others: int
    """Images skipped, or that she was not sure of."""


@dataclass(frozen=True)
class AgreementView:
    """Who labeled, and how far they agree."""

    annotators: tuple[AnnotatorRow, ...]
    num_shared: int
    """Images that at least two of them labeled."""
    fleiss: float | None
    pairs: tuple[tuple[str, str, float | None], ...]
    """Cohen's kappa of each two, the lowest first."""
    num_more: int
    """Pairs besides those."""


def model_rows(status: Status, done: Sequence[ModelRecord]) -> tuple[ModelRow, ...]:
    """Return the models in the order of training.

    Those that were made before the audit slice was drawn stand without an accuracy.
    """
    rows = []
    unmeasured = accuracy_interval(0, 0)
    measures = [point.audited for point in status.curve]
    padded = [unmeasured] * (len(done) - len(measures)) + measures
    for record, audited in zip(done, padded, strict=True):
        is_known = audited.accuracy is not None
        rows.append(
            ModelRow(
                name=record.name,
                num_labels=record.num_labeled,
                accuracy=MISSING
                if audited.accuracy is None
                else rough_percent(audited.accuracy),
                interval=interval_text(audited) if is_known else MISSING,
                seconds=record.seconds,
                created=_moment(record.created),
            )
        )
    return tuple(rows)


def round_rows(snapshot: Snapshot) -> tuple[RoundRow, ...]:
    """Return the rounds in their order."""
    return tuple(
        RoundRow(
            step=one.step,
            strategy=one.strategy,
            model=one.model or "untrained",
            num_images=len(one.items),
            num_audit=sum(item.role == "audit" for item in one.items),
            num_answered=sum(snapshot.is_answered(item.item) for item in one.items),
            created=_moment(one.created),
        )
        for one in snapshot.rounds
    )


def agreement_view(snapshot: Snapshot, agreement: Agreement) -> AgreementView | None:
    """Return how far annotators agree; None where there are not two."""
    labels, others = Counter[str](), Counter[str]()
    for verdict in snapshot.verdicts:
        counter = labels if verdict.kind in LABELS else others
        counter[verdict.annotator] += 1
    names = sorted(labels.keys() | others.keys())
    if len(names) < 2:
        return None
    pairs = sorted(
        ((one, other, kappa) for (one, other), kappa in agreement.cohen.items()),
        key=lambda pair: (2.0 if pair[2] is None else pair[2], pair[:2]),
    )
    return AgreementView(
        annotators=tuple(AnnotatorRow(n, labels[n], others[n]) for n in names),
        num_shared=agreement.num_items,
        fleiss=agreement.fleiss,
        pairs=tuple(pairs[:_LARGEST_PAIR_LIST]),
        num_more=max(0, len(pairs) - _LARGEST_PAIR_LIST),
    )


def project_facts(project: Project, status: Status) -> tuple[FactGroup, ...]:
    """Return how a project was made, by subject."""
    settings = project.settings
    model = status.model
    chosen = {
        "Strategy": settings.strategy.label,
        "Trainer": settings.trainer.label,
        "Why this trainer": settings.reason,
        "Total labels": count(settings.budget),
        "Audit labels": count(settings.audit) if settings.audit else "none",
        "Labels per round": count(settings.query),
        "Annotators per image": count(settings.overlap),
        "Seed": str(settings.seed),
    }
    if model is not None and model.trainer != settings.trainer.name:
        chosen["Trainer of the latest model"] = model.trainer
    data = {
        "Images": count(status.num_images),
        "Classes": class_list(status.classes),
        "Image shape": " × ".join(map(str, settings.shape)),
    }
    groups = {
        "Settings": chosen,
        "Data": data,
        "Page created with": environment_facts(environment()),
    }
    return grouped({name: [facts] for name, facts in groups.items()})


def _moment(when: datetime | None) -> str:
    return MISSING if when is None else f"{when.astimezone(UTC):%Y-%m-%d %H:%M}"
