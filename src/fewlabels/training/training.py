"""A training is a value: inputs, a learner, an alignment and a schedule.

Two that are equal do the same. How a training is done is besides, and decides nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from torch import Generator

from fewlabels.errors import UnknownNameError
from fewlabels.identity import Identity, composed, untold
from fewlabels.pool import Pool
from fewlabels.protocols import Classifier, ignore
from fewlabels.training import fitting
from fewlabels.training.learner import Alignment, DirectLearner, Learner
from fewlabels.training.schedule import Execution, Schedule
from fewlabels.training.views import Inputs


@dataclass(frozen=True, kw_only=True)
class Training:
    """What is trained, on what and by which steps; meets ``protocols.Trainer``."""

    inputs: Inputs
    """What the network sees."""
    learner: Learner | DirectLearner
    """What it learns."""
    alignment: Alignment | None = None
    """What refines pseudo-labels, if anything does."""
    schedule: Schedule | None = None
    """The steps; None for a learner that takes none."""
    execution: Execution = field(default=Execution(), compare=False)
    """How it is done, unless :meth:`fit` is told otherwise."""

    def __post_init__(self) -> None:
        """Check what one part alone cannot know."""
        if self.schedule is not None:
            self.inputs.check_network(self.schedule.network)

    @property
    def options(self) -> dict[str, Any]:
        """All options that decide, of all parts, by name; some where they are set."""
        every = (self.schedule, self.learner, self.alignment, self.inputs)
        return {
            name: getattr(part, name)
            for part in every
            if part is not None
            for name in counting(part, self.inputs, self.learner)
            if name not in untold(part)
        }

    @property
    def identity(self) -> Identity:
        """What decides the outcome: the kinds of its parts, and all their options."""
        parts: list[Any] = [self.inputs, self.learner]
        parts += [] if self.alignment is None else [self.alignment]
        names = (type(part).__name__ for part in parts[1:])
        words = [self.inputs.word, *names, "Trainer"]
        return composed("".join(words), self.options, parts)

    @property
    def num_steps(self) -> int | None:
        """How many steps it takes; None: none at all."""
        return None if self.schedule is None else self.schedule.steps

    def changed(self, **options: Any) -> "Training":
        """Return the training with other values of some options, of whichever part."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, own in routed(options, parts).items():
            parts[name] = replace(parts[name], **own)
        return Training(**parts)

    def check(self, pool: Pool) -> None:
        """Raise if it cannot be right for a pool; quick, so ask early."""
        self.inputs.check(pool)
        self.learner.check(pool)
        if self.alignment is not None:
            self.alignment.check(pool)

    def rehearse(self, num_items: int, num_classes: int, width: int) -> float:
        """Do some of what takes time besides steps, on something made up."""
        if not isinstance(self.learner, Learner):
            return self.learner.rehearse(num_items, num_classes, width)
        if self.alignment is None or self.schedule is None:
            return 0.0
        return self.alignment.rehearse(num_items, num_classes, self.schedule.steps)

    def fit(
        self,
        pool: Pool,
        generator: Generator,
        *,
        workspace: Path | None = None,
        on_checkpoint: Callable[[int, Classifier], None] = ignore,
        execution: Execution | None = None,
    ) -> Classifier:
        """Train from scratch; see :class:`fewlabels.protocols.Trainer`.

        Args:
            pool: Labeled and unlabeled images.
            generator: The only source of randomness.
            workspace: Where the training is kept, finished or not, and found again.
            on_checkpoint: Called with the step and the averaged network. A learner that
                takes no steps calls once, with step 1, or 0 where nothing is labeled.
            execution: How it is done; None: as the options said that it was made from.

        Returns:
            The averaged network as a classifier; untrained, if nothing is labeled.
        """
        self.check(pool)
        told = self if execution is None else replace(self, execution=execution)
        folder = None if workspace is None else Path(workspace)
        return fitting.fit(told, pool, generator, folder, on_checkpoint)


def counting(
    part: Any, inputs: "Inputs | type[Inputs]", learner: Learner | DirectLearner
) -> list[str]:
    """Return the options of a part, or of its type, that count with these others."""
    known = {"", *(view.kind for view in learner.views.values())}
    known |= {"features"} if inputs.has_features else set()
    return [f.name for f in fields(part) if f.metadata.get("needs", "") in known]


def routed(
    options: Mapping[str, Any], parts: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Deal options out to the parts that have them."""
    inputs, learner = parts["inputs"], parts["learner"]
    learner = learner() if isinstance(learner, type) else learner
    own = {
        field: counting(part, inputs, learner)
        for field, part in parts.items()
        if part is not None
    }
    known = [name for names in own.values() for name in names]
    for name in options:
        if name not in known:
            raise UnknownNameError("option of this training", name, known)
    return {
        field: {name: options[name] for name in names if name in options}
        for field, names in own.items()
    }
