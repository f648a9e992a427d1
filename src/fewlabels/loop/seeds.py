"""A seed for each purpose, so that one source of chance can be held still."""

from dataclasses import dataclass

from fewlabels.integers import whole_number


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """Seeds of a run; usually all the same.

    Runs that share ``start`` and ``first`` begin with one and the same model, as the
    trials of the NPC paper do (Sec. 5.1). Runs that share ``start`` alone show what the
    chance of training does to one set of labels.
    """

    start: int
    """Decides the starting set."""
    first: int
    """Decides the first training, and those that choose among starting sets."""
    train: int
    """Decides the later trainings."""
    query: int
    """Decides what a strategy draws."""

    @classmethod
    def of(cls, seed: "int | Seeds") -> "Seeds":
        """Return one seed for every purpose; seeds come back as they are."""
        if isinstance(seed, cls):
            return seed
        number = whole_number("seed", seed)
        return cls(start=number, first=number, train=number, query=number)

    def training(self, step: int) -> int:
        """Return the seed of the training of a round."""
        return self.train if step else self.first
