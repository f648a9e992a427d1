"""Cycles of the learning rate, and what is averaged over them (fast-SWA)."""

import copy
import math

import pytest
import torch
from tests.training.conftest import tiny_pool
from tests.training.test_resume import StoppedError, stop_before  # noqa: F401
from tests.training.test_workspace import fit, same, undisturbed

from fewlabels.errors import UsageError
from fewlabels.training import loop, make
from fewlabels.training.loop import cyclic_factor

SHORT = {"steps": 20, "minibatch_size": 4, "cycles": 2, "cycle_share": 0.2}
"""Cycles of 4 steps: from 12 and from 16 on; averaged from 8 on."""


def rates_slowly(num_steps, cycles, length):
    """The cosine, and its end again and again."""
    end = num_steps - cycles * length
    cosine = [math.cos(7 * math.pi * k / 16 / end) for k in range(end)]
    return cosine + cycles * cosine[-length:]


@pytest.mark.parametrize(
    ("num_steps", "cycles", "length"), [(20, 2, 4), (480, 10, 30), (9, 2, 3), (7, 0, 1)]
)
def test_the_rates_are_those_of_a_slow_twin(num_steps, cycles, length):
    """Athiwaratkun et al. (2019), Sec. 4."""
    found = [cyclic_factor(k, num_steps, cycles, length) for k in range(num_steps)]
    assert found == pytest.approx(rates_slowly(num_steps, cycles, length))


def seen(monkeypatch, name, **options):
    """Train; return the networks after each step, their averages, and the result."""
    networks, averages, steppers = [], [], []
    advance = loop.Stepper.advance

    def watched(self, step, minibatch):
        loss = advance(self, step, minibatch)
        networks.append(copy.deepcopy(self.learning.network))
        averages.append(copy.deepcopy(self.average.module.network))
        steppers[:] = [self]
        return loss

    monkeypatch.setattr(loop.Stepper, "advance", watched)
    results = []
    trainer = make(name, **SHORT | options)
    trainer.fit(
        tiny_pool(),
        torch.Generator().manual_seed(0),
        on_checkpoint=lambda _, found: results.append(found.module),
    )
    return networks, averages, results, steppers[0]


def state(network):
    return {name: t.double() for name, t in network.state_dict().items()}


def test_the_result_is_the_mean_over_all_cycles_and_one_before(monkeypatch):
    options = {"checkpoint_every": 1, "ema_decay": 0.7}
    networks, averages, results, stepper = seen(monkeypatch, "supervised", **options)
    assert stepper.schedule.averages_from == 8
    rates = rates_slowly(20, 2, 4)
    assert [stepper.rate_at(k) / 0.06 for k in range(20)] == pytest.approx(rates)
    for done in (8, 9, 15, 20):
        found = state(results[done - 1])
        if done == 8:  # not begun: the exponential average
            assert found.keys() == state(averages[7]).keys()
            assert all(torch.equal(found[n], t) for n, t in state(averages[7]).items())
            continue
        counted = [state(network) for network in networks[8:done]]
        for name, tensor in found.items():
            mean = sum(one[name] for one in counted) / len(counted)
            if "num_batches" in name:
                mean = counted[-1][name]
            torch.testing.assert_close(tensor, mean, rtol=1e-5, atol=1e-6)


def test_learners_still_see_the_exponential_average(monkeypatch):
    networks, averages, _, _ = seen(monkeypatch, "mean-teacher", ema_decay=0.7)
    for before, now, network in zip(
        averages[15:], averages[16:], networks[16:], strict=False
    ):
        expected = 0.7 * before.head.weight + 0.3 * network.head.weight
        torch.testing.assert_close(now.head.weight, expected)


@pytest.mark.parametrize("stop", [6, 9, 18])
def test_it_goes_on_where_it_was(tmp_path, stop, stop_before):  # noqa: F811
    _, stop_at = stop_before
    trainer = make("fixmatch-darp", **SHORT, threshold=0.6, save_every=0.0)
    expected = undisturbed(trainer)
    stop_at(stop)
    with pytest.raises(StoppedError):
        fit(tmp_path, trainer)
    assert same(fit(tmp_path, trainer), expected)
    assert not same(undisturbed(trainer.changed(cycles=0)), expected)


def test_what_was_made_before_there_were_cycles_is_found_again():
    told = make("fixmatch").identity.options
    assert not {"cycles", "cycle_share"} & told.keys()
    assert make("fixmatch", cycles=0) == make("fixmatch")
    assert make("fixmatch", cycles=2).identity.options == {**told, "cycles": 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cycles": -1}, "cycles is -1; it must be at least 0"),
        ({"cycle_share": 1.0}, "cycle_share is 1.0; it must be at least 0"),
        ({"cycles": 16}, r"16 cycles of 0\.0625 exceed 600 steps"),
    ],
)
def test_cycles_that_make_no_sense_are_explained(options, message):
    with pytest.raises(UsageError, match=message):
        make("fixmatch", **options)
