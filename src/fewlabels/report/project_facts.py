"""Settings, data and versions of a project as rows of a table."""

from fewlabels.projects import Project, Status
from fewlabels.report.facts import (
    FactGroup,
    class_list,
    environment_facts,
    fact_rows,
)
from fewlabels.report.wording import count
from fewlabels.runs import environment


def project_facts(project: Project, status: Status) -> tuple[FactGroup, ...]:
    """Return how a project was made, by subject."""
    settings = project.settings
    model = status.model
    chosen = {
        "Strategy": settings.strategy.label,
        "Trainer": settings.trainer.label,
        "Why this trainer": settings.reason,
        "Labels in all": count(settings.budget),
        "Labels that measure": count(settings.audit) if settings.audit else "none",
        "Labels per round": count(settings.query),
        "Annotators per image": count(settings.overlap),
        "Seed": str(settings.seed),
    }
    if model is not None and model.trainer != settings.trainer.name:
        chosen["Trainer of the latest model"] = model.trainer
    data = {
        "Images": count(status.num_images),
        "Classes": class_list(status.classes),
        "Shape of an image": " × ".join(map(str, settings.shape)),
    }
    groups = {
        "Settings": chosen,
        "Data": data,
        "Page made with": environment_facts(environment()),
    }
    return tuple(FactGroup(name, fact_rows([facts])) for name, facts in groups.items())
