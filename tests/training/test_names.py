"""Names, import paths and options become trainers, or a sentence that helps."""

import pytest

from fewlabels import training
from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.training import (
    FixMatchDarpTrainer,
    FixMatchTrainer,
    FrozenFixMatchDarpTrainer,
    FrozenFixMatchTrainer,
    FrozenSupervisedTrainer,
    SupervisedTrainer,
)


def test_names():
    own = ("supervised", "fixmatch", "fixmatch-darp")
    frozen = tuple(f"frozen-{name}" for name in own)
    assert training.names() == (*own, *frozen, "frozen-linear")


CLASSES = (
    SupervisedTrainer,
    FixMatchTrainer,
    FixMatchDarpTrainer,
    FrozenSupervisedTrainer,
    FrozenFixMatchTrainer,
    FrozenFixMatchDarpTrainer,
)


@pytest.mark.parametrize(
    ("name", "kind"), list(zip(training.names()[:-1], CLASSES, strict=True))
)
def test_a_name_is_its_class_and_the_official_settings_have_to_be_asked_for(name, kind):
    assert training.resolve(name) == kind() == kind.small()
    assert training.resolve(name, {"steps": 20}) == kind(steps=20)
    assert training.resolve(name, {"preset": "small"}) == kind()
    official = training.resolve(name, {"preset": "official", "momentum": 0.5})
    assert official == kind.official(momentum=0.5)
    assert (kind().steps, official.steps) == (600, 2**20)


def test_heads_over_frozen_features_look_at_photographs():
    for trainer in (FrozenFixMatchTrainer(), FrozenFixMatchDarpTrainer.official()):
        assert (trainer.network, trainer.learning_rate) == ("linear", 0.03)
        assert (trainer.weak.flip, trainer.strong) == (True, "official")
    assert (FrozenFixMatchTrainer().mu, FrozenFixMatchTrainer.official().mu) == (2, 7)


def test_a_wrong_preset_is_explained():
    with pytest.raises(
        UnknownNameError, match=r"preset called 'tiny'.*official, small"
    ):
        training.resolve("fixmatch", {"preset": "tiny"})


def test_options_are_typed_and_nested():
    trainer = training.resolve(
        "fixmatch", {"steps": "100", "strong": {"rotation": 5}, "weak": {"flip": True}}
    )
    assert trainer.steps == 100
    assert trainer.strong.rotation == 5.0
    assert trainer.weak.flip is True


def test_an_unknown_name_is_explained():
    with pytest.raises(UnknownNameError, match=r"trainer called 'fixmach'.*'fixmatch'"):
        training.resolve("fixmach")


def test_an_unknown_option_is_explained():
    message = r"option of 'fixmatch' called 'treshold'.*'threshold'"
    with pytest.raises(UnknownNameError, match=message):
        training.resolve("fixmatch", {"treshold": 0.9})


def test_supervised_has_no_consistency():
    with pytest.raises(UnknownNameError, match="option of 'supervised' called 'mu'"):
        training.resolve("supervised", {"mu": 3})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": "many"}, "Option 'steps' of 'fixmatch' is 'many'"),
        ({"steps": 1.5}, "Option 'steps' of 'fixmatch' is 1.5"),
        ({"strong": {"rotate": 3}}, r"Option 'strong\.\w+\.rotate' of 'fixmatch'"),
        ({"strong": 3}, r"Option 'strong\.\w+' of 'fixmatch' is 3"),
        ({"steps": 0}, "steps is 0; it must be at least 1"),
        ({"network": "wrn-9-1"}, "depth 9 does not exist.* The nearest are 10 and 16"),
        ({"network": "wrn-10-0"}, "depth is 10 and widen_factor 0; a Wide ResNet"),
        ({"network": "resnet"}, "There is no network called 'resnet'"),
        ({"weak": {"shift": 2}}, "shift is 2.0; it is a share"),
    ],
)
def test_wrong_values_are_explained(options, message):
    with pytest.raises(UsageError, match=message):
        training.resolve("fixmatch", options)


def test_an_import_path():
    trainer = training.resolve("fewlabels.training.fixmatch:FixMatchTrainer", {"mu": 2})
    assert trainer == FixMatchTrainer(mu=2)


def test_a_wrong_import_path_is_explained():
    with pytest.raises(UsageError, match="could not be imported"):
        training.resolve("no_such_module:Trainer")


def test_an_object_is_returned_as_it_is():
    trainer = FixMatchTrainer.small(mu=2)
    assert training.resolve(trainer) is trainer
    with pytest.raises(UsageError, match="when you make the object"):
        training.resolve(trainer, {"mu": 3})


@pytest.mark.parametrize("what", [3, "pathlib:Path"])
def test_what_cannot_fit_is_refused(what):
    with pytest.raises(UsageError, match="is no trainer: it has no method fit"):
        training.resolve(what)
