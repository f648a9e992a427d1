"""Names, import paths and options become trainers, or a sentence that helps."""

import re
from pathlib import Path

import pytest
from tests.experiments.loop.test_evaluations import Wavering
from tests.training.conftest import changed

from fewlabels import training
from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.names import identity
from fewlabels.protocols import Trainer
from fewlabels.training import make
from fewlabels.training.alignment import Darp
from fewlabels.training.fixmatch import FixMatch
from fewlabels.training.frozen import FrozenInputs
from fewlabels.training.linear import Linear
from fewlabels.training.loop import Schedule
from fewlabels.training.supervised import Supervised
from fewlabels.training.training import Training, relevant_options
from fewlabels.training.views import PoolInputs

HEAD = Schedule(network="linear", learning_rate=0.03)
PARTS = {
    "supervised": (PoolInputs(), Supervised(), None, Schedule()),
    "fixmatch": (PoolInputs(), FixMatch(), None, Schedule()),
    "fixmatch-darp": (PoolInputs(), FixMatch(), Darp(), Schedule()),
    "frozen-supervised": (FrozenInputs(), Supervised(), None, HEAD),
    "frozen-fixmatch": (FrozenInputs(), FixMatch(), None, HEAD),
    "frozen-fixmatch-darp": (FrozenInputs(), FixMatch(), Darp(), HEAD),
    "frozen-linear": (FrozenInputs(), Linear(), None, None),
}
each_name = pytest.mark.parametrize("name", training.names())


@pytest.mark.parametrize("name", PARTS)
def test_a_name_stands_for_its_parts(name):
    fields = ("inputs", "learner", "alignment", "schedule")
    parts = dict(zip(fields, PARTS[name], strict=True))
    assert training.resolve(name) == make(name) == Training(**parts)
    assert name in training.names()


@each_name
def test_options_of_all_parts_have_different_names(name):
    trainer = make(name)
    parts = [trainer.inputs, trainer.learner, trainer.alignment, trainer.schedule]
    parts = [part for part in (*parts, trainer.execution) if part is not None]
    found = [
        n for p in parts for n in relevant_options(p, trainer.inputs, trainer.learner)
    ]
    assert len(found) == len(set(found))
    assert {*found, "preset"} == {*training.options(name), "preset"}
    assert trainer.options.keys() <= set(found)


@pytest.mark.parametrize("name", [n for n in training.names() if make(n).num_steps])
def test_the_official_settings_have_to_be_asked_for(name):
    assert make(name, steps=20).num_steps == 20
    assert make(name, preset="small") == make(name)
    official = make(name, preset="official", momentum=0.5)
    assert official.schedule.momentum == 0.5
    steps = official.learner.official.get("steps", 2**20)
    assert (make(name).num_steps, official.num_steps) == (600, steps)
    assert official == changed(make(name, preset="official"), momentum=0.5)


def test_heads_over_frozen_features_look_at_photographs():
    for name in ("frozen-fixmatch", "frozen-fixmatch-darp"):
        for preset in ("small", "official"):
            options = make(name, preset=preset).options
            assert (options["network"], options["learning_rate"]) == ("linear", 0.03)
            assert (options["weak"].flip, options["strong"]) == (True, "official")
            assert options["mu"] == {"small": 2, "official": 7}[preset]


def test_variants():
    assert training.variant("fixmatch-darp", inputs="frozen-") == "frozen-fixmatch-darp"
    assert training.variant("frozen-linear", inputs="") == "linear"
    assert training.variant("supervised", alignment="-darp") is None
    assert training.variant("somebody:Trainer", alignment="") is None


ASKED = re.compile(
    r"(startswith|endswith|removesuffix|removeprefix|partition)\("
    r"\"(frozen-|-darp|fixmatch|supervised|linear)"
    r"|isinstance\([^)]*\b(\w*Trainer|Training|\w*Learner|PoolInputs|FrozenInputs)\b"
    r"|(hasattr|getattr)\((trainer|training)\b"
    r"|trainer\.name (==|!=|in|not in) "
)


def test_nobody_else_asks_for_the_name_or_the_class_of_a_trainer():
    package = Path(training.__file__).parent
    others = [p for p in package.parent.rglob("*.py") if package not in p.parents]
    assert len(others) > 100
    found = [(p, ASKED.search(p.read_text("utf-8"))) for p in others]
    assert [(p, asked) for p, asked in found if asked] == []
    for wrong in (
        'name.endswith("-darp")',
        "isinstance(x, Training)",
        "trainer.name in {}",
    ):
        assert ASKED.search(wrong)


def test_a_wrong_preset_is_explained():
    with pytest.raises(
        UnknownNameError, match=r"preset called 'tiny'.*official, small"
    ):
        training.resolve("fixmatch", {"preset": "tiny"})


def test_options_are_typed_and_nested():
    trainer = training.resolve(
        "fixmatch", {"steps": 100, "strong": {"rotation": 5}, "weak": {"flip": True}}
    )
    assert trainer.schedule.steps == 100
    assert trainer.inputs.strong.rotation == 5.0
    assert trainer.inputs.weak.flip is True


def test_an_unknown_name_is_explained():
    with pytest.raises(UnknownNameError, match=r"trainer called 'fixmach'.*'fixmatch'"):
        training.resolve("fixmach")


def test_an_unknown_option_is_explained():
    message = r"option of 'fixmatch' called 'treshold'.*'threshold'"
    with pytest.raises(UnknownNameError, match=message):
        training.resolve("fixmatch", {"treshold": 0.9})


@pytest.mark.parametrize("option", ["mu", "strong", "cache", "warmup"])
def test_supervised_has_no_consistency(option):
    message = f"option of 'supervised' called '{option}'"
    with pytest.raises(UnknownNameError, match=message):
        training.resolve("supervised", {option: 3})


REFUSED = {
    "adamatch": [
        ({"memory_decay": 1.0}, "memory_decay is 1"),
        ({"mu": 0}, "mu is 0"),
        ({"threshold": -1.0}, "threshold is -1"),
    ],
    "blend": [({"balance": -1.0}, "balance is"), ({"damping": 1.0}, "damping is")],
    "ceal": [({"phases": 0}, "phases is 0; it must be at least 1")],
    "fixmatch": [
        ({"devices": 3}, "minibatch_size 32 is not a multiple of 3"),
        ({"ema_decay": 1.0}, "ema_decay is 1.0; .* below 1"),
        ({"learning_rate": "0.1"}, "'learning_rate' of .* is '0.1'.* valid number"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0"),
        ({"mu": 0}, "mu is 0"),
        ({"network": "resnet"}, "There is no network called 'resnet'"),
        ({"network": "wrn-10-0"}, "widen_factor is 0; it must be"),
        ({"network": "wrn-9-1"}, "depth is 9; it must be at least 10"),
        ({"prefetch": "2"}, "'prefetch' of .* is '2': .* valid integer"),
        ({"steps": "10"}, "'steps' of .* is '10': .* valid integer"),
        ({"steps": "many"}, "'steps' of .* is 'many': .* valid integer"),
        ({"steps": 0}, "steps is 0; it must be at least 1"),
        ({"steps": 1.5}, "'steps' of .* is 1.5: .* valid integer"),
        ({"steps": 20.0}, "'steps' of .* is 20.0: .* valid integer"),
        ({"steps": True}, "'steps' of .* is True: .* valid integer"),
        ({"strong": 3}, r"Option 'strong\.\w+' of 'fixmatch' is 3"),
        ({"strong": {"rotate": 3}}, r"Option 'strong\.\w+\.rotate' of 'fixmatch'"),
        ({"threshold": 1.5}, "threshold is 1.5"),
        ({"threshold": True}, "'threshold' of .* is True: .* valid number"),
        ({"weak": {"shift": 2}}, "shift is 2.0; it must be at least 0 and below 1"),
        ({"weak": {"shift": True}}, r"'weak\.shift' of .* is True: .* valid number"),
    ],
    "fixmatch-abc": [({"balanced_weight": -1.0}, "balanced_weight is")],
    "fixmatch-cdmad": [({"correct_from": -1.0}, "correct_from is")],
    "fixmatch-cta": [
        ({"least_rate": 1.0}, "least_rate is"),
        ({"num_operations": 0}, "num_operations is"),
        ({"rate_decay": -0.1}, "rate_decay is"),
    ],
    "fixmatch-da": [
        ({"share_decay": 1.0}, r"share_decay is 1\.0"),
        ({"target": (0.5, 0.0)}, r"target is 0\.0; it must be above 0"),
    ],
    "fixmatch-darp": [
        ({"capacity": 0.5}, "capacity is 0.5; it must be at least 1"),
        ({"capacity": float("nan")}, "capacity is nan"),
        ({"mask_on": "none"}, "'mask_on' of 'fixmatch-darp' is 'none'"),
        ({"refine_every": 0}, "refine_every is 0"),
        ({"solver": "secant"}, "'solver' of 'fixmatch-darp' is 'secant'"),
        ({"target": "even"}, "of 'fixmatch-darp' is 'even'"),
        ({"target": (0.5, -0.1)}, "target is -0.1; it must be above 0"),
        ({"warmup": 1.0}, "warmup is 1.0"),
    ],
    "freematch": [
        ({"fairness_weight": -1.0}, "fairness_weight is"),
        ({"memory_decay": 1.0}, "memory_decay is"),
    ],
    "frozen-linear": [
        ({"penalty": 0.0}, "penalty is 0.0"),
        ({"pool_weight": -1.0}, "pool_weight is -1.0"),
        ({"shares": (0.5, 0.0)}, "shares is 0.0; it must be above 0"),
    ],
    "mixmatch": [
        ({"mixup": -1.0}, "mixup is -1.0; it must be at least"),
        ({"mu": 0}, "mu is 0; it must be at least"),
        ({"ramp_up": float("nan")}, "ramp_up is nan; it must be at least"),
        ({"temperature": 0.0}, "temperature is 0.0; it must be at least"),
    ],
    "ot": [({"temperature": 0.0}, "temperature is 0")],
    "softmatch": [
        ({"memory_decay": 1.0}, "memory_decay is"),
        ({"narrowing": -1.0}, "narrowing is"),
    ],
}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [(name, *case) for name, cases in REFUSED.items() for case in cases],
)
def test_wrong_values_are_explained(name, options, message):
    with pytest.raises(UsageError, match=message):
        training.resolve(name, options)


@pytest.mark.parametrize("value", [True, "10", None])
def test_options_of_an_object_are_numbers_too(value):
    with pytest.raises(UsageError, match=rf"steps is {value!r}, of type "):
        Schedule(steps=value)


def test_an_import_path():
    trainer = training.resolve(
        "tests.experiments.loop.test_evaluations:Wavering", {"luck": 2}
    )
    assert trainer.trainer == Wavering(luck=2)


def test_a_trainer_that_only_fits_gets_plain_answers():
    class Own(Wavering):
        def check(self, pool):
            raise UsageError(f"no {pool}")

    plain, own = training.resolve(Wavering()), training.resolve(Own(steps=7))
    assert isinstance(plain, Trainer)
    assert plain.identity == identity(Wavering()) != own.identity
    assert (plain.num_steps, own.num_steps) == (None, 7)
    plain.check("pool")
    with pytest.raises(UsageError, match="no pool"):
        own.check("pool")


def test_a_wrong_import_path_is_explained():
    with pytest.raises(UsageError, match="could not be imported"):
        training.resolve("no_such_module:Trainer")


def test_an_object_is_returned_as_it_is():
    trainer = make("fixmatch", mu=2)
    assert training.resolve(trainer) is trainer
    with pytest.raises(UsageError, match="takes no options"):
        training.resolve(trainer, {"mu": 3})


@pytest.mark.parametrize("what", [3, "pathlib:Path", "fractions:Fraction"])
def test_what_cannot_fit_is_refused(what):
    message = (
        r"not a trainer: it has no method fit\(.*\), and is no .*learner\.Learner\."
    )
    options = {"steps": 3} if what == "fractions:Fraction" else {}
    with pytest.raises(UsageError, match=message):
        training.resolve(what, options)
