"""How well conditioned the labeled items of each round are, and what they teach.

Nothing is trained. NPC paper, Secs. 4.2 and 5.4: a wide network learns like ridge
regression with the kernel that it has before training, so labeled sets can be judged
without training.

Shapes: N items of the pool, S labeled items, n items that outputs are known of,
C classes.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fewlabels import gram, training
from fewlabels.experiments.acquisition import hidden, round_folder
from fewlabels.experiments.runs import SCHEMA, RunFolder, replayed
from fewlabels.names import AllowCode, check_code
from fewlabels.pool import Pool
from fewlabels.protocols import Classifier, Kernel
from fewlabels.rng import stream
from fewlabels.strategies.inputs import Request
from fewlabels.strategies.npc import NeuralPreconditioning

NO_NETWORK = "no saved network"
"""Why a round could not be diagnosed: its checkpoint is gone, or of other data."""

NO_LABELS = "nothing labeled"
"""Why a round could not be diagnosed: it began without a label."""

_KERNELS = ("last-layer", "wide-head", "softmax")
"""Those that need no more than a network's outputs; the first is the default."""

_MOST_ITEMS = 1000
"""Items over which errors are measured; of more, a random part."""
_RIDGE = 1e-6
"""Share of the mean k(i, i) that is added to the diagonal, for near copies."""
_NUM_MODES = 20


@dataclass(frozen=True, kw_only=True)
class PredictedError:
    """Squared error of ridge regression, as a share of what no labels leave."""

    error: float
    """From the labeled items."""
    random_error: float
    """Expected from as many random ones (Bordelon, Canatar and Pehlevan, 2020)."""
    is_from_labels: bool
    """Whether the labels of the pool are the target; else it is what is expected for
    targets from the Gaussian process of the kernel."""
    modes: tuple[tuple[float, float, float], ...]
    """Of the largest modes: target's power, error, and that of random sets, as shares
    of the power in all modes."""


@dataclass(frozen=True, eq=False)
class ErrorPredictor:
    """Predicts the error that labeled sets of a pool leave."""

    kernel: Kernel
    modes: "gram.Modes"
    targets: Tensor | None
    """Classes as indicators less 1/C, shape (N, C); None where not all are known."""

    @classmethod
    def of(cls, classifier: Classifier, pool: Pool) -> "ErrorPredictor":
        """Return it for an untrained classifier and a pool with its labels.

        The kernel is the wide head over the classifier's features: the tangent kernel
        of an infinitely wide layer, which distinguishes any two items.
        """
        every = torch.arange(len(pool))
        kernel = gram.wide_head_kernel(classifier.outputs(pool.images, every).features)
        drawn = torch.randperm(len(pool), generator=stream(0, "predicted error"))
        targets = None
        if (pool.labels >= 0).all():
            indicators = torch.nn.functional.one_hot(pool.labels, pool.num_classes)
            targets = indicators.double() - 1 / pool.num_classes
        return cls(kernel, gram.kernel_modes(kernel, drawn[:_MOST_ITEMS]), targets)

    def predict(self, labeled: Tensor) -> PredictedError:
        """Return the error that a labeled set leaves, and that of random sets."""
        modes, targets = self.modes, self.targets
        power = modes.eigenvalues
        if targets is not None:
            power = modes.power(targets[modes.items])
        ridge = _RIDGE * float(modes.eigenvalues.sum())
        own = gram.labeled_set_error(self.kernel, modes, labeled, targets, ridge=ridge)
        random = gram.random_set_error(modes, power, len(labeled), ridge=ridge)
        shares = torch.stack([power, own, random], dim=1) / power.sum()
        _, error, random_error = shares.sum(dim=0).tolist()
        return PredictedError(
            error=error,
            random_error=random_error,
            is_from_labels=targets is not None,
            modes=tuple((a, b, c) for a, b, c in shares[:_NUM_MODES].tolist()),
        )


@dataclass(frozen=True, kw_only=True)
class Conditioning:
    """What the Gram matrix of a round's labeled items says."""

    step: int
    """Number of the round."""
    num_labeled: int
    """Labels that its classifier was trained on."""
    kernel: str
    """Kernel of the Gram matrix."""
    is_stand_in: bool
    """Whether the query used no kernel, or one that is not computed here."""
    query_kernel: str | None = None
    """Kernel that the query used; None where it used none."""
    missing: str | None = None
    """Why there is no spectrum, in words; None where there is one."""
    spectrum: gram.Spectrum | None = None
    """Extremes of the spectrum, rank, condition."""
    eigenvalues: tuple[float, ...] = ()
    """All of it, ascending."""
    step_limit: float | None = None
    """Learning rate past which linearized gradient descent diverges.

    Unlike the one of ``spectrum``, without the factor of the class trace.
    """
    value: float | None = None
    """Smallest eigenvalue together with the items asked for."""
    ceiling: float | None = None
    """What that value could be at most."""
    feature_rank: int | None = None
    """Numerical rank of [H, 1] over the whole pool."""
    predicted: PredictedError | None = None
    """What ridge regression with the untrained network's kernel would get wrong."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields for a line of JSON; an infinite number becomes None."""
        fields = {"schema_version": SCHEMA} | asdict(self)
        extremes = fields.pop("spectrum") or {}
        extremes.pop("step_limit", None)
        predicted = fields.pop("predicted") or {}
        fields |= extremes | {
            "predicted_error": predicted.get("error"),
            "predicted_random_error": predicted.get("random_error"),
            "predicted_from_labels": predicted.get("is_from_labels"),
            "predicted_modes": predicted.get("modes"),
        }
        return {
            key: None if isinstance(value, float) and math.isinf(value) else value
            for key, value in fields.items()
        }


def diagnose(
    folder: RunFolder,
    pool: Pool,
    *,
    whole_pool: bool = True,
    allow_code: AllowCode = False,
) -> Iterator[Conditioning]:
    """Compute the spectrum of every finished round from its saved network.

    The Gram matrix is that of the labeled items under the kernel that the round's query
    used. Where it used none, as in the last round or with another strategy than NPC, or
    somebody's own, that of an earlier round stands in, or else the last layer's.

    Args:
        folder: The folder of the run.
        pool: Its data, with their labels.
        whole_pool: Whether the network is asked about all items, which the rank of
            [H, 1], the value and ceiling of choices without a record of them, and the
            predicted error take; otherwise about the labeled ones only.
        allow_code: Which import paths the run's trainer may be; see
            :func:`fewlabels.names.check_code`.

    Yields:
        One record per finished round. Where no network was saved, it says so.
    """
    settings = folder.settings()
    check_code(folder.settings_file, settings.trainer.code, allow_code)
    trainer = training.resolve(settings.trainer.name, settings.trainer.options)
    normalize = bool(settings.strategy.options.get("normalize", False))
    positions = {name: index for index, name in enumerate(pool.ids)}
    name, predictor = _KERNELS[0], None
    if whole_pool:
        first = stream(settings.all_seeds.training(0), "train", 0)
        unlabeled = hidden(pool, settings.budget)
        untrained = training.restored(trainer, unlabeled, first, folder.path)
        predictor = None if untrained is None else ErrorPredictor.of(untrained, pool)
    for line, known in replayed(folder, pool, settings):
        draws = stream(settings.all_seeds.training(line.step), "train", line.step)
        place = round_folder(folder.path, line.step)
        classifier = training.restored(trainer, known, draws, place)
        name = str(line.kernel) if line.kernel in _KERNELS else name
        # Another objective than NPC's has a value of its own, and no ceiling.
        is_recorded = line.kernel == name and line.ceiling is not None
        labeled = known.labeled
        predicted = predictor.predict(labeled) if predictor and len(labeled) else None
        row = Conditioning(
            step=line.step,
            num_labeled=line.num_labeled,
            kernel=name,
            is_stand_in=line.kernel != name,
            query_kernel=line.kernel,
            value=line.value if is_recorded else None,
            ceiling=line.ceiling if is_recorded else None,
            predicted=predicted,
        )
        if classifier is None or not len(labeled):
            missing = NO_NETWORK if classifier is None else NO_LABELS
            yield replace(row, missing=missing)
            continue
        items = torch.arange(len(pool)) if whole_pool else labeled
        outputs = classifier.outputs(pool.images, items)
        chooser = NeuralPreconditioning(kernel=name, normalize=normalize)
        request = Request(classifier, known, len(line.ids), draws)
        _, kernel = chooser.kernel_for(request, outputs)
        rows = labeled if whole_pool else torch.arange(len(items))
        row = _with_spectrum(row, kernel.block(rows, rows), pool)
        if whole_pool:
            row = replace(row, feature_rank=gram.numerical_rank(outputs.features))
        asked = line.to_round(positions).query.indices
        if whole_pool and not is_recorded and len(asked):  # chosen without these
            row = _with_value(row, kernel, known, asked)
        yield row


def _with_spectrum(row: Conditioning, gram_SS: Tensor, pool: Pool) -> Conditioning:
    """Add the spectrum of the labeled items' Gram matrix."""
    extremes = gram.spectrum(gram_SS)
    # The last layer's matrix of all pairs of item and class has the eigenvalues of
    # (h.h' + 1), C times each; the trace multiplies them by C, and a step limit is that
    # of the whole matrix.
    num_blocks = pool.num_classes if row.kernel == "last-layer" else 1
    return replace(
        row,
        spectrum=extremes,
        eigenvalues=tuple(torch.linalg.eigvalsh(gram_SS).tolist()),
        step_limit=extremes.step_limit * num_blocks,
    )


def _with_value(
    row: Conditioning, kernel: Kernel, known: Pool, asked: Tensor
) -> Conditioning:
    """Add the value and the ceiling of a choice that was made without them."""
    members = torch.cat([known.labeled, asked])
    least = float(gram.smallest_eigenvalue(kernel.block(members, members)))
    among = known.labeled, known.candidates
    ceiling = gram.eigenvalue_ceiling(kernel, *among, len(asked))
    return replace(row, value=least, ceiling=ceiling)
