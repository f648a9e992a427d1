"""Experiments that come with the package, by name.

Those of the paper have its scale: for GPUs, months of two CPU cores. Section numbers
are those of the NPC paper. What it leaves open follows FixMatch's official code for the
training (:class:`fewlabels.training.fixmatch.FixMatch`) and DARP's for the refinement;
``about`` states each such decision.

The others take two CPU cores minutes to hours, with at least ten paired seeds.
Networks, images and pools are smaller, so their numbers cannot be compared with the
paper's; the order of strategies may.
"""

from typing import Any

from fewlabels import training
from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.experiments.bench.experiment import Experiment
from fewlabels.experiments.bench.published import (
    BALANCED_FIXMATCH_TABLE,
    TABLE_1,
    TABLE_2,
    TABLE_3_SINGLE_SHOT,
    TABLE_3_ZERO_SHOT,
)
from fewlabels.experiments.settings import Choice
from fewlabels.names import DEFAULT_STRATEGY

__all__ = ["demo_experiment", "long_tail", "names", "recipe", "supervised"]

_Fields = dict[str, Any]
"""Fields of an experiment or of a run's settings, as a YAML file would have them."""

_RATIO = 20  # of the most frequent class to the rarest, in long-tailed pools


def long_tail(most: int, *, num_classes: int) -> list[int]:
    """Return counts that fall by one factor from class to class, from ``most``."""
    last = num_classes - 1
    return [round(most * _RATIO ** (-k / last)) for k in range(num_classes)]


# -------------------------------------------------------------------- for two CPU cores

# What a claim is measured against, whatever is compared.
_ALWAYS = ("random", "margin", "coreset", "badge", "typiclust", "maxdet")
_LARGEST_VALUE = {"tie_tolerance": 0.0}  # Algorithm 1, however little it leads by

_SMALL = {"name": "fixmatch-darp", "preset": "small"}
# 10,000 test images cost as much as training, so they are measured five times only.
_SELDOM_MEASURED = {**_SMALL, "checkpoint_every": 120}
_FROZEN = {"name": "frozen-fixmatch-darp", "preset": "small"}

_CPU: _Fields = {
    "strategies": (*_ALWAYS, "npc"),
    "seeds": tuple(range(10)),
    "retrainings": 5,
    # Processor seconds of one thread of a busy two-core machine, queries and measuring
    # included; of long queries (CIFAR-100: up to a minute) the mean over strategies.
    "footprint": {"seconds_per_step": 0.035, "megabytes": 0.35},
}


def _condition(data: Any, trainer: _Fields, *numbers: int, **others: Any) -> _Fields:
    """Return a condition; the numbers are start, query and budget."""
    fields = zip(("start", "query", "budget"), numbers, strict=True)
    return {"settings": {"data": data, "trainer": trainer, **dict(fields), **others}}


def _one_query(
    name: str, data: Any, trainer: _Fields, start: int = 10, **others: Any
) -> list[_Fields]:
    """Return conditions with one query alone, up to 40 and 60 labels (Sec. 5.4)."""
    return [
        _condition(data, trainer, start, budget - start, budget, **others)
        | {"name": f"{name}{budget} labels"}
        for budget in (40, 60)
    ]


def _zero_shot(name: str, data: Any, trainer: _Fields) -> list[_Fields]:
    """Return both readings of a query by an untrained network."""
    given = _one_query(f"{name}ten given, ", data, trainer, zero_shot=True)
    return [
        *_one_query(f"{name}all asked for, ", data, trainer, start=0),
        *(condition | {"is_other_reading": True} for condition in given),
    ]


def _imbalanced(even: _Fields, most: int, num_classes: int = 10) -> _Fields:
    """Return the same comparison on a pool with long-tailed classes, without DARP."""
    settings = even["conditions"][0]["settings"]
    counts = long_tail(most, num_classes=num_classes)
    trainer = {k: v for k, v in settings["trainer"].items() if k != "masking"}
    trainer["name"] = training.variant(trainer["name"], alignment="")
    changes = {"data": {**settings["data"], "counts": counts}, "trainer": trainer}
    return even | {
        "title": f"{even['title']}, classes long-tailed",
        "about": (
            f"{sum(counts):,} images, {counts[0]:,} of the most frequent class and "
            f"{counts[-1]} of the rarest; one starting label per class, test images "
            "even. Trained by FixMatch without DARP, whose uniform target is wrong "
            "here (paper, Sec. 5.1)."
        ),
        "conditions": [{"settings": settings | changes}],
    }


_RECIPES: dict[str, _Fields] = {}
_SMALLER = {"size": 14, "counts": [500] * 10}
_DATA: dict[str, tuple[str, _Fields]] = {
    "digits": ("digits", {"name": "digits"}),
    "mnist": ("MNIST", {"name": "mnist", **_SMALLER}),
    "fashion_mnist": ("Fashion-MNIST", {"name": "fashion-mnist", **_SMALLER}),
}
_RECIPES["digits"] = _CPU | {
    "title": "Digits, 10 to 30 labels",
    "about": "The smallest experiment. 1,297 images of 8 x 8 pixels in the pool.",
    "conditions": [_condition({"name": "digits"}, _SMALL, 10, 10, 30)],
}
_RECIPES["digits_imbalanced"] = _imbalanced(_RECIPES["digits"], 120)


for _name in ("mnist", "fashion_mnist"):
    _title, _data = _DATA[_name]
    _RECIPES[_name] = _CPU | {
        "title": f"{_title}, 10 to 50 labels",
        "about": "5,000 images at 14 x 14 pixels, 500 of each class.",
        "conditions": [_condition(_data, _SELDOM_MEASURED, 10, 20, 50)],
        "footprint": {"seconds_per_step": 0.09, "megabytes": 0.35},
    }
    _RECIPES[f"{_name}_imbalanced"] = _imbalanced(_RECIPES[_name], 1500)

_COPIES = {"size": 8, "counts": [25] * 10, "times": 8, "noise": 0.0}
_REPEATED = {"name": "repeated-mnist", **_COPIES}
_RECIPES["repeated_mnist"] = _CPU | {
    "title": "Repeated MNIST: 250 images, eight times each",
    "about": (
        "Proposition 1 of the paper: a set with copies has a singular Gram matrix, so "
        "NPC never asks for one. 250 images at 8 x 8 pixels, eight copies of each."
    ),
    "conditions": [_condition(_REPEATED, _SELDOM_MEASURED, 10, 20, 50)],
    "strategies": ("random", "margin", "coreset", "badge", "npc"),
    "figures": ("redundancy", "accuracy"),
}

_CIFAR10_IMAGES = {"name": "cifar10", "counts": [1000] * 10}
_RECIPES["cifar10"] = _CPU | {
    "title": "CIFAR-10 through frozen features, 10 to 70 labels",
    "about": (
        "Table 1 of the paper with a linear head over frozen features learnt from "
        "ImageNet, which knows some of these classes. 10,000 images, 1,000 of each."
    ),
    "conditions": [_condition(_CIFAR10_IMAGES, _FROZEN, 10, 20, 70)],
    "strategies": (*_ALWAYS, "albl", "npc"),
    "footprint": {"seconds_per_step": 0.02, "megabytes": 0.1},
}
_RECIPES["cifar10_imbalanced"] = _imbalanced(_RECIPES["cifar10"], 3000)

_CIFAR100_IMAGES = {"name": "cifar100", "counts": [100] * 100}
# With a hundred classes, the masking of DARP's paper leaves nearly every refinement
# without a solution; that of its program does not.
_MASKED = {**_FROZEN, "masking": "code"}
_RECIPES["cifar100"] = _CPU | {
    "title": "CIFAR-100 through frozen features, 100 to 900 labels",
    "about": (
        "Table 2 of the paper with a linear head over frozen features learnt from "
        "ImageNet, which knows many of these classes. 10,000 images, 100 of each. "
        "1,280 features give the kernel of the last layer rank enough for 900 labels. "
        "DARP masks as its program does: as in its paper, few refinements have a "
        "solution here."
    ),
    "conditions": [_condition(_CIFAR100_IMAGES, _MASKED, 100, 200, 900)],
    "strategies": (*_ALWAYS, "albl", "npc"),
    "footprint": {"seconds_per_step": 0.07, "megabytes": 0.6},
}
_RECIPES["cifar100_imbalanced"] = _imbalanced(_RECIPES["cifar100"], 300, 100)

_RECIPES["cifar100_iou"] = _RECIPES["cifar100"] | {
    "title": "Overlap of what was asked for, CIFAR-100 through frozen features",
    "about": (
        "Figure 1 of the paper: its five algorithms, three trials, 300, 500 and 700 "
        "labels. Unlike in the paper, every trial begins with a set of its own."
    ),
    "conditions": [_condition(_CIFAR100_IMAGES, _MASKED, 100, 200, 700)],
    "strategies": ("random", "margin", "albl", "badge", "npc"),
    "seeds": (0, 1, 2),
    "figures": ("overlap", "accuracy"),
}

# ------------------------------------------------------------------ those of the paper

_READINGS = (
    "WRN-28-2 and FixMatch's official settings (2^20 steps); DARP with a uniform "
    "target after 40 % of the steps, masked as in its program."
)
_BEGINNING = (
    "One label per class to begin with; all trials begin with the model of median "
    "accuracy of five, measured on the rest of the pool."
)
_DARP = {"preset": "official", "target": "uniform", "masking": "code"}
_OFFICIAL = {"name": "fixmatch-darp", **_DARP}
# Sec. 5.1: one model begins all trials, that of median performance of five.
_ONE_BEGINNING: _Fields = {"initial_models": 5, "seeds": {"start": 0, "first": 0}}
# Secs. 2.2 and 5.2 write both scores on f, the outputs before softmax.
_ARMS = [{"name": "least-confidence", "on": "logits"}, "coreset"]
_MARGIN, _ALBL = {"name": "margin", "on": "logits"}, {"name": "albl", "arms": _ARMS}
_BASELINES = ("random", _MARGIN, _ALBL, "badge")
_LITERAL_NPC = {"name": "npc", "kernel": "last-layer", **_LARGEST_VALUE}

_PAPER: _Fields = {
    "scale": "paper",
    "strategies": ("badge", _LITERAL_NPC),
    "seeds": (0, 1, 2),  # Sec. 5.1: "averaged over 3 trials"
    # One step of 64 + 2 * 7 * 64 images on one core of the machine that
    # benchmarks/fixmatch_step.py was run on; a GPU takes a fraction of a second.
    "footprint": {"seconds_per_step": 23.0, "megabytes": 6.0},
}

_RECIPES["table1_cifar10"] = _PAPER | {
    "title": "Table 1: CIFAR-10, 10 to 70 labels",
    "about": (
        f"{_READINGS} {_BEGINNING} Margin and ALBL's least confidence on outputs "
        "before softmax, and NPC with the kernel of the last layer, as printed."
    ),
    "conditions": [_condition("cifar10", _OFFICIAL, 10, 20, 70, **_ONE_BEGINNING)],
    "strategies": (*_BASELINES, _LITERAL_NPC),
    "published": [TABLE_1],
}

_OFFICIAL_CIFAR100 = {**_OFFICIAL, "weight_decay": 0.001, "refine_every": 100}
_RECIPES["table2_cifar100"] = _PAPER | {
    "title": "Table 2: CIFAR-100, 100 to 900 labels",
    "about": (
        f"{_READINGS} Weight decay .001 as FixMatch's code has for CIFAR-100, "
        f"refinement every 100 steps as DARP's. {_BEGINNING} Margin and ALBL's least "
        "confidence are on outputs before softmax. The kernel of the last layer has "
        "rank 129 at most and scores zero for 300 labels or more, so NPC decides by "
        "rank (kernel 'auto': the wide head)."
    ),
    "conditions": [
        _condition("cifar100", _OFFICIAL_CIFAR100, 100, 200, 900, **_ONE_BEGINNING)
    ],
    "strategies": (*_BASELINES, {"name": "npc", **_LARGEST_VALUE}),
    "published": [TABLE_2],
}

_RECIPES["figure1_iou"] = _RECIPES["table2_cifar100"] | {
    "title": "Figure 1: overlap of what was asked for, CIFAR-100",
    "about": (
        "The runs of table2_cifar100. The paper shows the intersection over union of "
        "all labels of all trials, the common starting set included."
    ),
    "figures": ("overlap", "accuracy"),
}

_RECIPES["table3_zero_shot"] = _PAPER | {
    "title": "Table 3, zero shot: CIFAR-10, one query by an untrained network",
    "about": (
        f"{_READINGS} The paper asks for 30 and 50, reports 40 and 60 labels, and does "
        "not say where ten come from. Both readings are here: all are asked for (so a "
        "commented line of its TeX source: '0 to 40, 0 to 60'), or one random label "
        "per class is added that the query did not know. Every trial has an untrained "
        "network of its own."
    ),
    "conditions": _zero_shot("", "cifar10", _OFFICIAL),
    "published": [TABLE_3_ZERO_SHOT],
}

_RECIPES["table3_single_shot"] = _PAPER | {
    "title": "Table 3, single shot: CIFAR-10, one query after 10 labels",
    "about": f"{_READINGS} All trials begin with the model of table1_cifar10.",
    "conditions": _one_query("", "cifar10", _OFFICIAL, **_ONE_BEGINNING),
    "published": [TABLE_3_SINGLE_SHOT],
}

_FIXMATCH = {"name": "fixmatch", "preset": "official"}
_RECIPES["balanced_fixmatch"] = _PAPER | {
    "title": "FixMatch on 40 balanced labels of CIFAR-10",
    "about": (
        "The number of Sohn et al. (2020) that the paper compares Table 3 with: four "
        "random labels per class, nothing is asked, no DARP; five label sets as there."
    ),
    "conditions": [_condition("cifar10", _FIXMATCH, 40, 1, 40)],
    "strategies": ("random",),
    "seeds": tuple(range(5)),
    "published": [BALANCED_FIXMATCH_TABLE],
}

# ------------------------------------------- the paper's protocol, for two CPU cores

_ONCE_MEASURED = {**_SMALL, "masking": "code", "checkpoint_every": 600}
_BESIDE = ("typiclust", "uherding")  # rivals that the paper does not have
_TWIN: _Fields = {"seeds": tuple(range(10)), "footprint": _CPU["footprint"]}
_DIFFERENCES = (
    "The protocol of the paper with other images, a WRN-10-1 of 64 features, 600 steps "
    "of training and ten trials instead of three; beside it what the paper printed for "
    "CIFAR-10."
)


def _table_1_twin(title: str, data: _Fields) -> _Fields:
    settings = (data, _ONCE_MEASURED, 10, 20, 70)
    return _TWIN | {
        "title": f"Twin of Table 1 and Figure 1: {title}, 10 to 70 labels",
        "about": (
            f"{_DIFFERENCES} {_BEGINNING} For 70 labels the kernel of the last layer "
            "is singular, so that the last query of NPC as printed is a tie; 'auto' "
            "takes the wide head instead."
        ),
        "conditions": [_condition(*settings, **_ONE_BEGINNING)],
        "strategies": (*_BASELINES, _LITERAL_NPC, {"name": "npc"}, *_BESIDE),
        "published": [TABLE_1],
        "figures": ("accuracy", "overlap"),
    }


def _table_3_twin(title: str, data: _Fields) -> _Fields:
    single = _one_query("single-shot, ", data, _ONCE_MEASURED, **_ONE_BEGINNING)
    return _TWIN | {
        "title": f"Twin of Table 3: {title}, one query",
        "about": (
            f"{_DIFFERENCES} Zero-shot: an untrained network asks for all labels, or "
            "one random label per class is added that the query did not know; every "
            f"trial has a network of its own. Single-shot: {_BEGINNING.lower()}"
        ),
        "conditions": [*_zero_shot("zero-shot, ", data, _ONCE_MEASURED), *single],
        "strategies": ("random", "badge", _LITERAL_NPC, *_BESIDE),
        "published": [TABLE_3_ZERO_SHOT, TABLE_3_SINGLE_SHOT],
    }


_RECIPES |= {f"table1_{name}": _table_1_twin(*_DATA[name]) for name in _DATA}
_RECIPES |= {f"table3_{name}": _table_3_twin(*_DATA[name]) for name in _DATA}

# ----------------------------------------------------------------------------- by name

_SUPERVISED = "_supervised"
# What a step costs without unlabeled images: a third on digits, where measuring and
# other work remain; one image of 1 + 2 * 7 at the size of the paper.
_SUPERVISED_COST = {"cpu": 1 / 3, "paper": 1 / 15}


def names() -> tuple[str, ...]:
    """Return the names of all recipes; each has a twin ``NAME_supervised`` besides."""
    return tuple(_RECIPES)


def recipe(name: str) -> Experiment:
    """Return the experiment of a name.

    Example:
        >>> recipe("repeated-mnist").title
        'Repeated MNIST: 250 images, eight times each'
        >>> recipe("digits_supervised").conditions[0].settings.trainer.name
        'supervised'
    """
    plain = name.replace("-", "_")
    base = plain.removesuffix(_SUPERVISED)
    if base not in _RECIPES:
        raise UnknownNameError("recipe", base, _RECIPES)
    experiment = Experiment(name=base, **_RECIPES[base])
    return experiment if base == plain else supervised(experiment)


def supervised(experiment: Experiment) -> Experiment:
    """Return the twin of an experiment of FixMatch: trained on labeled images alone."""
    conditions = []
    for condition in experiment.conditions:
        trainer = condition.settings.trainer
        twin = training.variant(trainer.name, learner="supervised", alignment="")
        if twin is None or twin == trainer.name:
            raise UsageError(f"'{trainer.name}' has no supervised twin; use FixMatch.")
        known = training.options(twin)
        options = {k: v for k, v in trainer.options.items() if k in known}
        plain = Choice(name=twin, options=options)
        settings = condition.settings.copy_with(trainer=plain)
        conditions.append(condition.copy_with(settings=settings))
    cost = experiment.footprint
    seconds = cost.seconds_per_step * _SUPERVISED_COST[experiment.scale]
    return experiment.copy_with(
        name=f"{experiment.name}{_SUPERVISED}",
        title=f"{experiment.title}, trained on labeled images alone",
        about=f"Like {experiment.name}, without the unlabeled images.",
        conditions=tuple(conditions),
        published=(),
        footprint=cost.copy_with(seconds_per_step=seconds),
    )


def demo_experiment(*, is_fast: bool = False) -> Experiment:
    """Return the experiment of ``fewlabels demo``: digits, 10 to 100 labels.

    If it has to be fast, trainings are short and seeds few.
    """
    pools = {"name": "digits", "counts": [60] * 10}
    blend = _condition(pools, {"name": "blend"}, 0, 10, 100)
    short = {"name": _SMALL["name"], "steps": 200, "checkpoint_every": 200}
    network = _condition("digits", short if is_fast else _SELDOM_MEASURED, 10, 10, 20)
    npc = {"name": "npc", **_LARGEST_VALUE}
    fields = {
        "name": "demo",
        "title": "Which digits to label",
        "about": (
            "With blend, each strategy chooses ten images at a time, up to 100, from "
            "600 digits that differ from seed to seed. With FixMatch+DARP, as in the "
            "paper that introduced npc, one label of each digit is given, each "
            "strategy chooses ten more among 1,297, and a small network learns from "
            "all of them. Digits are easy; your images will give other numbers."
        ),
        "conditions": [
            {"name": "blend", "own_pools": True, **blend},
            {"name": "FixMatch+DARP", "num_seeds": 4, **network},
        ],
        "strategies": ("random", npc, "typiclust", DEFAULT_STRATEGY),
        "seeds": tuple(range(2 if is_fast else 30)),
        "subject": DEFAULT_STRATEGY,
        "figures": ("accuracy", "savings"),
        "footprint": _CPU["footprint"],
    }
    return Experiment.model_validate(fields)
