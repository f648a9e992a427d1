"""What every trainer of networks keeps to."""

from dataclasses import replace

import pytest
import torch
from tests.training.conftest import NUM_ITEMS, changed, tiny_pool

from fewlabels import models, progress, rng
from fewlabels.data.augment import StrongAugment, WeakAugment
from fewlabels.errors import TrainingError
from fewlabels.pool import ArrayImages
from fewlabels.protocols import Trainer
from fewlabels.training import make

SHORT = {"steps": 12, "minibatch_size": 4, "checkpoint_every": 5}
TRAINERS = [
    make("supervised", **SHORT),
    make("fixmatch", **SHORT, mu=2, threshold=0.6),
]
EVERY = torch.arange(NUM_ITEMS)

each_trainer = pytest.mark.parametrize(
    "trainer", TRAINERS, ids=lambda t: t.identity.type
)


def weights(classifier):
    return torch.cat(
        [v.double().flatten() for v in classifier.module.state_dict().values()]
    )


def fit(trainer, pool, seed=0, **options):
    return trainer.fit(pool, rng.stream(seed, "train", 0), **options)


@each_trainer
@pytest.mark.usefixtures("untouched_randomness")
def test_same_stream_same_weights_bit_for_bit(trainer, pool):
    trainer: Trainer
    first, second = fit(trainer, pool), fit(trainer, pool)
    assert torch.equal(weights(first), weights(second))
    assert not torch.equal(weights(first), weights(fit(trainer, pool, seed=1)))


@each_trainer
@pytest.mark.usefixtures("untouched_randomness")
def test_dropout_is_as_repeatable(trainer, pool):
    dropping = changed(trainer, dropout=0.3)
    first, second = fit(dropping, pool), fit(dropping, pool)
    assert torch.equal(weights(first), weights(second))
    assert not torch.equal(weights(first), weights(fit(trainer, pool)))
    logits = first.sample_logits(pool.images, EVERY, 2, rng.stream(0, "s"))
    assert logits.shape == (2, NUM_ITEMS, 2)


@each_trainer
@pytest.mark.usefixtures("untouched_randomness")
def test_global_state_is_left_alone(trainer, pool):
    before = (torch.get_num_threads(), torch.get_default_dtype())
    gradients = torch.is_grad_enabled()
    fit(trainer, pool)
    assert (torch.get_num_threads(), torch.get_default_dtype()) == before
    assert torch.is_grad_enabled() is gradients


@each_trainer
@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_gradients_are_had_where_others_are_switched_off(trainer, pool, off):
    with off():
        found = fit(trainer, pool)
    assert torch.equal(weights(found), weights(fit(trainer, pool)))


@each_trainer
def test_the_default_precision_changes_nothing(trainer, pool):
    flipping = changed(trainer, dropout=0.3, weak=WeakAugment(flip=True))
    if "strong" in flipping.options:
        flipping = changed(flipping, strong=StrongAugment(flip=True))
    expected = fit(flipping, pool)
    torch.set_default_dtype(torch.float64)
    try:
        found = fit(flipping, pool)
        logits = found.outputs(pool.images, EVERY).logits
        samples = found.sample_logits(pool.images, EVERY, 2, rng.stream(0, "s"))
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(weights(found), weights(expected))
    assert torch.equal(logits, expected.outputs(pool.images, EVERY).logits)
    repeated = expected.sample_logits(pool.images, EVERY, 2, rng.stream(0, "s"))
    assert torch.equal(samples, repeated)
    assert logits.dtype == samples.dtype == torch.float32
    assert {v.dtype for v in found.module.parameters()} == {torch.float32}


@each_trainer
def test_learns_what_is_easy(trainer, pool):
    patient = changed(trainer, steps=60, ema_decay=0.8)
    found = fit(patient, pool).outputs(pool.images, EVERY).logits.argmax(1)
    assert (found == EVERY % 2).float().mean() > 0.9


@each_trainer
def test_without_labels_the_untrained_network_comes_back(trainer):
    pool = tiny_pool(labeled=0)
    steps = []
    found = fit(trainer, pool, on_checkpoint=lambda step, _: steps.append(step))
    key = rng.fork(rng.stream(0, "train", 0))
    fresh = models.build("wrn-10-1", (1, 4, 4), 2, rng.stream(key, "initialize"))
    assert torch.equal(found.module.stem.weight, fresh.stem.weight)
    assert torch.equal(found.module.head.weight, fresh.head.weight)
    assert steps == [0]


@each_trainer
@pytest.mark.parametrize("labeled", [1, NUM_ITEMS])
def test_one_label_and_all_labels_are_fine(trainer, labeled):
    outputs = fit(trainer, tiny_pool(labeled)).outputs(tiny_pool().images, EVERY)
    assert outputs.logits.isfinite().all()


@each_trainer
def test_labels_of_a_single_class_are_fine(trainer):
    pool = tiny_pool(labeled=6)
    labels = torch.where(pool.labels == 1, -1, pool.labels)
    only = replace(pool, labels=labels, candidates=pool.candidates)
    found = fit(changed(trainer, ema_decay=0.5, steps=30), only)
    logits = found.outputs(pool.images, EVERY).logits
    assert logits.isfinite().all()
    assert (logits.argmax(1) == 0).all()


@each_trainer
def test_color_images_are_fine(trainer):
    pool = tiny_pool(shape=(3, 8, 6), num_classes=3)
    assert fit(trainer, pool).outputs(pool.images, EVERY).logits.shape == (NUM_ITEMS, 3)


@each_trainer
def test_checkpoints_come_now_and_then_and_at_the_end(trainer, pool):
    kept = {}
    found = fit(trainer, pool, on_checkpoint=kept.__setitem__)
    assert list(kept) == [5, 10, 12]
    assert torch.equal(weights(kept[12]), weights(found))
    assert not torch.equal(weights(kept[5]), weights(kept[10]))  # copies, not views


@each_trainer
def test_the_training_survives_a_checkpoint_that_is_used(trainer, pool):
    def measure(step, classifier):
        classifier.outputs(pool.images, EVERY)
        classifier.module.train()

    measured = fit(trainer, pool, on_checkpoint=measure)
    assert torch.equal(weights(measured), weights(fit(trainer, pool)))


@each_trainer
def test_a_lost_training_says_so(trainer, pool):
    wild = changed(trainer, learning_rate=1e30, steps=40)
    with pytest.raises(TrainingError, match=r"step \d+ of 40.*Lower learning_rate"):
        fit(wild, pool)


@each_trainer
def test_progress_adds_up_and_figures_are_told(trainer, pool):
    amounts, told = [], {}

    class Listener:
        def start(self, task, total, done):
            assert (task, total, done) == ("Training", 12, 0)
            return 0

        def advance(self, handle, amount):
            amounts.append(amount)

        def tell(self, step, figures):
            told[step] = figures

        def finish(self, handle):
            amounts.append(0)

    with progress.reporting(Listener()):
        fit(trainer, pool)
    assert amounts == [1] * 12 + [0]  # a slow step is seen, too
    assert list(told) == [10, 12]
    assert told[12]["loss"] > 0
    assert told[12]["learning-rate"] < told[10]["learning-rate"] < 0.06
    assert ("kept" in told[12]) is ("threshold" in trainer.options)


def test_both_trainers_share_start_and_labeled_minibatches(pool):
    """FixMatch that keeps nothing differs from supervised only in normalization."""
    reads = {}

    class Watched(ArrayImages):
        def read(self, indices):
            log.append(indices.tolist())
            return super().read(indices)

    watched = replace(pool, images=Watched(pool.images.items))
    for trainer in TRAINERS:
        log = reads.setdefault(trainer.num_steps and trainer.learner.mu, [])
        fit(trainer, watched)
    assert reads[0] == reads[2][::2]
    untrained = [fit(t, tiny_pool(labeled=0)) for t in TRAINERS]
    assert torch.equal(*map(weights, untrained))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, in compiling
def test_a_compiled_network_trains_alike(pool):
    trainer = make("fixmatch", **SHORT, accelerator="cpu")
    plain = weights(fit(trainer, pool))
    compiled = weights(fit(changed(trainer, compiles=True), pool))
    torch.testing.assert_close(compiled, plain, rtol=0, atol=1e-5)


@pytest.mark.parametrize("forward", ["joint", "split"])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_gradients_have_the_layout_of_their_weights(
    monkeypatch, pool, forward, precision
):
    """The fused optimizer walks through both in step, whatever their strides."""
    odd = []
    step = torch.optim.SGD.step

    def looking(self, *args, **kwargs):
        for group in self.param_groups:
            odd.extend(p for p in group["params"] if p.grad.stride() != p.stride())
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.SGD, "step", looking)
    options = {"forward": forward, "precision": precision, "accelerator": "cpu"}
    fit(make("fixmatch", **SHORT, **options), pool)
    assert not odd
