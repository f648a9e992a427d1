"""The next images to label: those that are open, or a round that is chosen now."""

from dataclasses import dataclass

from fewlabels.projects.folder import ProjectFolder
from fewlabels.runs import Choice
from fewlabels.store import RoundItem


@dataclass(frozen=True, eq=False, kw_only=True)
class Asked:
    """Images that wait for a label."""

    step: int
    """Number of the round, from zero."""
    strategy: str
    model: str | None
    """What the strategy looked at; None: no trained model."""
    items: tuple[RoundItem, ...]
    """What is still open of the round, in the order in which to ask."""
    is_new: bool
    """Whether the round was made now; else it was open already."""

    @property
    def num_audit(self) -> int:
        """How many of them measure."""
        return sum(one.role == "audit" for one in self.items)


def ask(
    project: ProjectFolder,
    *,
    size: int | None = None,
    strategy: Choice | None = None,
    anew: bool = False,
    ahead: bool = False,
) -> Asked:
    """Return the round that is open, or choose a new one and store it.

    Size and strategy are the project's unless given. ``anew`` gives up what is open,
    ``ahead`` keeps it open. The audit slice is in the first round, in between.
    """
    snapshot = project.snapshot()
    is_new = anew or ahead or not snapshot.open
    if is_new:
        from fewlabels.projects.choosing import new_round

        found = new_round(project, snapshot, size, strategy, ahead=ahead)
    else:
        found = snapshot.rounds[-1]
    return Asked(
        step=found.step,
        strategy=found.strategy,
        model=found.model,
        items=found.items if is_new else snapshot.open,
        is_new=is_new,
    )
