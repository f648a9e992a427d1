import json
import math
import shutil
from dataclasses import replace

import pytest
import torch
from tests.experiments.runs.toy import digits, settings, whole_run

from fewlabels import training
from fewlabels.errors import DamagedWarning
from fewlabels.experiments.diagnosis import NO_LABELS, NO_NETWORK, diagnose
from fewlabels.experiments.runs import RunFolder, replayed
from fewlabels.experiments.settings import Choice, SeedOptions
from fewlabels.gram import last_layer_kernel, numerical_rank, spectrum, wide_head_kernel
from fewlabels.rng import stream
from fewlabels.training import loop


@pytest.fixture(scope="module")
def pool():
    return digits()


@pytest.fixture(scope="module")
def npc(tmp_path_factory, pool):
    return whole_run(tmp_path_factory.mktemp("npc") / "run", pool)[1]


@pytest.fixture(scope="module")
def random(tmp_path_factory, pool):
    place = tmp_path_factory.mktemp("random") / "run"
    return whole_run(place, pool, strategy=Choice(name="random"))[1]


@pytest.fixture
def untrained(monkeypatch):
    """Fail where anything is trained."""

    def refuse(*_, **__):
        raise AssertionError("something was trained")

    monkeypatch.setattr(loop.Stepper, "advance", refuse)


def outputs_of(folder, pool, step):
    """Outputs of a round's network over the whole pool, by the trainer itself."""
    chosen = settings()
    trainer = training.resolve(chosen.trainer.name, chosen.trainer.options)
    _, known = list(replayed(folder, pool, chosen))[step]
    classifier = trainer.fit(
        known,
        stream(chosen.seed, "train", step),
        workspace=folder.path / f"round-{step:03d}",
    )
    return classifier.outputs(known.images, torch.arange(len(known))), known


@pytest.mark.usefixtures("untrained")
def test_spectra_are_those_of_the_saved_networks(npc, pool):
    rows = list(diagnose(npc, pool))
    assert [row.num_labeled for row in rows] == [10, 15, 20]
    for row in rows:
        outputs, known = outputs_of(npc, pool, row.step)
        kernel = last_layer_kernel(outputs.features, 10)
        assert row.kernel == "last-layer"
        assert row.spectrum == spectrum(kernel.block(known.labeled, known.labeled))
        assert len(row.eigenvalues) == row.num_labeled
        assert list(row.eigenvalues) == sorted(row.eigenvalues)
        assert row.feature_rank == numerical_rank(outputs.features)
        assert row.missing is None


def test_value_and_ceiling_are_those_of_the_record(npc, pool):
    rows, lines = list(diagnose(npc, pool)), npc.lines()
    assert [row.value for row in rows] == [line.value for line in lines]
    assert [row.ceiling for row in rows] == [line.ceiling for line in lines]
    assert [row.is_stand_in for row in rows] == [False, False, True]
    for row in rows[:-1]:
        assert row.value <= row.ceiling
        assert row.ceiling == pytest.approx(row.spectrum.smallest)


def test_a_choice_without_a_value_gets_one(random, pool):
    *asking, last = diagnose(random, pool)
    assert all(row.is_stand_in for row in asking)
    for row in asking:
        outputs, known = outputs_of(random, pool, row.step)
        asked = torch.tensor(random.lines()[row.step].indices)
        members = torch.cat([known.labeled, asked])
        gram = last_layer_kernel(outputs.features, 10).block(members, members)
        assert row.value == pytest.approx(spectrum(gram).smallest)
        assert row.value <= row.ceiling
    assert last.value is last.ceiling is None


@pytest.mark.usefixtures("untrained")
def test_labeled_items_are_enough_for_the_spectrum(npc, pool):
    for short, whole in zip(
        diagnose(npc, pool, whole_pool=False), diagnose(npc, pool), strict=True
    ):
        assert short.feature_rank is None
        assert short.spectrum.rank == whole.spectrum.rank
        assert short.spectrum.smallest == pytest.approx(whole.spectrum.smallest, 1e-3)
        assert short.ceiling == whole.ceiling


def test_the_last_round_is_seen_by_the_kernel_of_the_run(tmp_path, pool):
    choice = Choice(name="npc", options={"draws": 20, "kernel": "wide-head"})
    _, folder = whole_run(tmp_path / "run", pool, strategy=choice)
    last = list(diagnose(folder, pool))[-1]
    assert (last.kernel, last.is_stand_in) == ("wide-head", True)
    outputs, known = outputs_of(folder, pool, last.step)
    gram = wide_head_kernel(outputs.features).block(known.labeled, known.labeled)
    assert last.spectrum == spectrum(gram)
    assert last.step_limit == last.spectrum.step_limit


def test_an_own_kernel_is_named_where_the_last_layers_stands_in(
    tmp_path, pool, monkeypatch
):
    source = "from fewlabels import gram\n\n\ndef K(outputs, pool):\n"
    source += "    return gram.wide_head_kernel(outputs.features)\n"
    (tmp_path / "mykern.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    choice = Choice(name="npc", options={"draws": 20, "kernel": "mykern:K"})
    _, folder = whole_run(tmp_path / "run", pool, strategy=choice)
    rows = list(diagnose(folder, pool))
    assert [row.query_kernel for row in rows] == ["mykern:K", "mykern:K", None]
    assert {(row.kernel, row.is_stand_in) for row in rows} == {("last-layer", True)}
    assert rows[0].to_json()["query_kernel"] == "mykern:K"


@pytest.mark.usefixtures("untrained")
def test_without_its_network_a_round_says_so(npc, pool, tmp_path):
    shutil.copytree(npc.path, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "round-001")
    weights = tmp_path / "copy" / "round-002" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:500])
    with pytest.warns(DamagedWarning, match="counts as none"):
        first, *others = diagnose(RunFolder(tmp_path / "copy"), pool)
    assert first.missing is None
    for row in others:
        assert row.missing == NO_NETWORK
        assert row.spectrum is None
        assert row.eigenvalues == ()
    assert others[0].value == npc.lines()[1].value
    assert not (tmp_path / "copy" / "round-001").exists()


@pytest.mark.usefixtures("untrained")
def test_a_network_of_other_data_is_not_used(npc, pool):
    renamed = replace(pool, ids=("somebody else", *pool.ids[1:]))
    assert {row.missing for row in diagnose(npc, renamed)} == {NO_NETWORK}


def test_without_a_label_there_is_no_matrix(tmp_path, pool):
    _, folder = whole_run(tmp_path / "run", pool, start=0, query=10, budget=10)
    first, last = diagnose(folder, pool)
    assert first.missing == NO_LABELS
    assert last.missing is None


def test_somebody_elses_trainer_keeps_its_work_to_itself(tmp_path, pool):
    class Own:
        def fit(self, pool, generator, *, workspace=None, on_checkpoint=None):
            raise AssertionError("something was trained")

    assert training.restored(Own(), pool, stream(0, "x"), tmp_path) is None


def test_past_the_step_limit_the_last_layer_diverges(npc, pool):
    """Full gradient descent on half the squared error of a linear head over [h, 1]."""
    row = next(diagnose(npc, pool))
    outputs, known = outputs_of(npc, pool, 0)
    features = outputs.features[known.labeled].double()
    rows = torch.cat([features, torch.ones(len(features), 1).double()], dim=1)
    targets = torch.eye(10).double()[known.labels[known.labeled]]

    def loss_after(rate):
        weights = torch.zeros(rows.shape[1], 10).double()
        for _ in range(2000):
            weights -= rate * rows.T @ (rows @ weights - targets)
        return float((rows @ weights - targets).square().sum()) / 2

    assert loss_after(0.99 * row.step_limit) < 0.5
    assert loss_after(1.01 * row.step_limit) > 1e6


def test_a_line_of_json_has_no_infinity(npc, pool):
    row = next(diagnose(npc, pool))
    singular = replace(row, spectrum=replace(row.spectrum, condition=math.inf))
    fields = json.loads(json.dumps(singular.to_json(), allow_nan=False))
    assert fields["condition"] is None
    assert fields["smallest"] == row.spectrum.smallest
    assert fields["step_limit"] == row.step_limit
    assert next(iter(fields)) == "schema_version"


def test_seeds_of_single_purposes_lead_to_the_saved_networks(pool, tmp_path):
    _, folder = whole_run(tmp_path / "run", pool, seeds=SeedOptions(first=5, train=6))
    assert [row.missing for row in diagnose(folder, pool)] == [None, None, None]
