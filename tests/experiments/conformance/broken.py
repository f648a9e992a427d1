"""Strategies that break one promise each, and some that break none."""

import json
import os
import random
from dataclasses import dataclass, field

import torch

from fewlabels.errors import UsageError
from fewlabels.pool import Query
from fewlabels.search import check_size


@dataclass(frozen=True)
class Farthest:
    """Keeps every promise, and refuses to start without a label."""

    ignores_order = True

    def select(self, classifier, pool, size, generator, *, history=()):
        check_size(size, len(pool.candidates))
        if not len(pool.labeled):
            raise UsageError("There is nothing to be far from; label an item first.")
        rows = classifier.outputs(pool.images, torch.arange(len(pool))).features
        near = torch.cdist(rows[pool.candidates], rows[pool.labeled]).amin(dim=1)
        return Query(pool.candidates[near.argsort(descending=True)[:size]])


class Broken:
    """Chooses at random; each of the following spoils one thing of it."""

    def select(self, classifier, pool, size, generator, *, history=()):
        check_size(size, len(pool.candidates))
        order = torch.randperm(len(pool.candidates), generator=generator)
        return self.spoiled(pool.candidates[order[:size]], classifier, pool, generator)

    def spoiled(self, chosen, classifier, pool, generator):
        return Query(chosen)


class Repeats(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        return Query(torch.cat([chosen[:1], chosen[:-1]]))


class PicksLabeled(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        first = pool.labeled[:1] if len(pool.labeled) else chosen[:1]
        return Query(torch.cat([first, chosen[1:]]))


class PicksWithheld(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        withheld = pool.unlabeled[~torch.isin(pool.unlabeled, pool.candidates)]
        return Query(torch.cat([withheld[:1], chosen[1:]]))


class PicksBeyond(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        return Query(torch.cat([chosen[:1] * 0 + len(pool), chosen[1:]]))


class IgnoresSeed(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        order = torch.randperm(len(pool.candidates))
        return Query(pool.candidates[order[: len(chosen)]])


class AsksTheSystem(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        some = random.SystemRandom().sample(pool.candidates.tolist(), len(chosen))
        return Query(torch.tensor(some))


class ReadsShared(Broken):
    """Puts the global generator back, but the choice depends on it."""

    def spoiled(self, chosen, classifier, pool, generator):
        before = random.getstate()
        start = random.randrange(len(pool.candidates))
        random.setstate(before)
        return Query(pool.candidates.roll(start)[: len(chosen)])


class SeedsShared(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        torch.manual_seed(7)
        return Query(chosen)


class ChangesLabels(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        pool.labels[chosen] = 0
        return Query(chosen)


class ChangesFeatures(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        classifier.features.div_(2)
        return Query(chosen)


@dataclass
class Remembers(Broken):
    calls: dict = field(default_factory=dict)

    def spoiled(self, chosen, classifier, pool, generator):
        self.calls["so far"] = self.calls.get("so far", 0) + 1
        return Query(chosen)


_seen = []


@dataclass
class CountsInside(Broken):
    """Chooses otherwise at each call."""

    calls: int = 0

    def spoiled(self, chosen, classifier, pool, generator):
        self.calls += 1
        return Query(pool.candidates.roll(self.calls)[: len(chosen)])


@dataclass
class KeepsTheFirst(Broken):
    """Computes something once, for whatever pool came first."""

    rows: object = None

    def spoiled(self, chosen, classifier, pool, generator):
        if self.rows is None:
            self.rows = classifier.features
        return Query(chosen)


class RemembersElsewhere(Broken):
    """Its choice depends on the pool of the call before."""

    def spoiled(self, chosen, classifier, pool, generator):
        another = bool(_seen) and _seen[-1] != pool.candidates.tolist()
        _seen.append(pool.candidates.tolist())
        return Query(pool.candidates[: len(chosen)] if another else chosen)


class WritesTensors(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        return Query(chosen, None, {"scores": torch.ones(2)})


class WritesPairs(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        return Query(chosen, None, {"pair": (1, 2)})


class AnotherValueEachTime(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        return Query(chosen, float(int.from_bytes(os.urandom(4), "big")))


class GivesAList(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        return chosen.tolist()


class GivesOneLess(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        return Query(chosen[1:])


class NeedsTwo(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        if len(chosen) == 1:
            raise ValueError("too few")
        return Query(chosen)


class NeedsLabels(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        if not len(pool.labeled):
            return json.loads("nothing")
        return Query(chosen)


class NeedsSpread(Broken):
    def spoiled(self, chosen, classifier, pool, generator):
        rows = classifier.outputs(pool.images, chosen).features
        if not rows.any():
            raise SystemExit(3)
        return Query(chosen)


class LooksAtPositions(Broken):
    ignores_order = True

    def spoiled(self, chosen, classifier, pool, generator):
        return Query(pool.candidates[: len(chosen)])


class TakesLess:
    def select(self, classifier, pool, size, generator, *, history=()):
        return Query(pool.candidates[:size])
