"""Work that takes longer than a key press, done in processes of its own.

The server itself never imports torch: it stays small, and no training can end it.
"""

import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from fewlabels import training
from fewlabels.errors import FewlabelsWarning, count
from fewlabels.experiments.settings import Choice
from fewlabels.jobs import startable
from fewlabels.models.encoders import stronger
from fewlabels.names import AllowCode, check_code
from fewlabels.projects import Project
from fewlabels.projects.settings import UNKNOWN_SHARES, assumed_shares
from fewlabels.web.messages import Facts

FIRST_IMAGES = 2_000
"""Images that are indexed before the first one is shown; the others follow behind."""


def project_job(function: Callable[..., Facts]) -> Callable[..., Facts]:
    """Make a function of a project one that a job calls with the project's folder.

    Warnings for a terminal are silenced: the page shows them in other ways.

    Returns:
        The function to start.
    """

    @startable
    @wraps(function)
    def call(folder: str, *, allow_code: AllowCode, **arguments: Any) -> Facts:
        quiet = warnings.catch_warnings(action="ignore", category=FewlabelsWarning)
        with Project.open(folder, allow_code=allow_code) as project, quiet:
            return function(project, **arguments)

    return call


@startable
def begin(
    folder: str,
    images: str,
    classes: list[str],
    options: dict[str, Any],
    *,
    import_folders: bool = False,
    allow_code: AllowCode,
) -> Facts:
    """Begin a project on some of its images, and choose the first ones to label.

    The others are taken in later. Those of the first round are drawn at random among
    some that were drawn at random, so that the images that measure represent all.

    Labels of folders are imported after that, so that what measures is drawn from all.

    Returns:
        Why this training, what a stronger encoder costs, and what was imported.
    """
    check_code(folder, options, allow_code)
    with Project.create(
        folder, images, classes, first=FIRST_IMAGES, **options
    ) as project:
        project.ask(strategy="random", scan=False)
        imported = ""
        if import_folders:
            done = project.import_labels(images, partial=True)
            imported = f"{count(done.num_new, 'label')} imported from folder names"
            others = len(done.left_out)
            imported += f", {others} left out to measure." if others else "."
        settings = project.settings
        advice = stronger(settings.trainer.options.get("encoder"))
        return {"reason": settings.reason, "advice": advice, "imported": imported}


@project_job
def prepare(project: Project) -> Facts:
    """Take in all images, and make their features where the training wants some."""
    from fewlabels.projects import model_training

    project.index()
    chosen = project.chosen_trainer()
    known = training.built_in(chosen.name, chosen.options)
    if known is not None and known.inputs.has_features:
        snapshot = project.snapshot()
        pool = snapshot.pool(project.images(snapshot))
        len(known.inputs.of(pool, None).rows)
    takes_steps = project.trainer().num_steps is not None
    goes_on = takes_steps and model_training.is_interrupted(project)
    return {"takes_steps": takes_steps, "goes_on": goes_on}


@startable
def warm_up(folder: str, *, allow_code: AllowCode) -> Facts:
    """Import what choosing needs, before somebody waits for it."""
    del folder, allow_code
    import fewlabels.projects.selection  # noqa: F401

    return {}


@project_job
def next_round(project: Project, *, at_random: bool) -> Facts:
    """Choose the next images, after a training where that takes no time.

    Images that are open stay open. The training comes first, also when the budget is
    spent and there is nothing to choose.

    Args:
        project: The project.
        at_random: Choose without features, which are not there yet.

    Returns:
        The number of the round, and the name of a model that was trained for it.
    """
    trained = None if at_random else learn_quickly(project)
    strategy = "random" if at_random else None
    asked = project.ask(strategy=strategy, ahead=True, scan=False)
    return {"round": asked.step, "model": trained}


def learn_quickly(project: Project) -> str | None:
    """Train on new labels, where that takes seconds, and return the model's name."""
    from fewlabels.projects.model_training import is_up_to_date

    snapshot = project.snapshot()
    is_slow = project.trainer().num_steps is not None
    if is_slow or not snapshot.can_teach or is_up_to_date(project, snapshot):
        return None
    return project.train(scan=False).record.name


@project_job
def estimate_final(project: Project) -> Facts:
    """Measure how long a network from scratch takes here; a few steps are done."""
    chosen = _from_scratch(project)
    return {"trainer": chosen.name, "expected": project.expectation(chosen)}


@project_job
def train_finally(project: Project) -> Facts:
    """Train a network from scratch, while the project's own trainer goes on."""
    record = project.train(_from_scratch(project)).record
    return {"model": record.name, "num_labels": record.num_labeled}


@project_job
def export(project: Project, *, target: str, as_is: bool) -> Facts:
    """Write labels, predictions, model and report."""
    from fewlabels.report import write_project_report

    done = project.export(
        Path(target),
        as_is=as_is,
        also=lambda new: write_project_report(new / "report.html", project),
    )
    names = [str(path.relative_to(done.folder)) for path in done.files]
    return {"folder": str(done.folder), "files": names, "message": str(done)}


def _from_scratch(project: Project) -> Choice:
    """Return the trainer of a network from scratch, given shares that are known."""
    from fewlabels.projects.training_plan import from_scratch

    num_classes = len(project.store.classes())
    shares = assumed_shares(project.chosen_trainer(), num_classes)
    return from_scratch(shares or UNKNOWN_SHARES)
