"""Recipes are what they say: the paper's settings, whole pools, shared runs."""

import re
from pathlib import Path

import pytest
import torch

from fewlabels import strategies, training
from fewlabels.data import load
from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.experiments.bench import recipes, runner
from fewlabels.experiments.bench.experiment import cell_of, checked, plan
from fewlabels.experiments.bench.published import (
    TABLE_1,
    TABLE_2,
    TABLE_3_SINGLE_SHOT,
    TABLE_3_ZERO_SHOT,
)
from fewlabels.experiments.bench.recipes import recipe
from fewlabels.experiments.bench.runner import pool_of
from fewlabels.experiments.runs import check_choices
from fewlabels.experiments.settings import Choice, DataOptions, RunSettings
from fewlabels.training.supervised import Supervised

PAGE = Path(__file__).parents[3] / "docs" / "experiments.md"
PAPER = [name for name in recipes.names() if recipe(name).scale == "paper"]
PROTOCOL = [
    f"table{number}_{data}"
    for number in (1, 3)
    for data in ("digits", "mnist", "fashion_mnist")
]
CPU = [n for n in recipes.names() if recipe(n).scale == "cpu" and n not in PROTOCOL]
EVERYTHING = [twin for name in recipes.names() for twin in (name, f"{name}_supervised")]
ALWAYS = {"random", "margin", "coreset", "badge", "typiclust", "maxdet"}


def only(experiment):
    [condition] = experiment.conditions
    return condition.settings


def trainer_of(settings):
    return training.resolve(settings.trainer.name, settings.trainer.options)


def addresses(name):
    return {cell.address for cell in plan(recipe(name)).all}


def strategy_names(name):
    return [strategy.name for strategy in recipe(name).strategies]


# ------------------------------------------------------------------------- all of them


@pytest.mark.parametrize("name", EVERYTHING)
def test_what_a_recipe_names_exists_with_its_options(name):
    experiment = recipe(name)
    assert experiment.name == name
    different = {
        (cell.settings.strategy.label, cell.settings.trainer.label): cell.settings
        for cell in plan(experiment).all
    }
    for settings in different.values():
        check_choices(settings)
    for condition in experiment.conditions:
        DataOptions.model_validate(condition.settings.data.options)
        # A settings file could say the same: nothing in it is of the wrong kind.
        written = condition.settings.model_dump(mode="json")
        assert RunSettings.merged(None, written) == condition.settings


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_recipe_survives_being_written_down(name):
    experiment = recipe(name)
    read = type(experiment).model_validate_json(experiment.model_dump_json())
    assert read == experiment


def test_a_recipe_is_found_with_dashes_too():
    assert recipe("repeated-mnist") == recipe("repeated_mnist")
    assert recipe("table1-cifar10-supervised") == recipe("table1_cifar10_supervised")


def test_a_wrong_name_is_told_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'repeated_mnist'"):
        recipe("repeated_minst")
    with pytest.raises(UnknownNameError, match="Did you mean 'fashion_mnist'"):
        recipe("fashon-mnist-supervised")


def test_the_page_lists_every_recipe():
    table = PAGE.read_text("utf-8").partition("| name | what it runs |")[2]
    cells = re.findall(r"^\| (`\w+`.*?) \|", table.partition("\n\n")[0], re.MULTILINE)
    listed = set(re.findall(r"`(\w+)`", " ".join(cells)))
    # One row stands for all that are long-tailed.
    assert "digits_imbalanced" in listed
    shown = {name for name in recipes.names() if not name.endswith("_imbalanced")}
    assert listed == shown | {"digits_imbalanced"}
    short = {name.removesuffix("_imbalanced") for name in set(recipes.names()) - shown}
    assert short == {"digits", "mnist", "fashion_mnist", "cifar10", "cifar100"}


# --------------------------------------------------------------------------- the paper


@pytest.mark.parametrize("name", PAPER)
def test_npc_is_literal_at_the_scale_of_the_paper(name):
    # Algorithm 1: the set of the largest eigenvalue, however little it leads by.
    for strategy in recipe(name).strategies:
        if strategy.name == "npc":
            assert strategy.options["tie_tolerance"] == 0


def test_table_1():
    settings = only(recipe("table1_cifar10"))
    # "CIFAR-10 (Q_0 = 10, Q = 20)", columns 30, 50, 70.
    assert settings.data == Choice(name="cifar10")
    assert (settings.start, settings.query, settings.budget) == (10, 20, 70)
    # Sec. 5.2: "passive learning [...], margin [...], (ALBL [...]) [...], and BADGE"
    assert strategy_names("table1_cifar10") == list(TABLE_1.strategies)
    # Sec. 3.4: gradients of the last layer.
    assert recipe("table1_cifar10").strategies[-1].options["kernel"] == "last-layer"
    # "All performances are averaged over 3 trials."
    assert len(recipe("table1_cifar10").seeds) == 3
    # "the model that attained median performance across 5 trials"
    assert settings.initial_models == 5
    trainer = trainer_of(settings)
    # "WRN-28-2 architecture for all experiments", FixMatch's length of training
    assert (trainer.schedule.network, trainer.num_steps) == ("wrn-28-2", 2**20)
    assert trainer == training.make("fixmatch-darp", preset="official", masking="code")
    # "we simply take the target pseudo-label distribution to be uniform"
    assert trainer.alignment.target == "uniform"
    assert recipe("table1_cifar10").published == (TABLE_1,)


def test_table_2():
    settings = only(recipe("table2_cifar100"))
    # "CIFAR-100 (Q_0 = 100, Q = 200)", columns 300, 500, 700, 900.
    assert settings.data == Choice(name="cifar100")
    assert (settings.start, settings.query, settings.budget) == (100, 200, 900)
    assert strategy_names("table2_cifar100") == list(TABLE_2.strategies)
    assert len(recipe("table2_cifar100").seeds) == 3
    assert settings.initial_models == 5
    # "WRN-28-2 [...] for all experiments"; FixMatch's weight decay for CIFAR-100, and
    # DARP's steps between two refinements.
    assert trainer_of(settings) == training.make(
        "fixmatch-darp",
        preset="official",
        weight_decay=0.001,
        refine_every=100,
        masking="code",
    )
    # 300 labels are more than the last layer of 128 features can tell apart, so that
    # NPC is not tied to it.
    assert "kernel" not in recipe("table2_cifar100").strategies[-1].options
    assert recipe("table2_cifar100").published == (TABLE_2,)


@pytest.mark.parametrize("name", ["table1_cifar10", "table2_cifar100", "figure1_iou"])
def test_the_papers_scores_are_on_outputs_before_softmax(name):
    found = {
        one.name: strategies.resolve(one.name, one.options)
        for one in recipe(name).strategies
    }
    # Sec. 2.2: the margin is a difference of f, entropy alone is of softmax(f).
    assert found["margin"] == strategies.Margin(on="logits")
    # Sec. 5.2: "least confidence arg min_i f(x_i) and Coreset"
    least_confidence, coreset = found["albl"].arms
    assert least_confidence == strategies.LeastConfidence(on="logits")
    assert coreset == strategies.Coreset()


def test_table_3_zero_shot():
    experiment = recipe("table3_zero_shot")
    # The paper: "how NPC and BADGE [...] are affected"
    assert set(strategy_names("table3_zero_shot")) == {"npc", "badge"}
    one, two = experiment.conditions[:2], experiment.conditions[2:]
    # The paper: "a randomly initialized (N_L = 0) model", "# Labels 40 60"
    assert [
        (one.settings.start, one.settings.query, one.settings.budget) for one in one
    ] == [(0, 40, 40), (0, 60, 60)]
    # "using Q in {30, 50}, where zero-shot refers to acquisition using a randomly
    # initialized model": ten labels come from elsewhere.
    assert [
        (one.settings.start, one.settings.query, one.settings.budget) for one in two
    ] == [(10, 30, 40), (10, 50, 60)]
    assert [one.settings.zero_shot for one in experiment.conditions] == [
        False, False, True, True,
    ]  # fmt: skip
    assert [one.is_other_reading for one in experiment.conditions] == [
        False, False, True, True,
    ]  # fmt: skip
    assert experiment.published == (TABLE_3_ZERO_SHOT,)
    assert trainer_of(one[0].settings) == trainer_of(only(recipe("table1_cifar10")))


def test_table_3_single_shot():
    experiment = recipe("table3_single_shot")
    assert set(strategy_names("table3_single_shot")) == {"npc", "badge"}
    # The paper: "single-shot to a model trained on 1 label per class", "Q in {30, 50}"
    assert [
        (one.settings.start, one.settings.query, one.settings.budget)
        for one in experiment.conditions
    ] == [(10, 30, 40), (10, 50, 60)]
    assert experiment.published == (TABLE_3_SINGLE_SHOT,)


def test_the_balanced_reference():
    settings = only(recipe("balanced_fixmatch"))
    # The paper: "FixMatch on balanced data without DARP reportedly achieves 86.19%"
    assert trainer_of(settings) == training.make("fixmatch", preset="official")
    assert settings.start == settings.budget == 40
    [table] = recipe("balanced_fixmatch").published
    assert table.cell("random", 40).mean == 86.19
    for planned in (recipe("balanced_fixmatch"), checked(recipe("balanced_fixmatch"))):
        assert [cell.num_trainings for cell in plan(planned).all] == [1] * 5


def test_the_tables_are_139_trainings():
    tables = [
        recipe("table1_cifar10"),
        recipe("table2_cifar100"),
        recipe("table3_zero_shot"),
        recipe("table3_single_shot"),
    ]
    # 5 + 5*3*3, 5 + 5*3*4, and 2*2*3 for each half of Table 3; single shot begins with
    # the model of Table 1.
    assert runner.num_trainings(tables[:1]) == 5 + 45
    assert runner.num_trainings(tables[1:2]) == 5 + 60
    assert runner.num_trainings(tables, other_readings=False) == 50 + 65 + 12 + 12
    assert runner.num_trainings(tables) == 139 + 12
    assert runner.num_trainings([*tables, recipe("figure1_iou")]) == 139 + 12


def test_single_shot_begins_with_the_model_of_table_1():
    [model] = plan(recipe("table1_cifar10")).beginnings
    assert plan(recipe("table3_single_shot")).beginnings == (model,)
    assert model.num_trainings == 5


def test_the_figure_is_of_the_runs_of_table_2():
    assert addresses("figure1_iou") == addresses("table2_cifar100")
    assert recipe("figure1_iou").figures[0] == "overlap"


@pytest.mark.parametrize("name", PAPER)
def test_the_paper_did_no_trainings_on_one_label_set(name):
    assert not plan(recipe(name)).noise


# ----------------------------------------------------------------------- for two cores


def test_the_overlap_is_measured_where_the_figure_measures_it():
    assert strategy_names("cifar100_iou") == strategy_names("table2_cifar100")
    settings = only(recipe("cifar100_iou"))
    asked = range(settings.start, settings.budget + 1, settings.query)
    assert {300, 500, 700} < set(asked)


@pytest.mark.parametrize("name", sorted({*CPU, *PROTOCOL} - {"cifar100_iou"}))
def test_seeds_are_paired_and_enough_for_a_claim(name):
    experiment = recipe(name)
    assert len(experiment.seeds) == 10
    for condition in experiment.conditions:
        for seed in experiment.seeds:
            runs = [cell_of(condition, one, seed) for one in experiment.strategies]
            # One starting set, one first training, one stream of later trainings.
            assert len({run.settings.all_seeds for run in runs}) == 1
            assert len({run.beginning and run.beginning.address for run in runs}) == 1


@pytest.mark.parametrize("name", CPU)
def test_the_chance_of_training_is_measured(name):
    noise = plan(recipe(name)).noise
    assert len({cell.address for cell in noise}) == 5
    assert len({cell.settings.all_seeds.start for cell in noise}) == 1


@pytest.mark.parametrize("name", sorted({*CPU} - {"cifar100_iou", "repeated_mnist"}))
def test_the_rivals_are_always_there(name):
    assert ALWAYS | {"npc"} <= set(strategy_names(name))


def test_the_smallest_measures_at_10_20_and_30():
    settings = only(recipe("digits"))
    assert (settings.start, settings.query, settings.budget) == (10, 10, 30)


@pytest.mark.parametrize("name", PROTOCOL[3:])
def test_both_readings_of_one_query_are_there(name):
    experiment = recipe(name)
    plans = {
        (one.settings.start, one.settings.query, one.settings.zero_shot)
        for one in experiment.conditions
    }
    zero = {(0, 40, False), (0, 60, False), (10, 30, True), (10, 50, True)}
    assert plans == zero | {(10, 30, False), (10, 50, False)}
    assert {one.settings.budget for one in experiment.conditions} == {40, 60}


@pytest.mark.parametrize("name", [name for name in CPU if name.endswith("_imbalanced")])
def test_long_tails_fall_by_one_factor_and_are_not_pulled_even(name):
    settings = only(recipe(name))
    counts = settings.data.options["counts"]
    assert counts[0] / counts[-1] == pytest.approx(20, rel=0.05)
    wanted = [counts[0] * 20 ** (-k / (len(counts) - 1)) for k in range(len(counts))]
    assert counts == pytest.approx(wanted, abs=0.5)
    assert not hasattr(trainer_of(settings), "target")
    even = only(recipe(name.removesuffix("_imbalanced")))
    changed = {"data": settings.data, "trainer": settings.trainer}
    assert even.model_copy(update=changed) == settings


@pytest.mark.parametrize("name", PROTOCOL[:3])
def test_the_protocol_of_table_1_on_smaller_images(name):
    own, paper = only(recipe(name)), only(recipe("table1_cifar10"))
    changes = {"data": own.data, "trainer": own.trainer}
    assert paper.model_copy(update=changes) == own
    assert own.trainer.name == paper.trainer.name
    assert own.trainer.options["masking"] == paper.trainer.options["masking"]
    strategies = recipe("table1_cifar10").strategies
    assert recipe(name).strategies[: len(strategies)] == strategies
    assert recipe(name).published == (TABLE_1,)
    assert "overlap" in recipe(name).figures


@pytest.mark.parametrize("name", PROTOCOL[3:])
def test_the_protocol_of_table_3_on_smaller_images(name):
    papers = [recipe("table3_zero_shot"), recipe("table3_single_shot")]
    conditions = [c for paper in papers for c in paper.conditions]
    for own, condition in zip(recipe(name).conditions, conditions, strict=True):
        changes = {"data": own.settings.data, "trainer": own.settings.trainer}
        assert condition.settings.model_copy(update=changes) == own.settings
        assert own.is_other_reading == condition.is_other_reading
    assert all(s in recipe(name).strategies for s in papers[0].strategies)


SIZES = {
    "digits": (1297, 500, (1, 8, 8)),
    "digits_imbalanced": (409, 500, (1, 8, 8)),
    "mnist": (5000, 10000, (1, 14, 14)),
    "mnist_imbalanced": (5109, 10000, (1, 14, 14)),
    "fashion_mnist": (5000, 10000, (1, 14, 14)),
    "fashion_mnist_imbalanced": (5109, 10000, (1, 14, 14)),
    "repeated_mnist": (2000, 10000, (1, 8, 8)),
    "cifar10": (10000, 10000, (3, 32, 32)),
    "cifar10_imbalanced": (10216, 10000, (3, 32, 32)),
    "cifar100": (10000, 10000, (3, 32, 32)),
    "cifar100_imbalanced": (9576, 10000, (3, 32, 32)),
    "cifar100_iou": (10000, 10000, (3, 32, 32)),
}


LOADED_BY_OTHERS = ("mnist", "fashion_mnist", "cifar10", "cifar100", "cifar100_iou")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] if n in LOADED_BY_OTHERS else [])
        for n in CPU
    ],
)
def test_a_pool_has_the_promised_size(name, monkeypatch):
    settings = recipe(name).conditions[0].settings
    pool = pool_where_it_is(settings, monkeypatch)
    assert (len(pool), len(pool.test), pool.images.shape) == SIZES[name]
    counts = settings.data.options.get("counts")
    if counts is not None:
        times = settings.data.options.get("times", 1)
        assert list(pool.class_counts) == [count * times for count in counts]


class AbsentError(Exception):
    """The data would have to be downloaded."""


def pool_where_it_is(settings, monkeypatch):
    """Return the pool of a run, or skip where its data are not on this machine."""

    def never(*_args, **_kwargs):
        raise AbsentError

    monkeypatch.setattr("fewlabels.data.official.fetch", never)
    try:
        return pool_of(settings.data.model_dump_json())
    except AbsentError:
        pytest.skip(f"the data of '{settings.data.name}' are not on this machine")


def test_copies_are_exact(monkeypatch):
    pool = pool_where_it_is(only(recipe("repeated_mnist")), monkeypatch)
    images = pool.images.read(torch.arange(len(pool)))
    by_picture = {}
    for name, image in zip(pool.ids, images, strict=True):
        by_picture.setdefault(name.split("#")[0], set()).add(image.numpy().tobytes())
    assert len(by_picture) == 250
    assert all(len(pictures) == 1 for pictures in by_picture.values())


# ------------------------------------------------------------------------------- twins


@pytest.mark.parametrize("name", recipes.names())
def test_a_twin_differs_by_the_unlabeled_images_alone(name):
    experiment, twin = recipe(name), recipe(f"{name}_supervised")
    assert twin.strategies == experiment.strategies
    assert twin.seeds == experiment.seeds
    assert not twin.published
    assert twin.footprint.seconds_per_step < experiment.footprint.seconds_per_step
    for with_all, alone in zip(experiment.conditions, twin.conditions, strict=True):
        same = {"trainer": with_all.settings.trainer}
        assert alone.settings.model_copy(update=same) == with_all.settings
        full, plain = trainer_of(with_all.settings), trainer_of(alone.settings)
        assert isinstance(plain.learner, Supervised)
        assert plain.options.items() <= full.options.items()
        assert plain.schedule == full.schedule


def test_what_is_not_fixmatch_has_no_twin():
    twin = recipe("digits_supervised")
    with pytest.raises(UsageError, match="'supervised' has no supervised twin"):
        recipes.supervised(twin)


def test_imbalanced_pools_come_from_the_same_set():
    even = load("digits")
    few = pool_of(only(recipe("digits_imbalanced")).data.model_dump_json())
    assert set(few.ids) < set(even.ids)
