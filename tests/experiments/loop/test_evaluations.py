"""Checkpoints are measured, told and kept, and decide nothing."""

from dataclasses import dataclass, field, replace

import pytest
import torch
from tests.experiments.loop.test_run import labeled_pool
from tests.experiments.runs.toy import Guesses

import fewlabels
from fewlabels import files
from fewlabels.errors import RunError
from fewlabels.experiments.acquisition import (
    EVALUATIONS_FILE,
    Evaluations,
    mark_of,
    starting_answers,
)
from fewlabels.experiments.evaluation import accuracy, late_median
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.progress import current_part, reporting
from fewlabels.protocols import ignore


@dataclass(frozen=True)
class Wavering:
    """Shows some checkpoints; their accuracies are a matter of luck."""

    steps: tuple[int, ...] = (10, 42, 46, 50)
    luck: int = 0
    shown: dict[int, list[int]] = field(default_factory=dict, repr=False)

    def fit(self, pool, generator, *, workspace=None, on_checkpoint=ignore):
        labels = len(pool.labeled)
        for step in self.steps:
            self.shown.setdefault(labels, []).append(step)
            on_checkpoint(step, self.guesses(labels, step))
        return self.guesses(labels, 50)

    def guesses(self, labels, step):
        return Guesses(self.luck + labels, step, num_classes=4)


class Heard:
    """Notes what is told, and in which part of the run."""

    def __init__(self):
        self.figures = []

    def tell(self, step, figures):
        self.figures.append((current_part(), step, figures))


def run(pool, trainer, **changes):
    arguments = {"strategy": "random", "start": 4, "query": 8, "budget": 20, "seed": 0}
    return list(fewlabels.run(pool, trainer=trainer, **arguments | changes))


def test_the_median_is_that_of_the_last_checkpoints_on_the_test_split():
    pool, trainer = labeled_pool(), Wavering()
    finished = run(pool, trainer)
    assert len(finished) == 3
    for done in finished:
        found = {
            step: accuracy(trainer.guesses(done.num_labeled, step), pool.test)
            for step in trainer.steps
        }
        assert done.median_accuracy == late_median(found)
        assert done.accuracy == found[50]
    assert any(done.median_accuracy != done.accuracy for done in finished)


def test_every_listener_hears_the_accuracies_and_the_round():
    pool, trainer = labeled_pool(), Wavering()
    one, other = Heard(), Heard()
    with reporting(one), reporting(other):
        run(pool, trainer, budget=12)
    assert one.figures == other.figures
    assert one.figures == [
        (
            f"round-00{number}",
            step,
            {"accuracy": accuracy(trainer.guesses(labels, step), pool.test)},
        )
        for number, labels in enumerate([4, 12])
        for step in trainer.steps
    ]


def test_nothing_is_measured_without_a_test_split_and_nothing_else_changes(tmp_path):
    with_test, heard = run(labeled_pool(), Wavering()), Heard()
    with reporting(heard):
        blind = replace(labeled_pool(), test=None)
        without = run(blind, Wavering(), workspace=tmp_path)
    for one, other in zip(with_test, without, strict=True):
        assert torch.equal(one.query.indices, other.query.indices)
        assert other.accuracy is other.median_accuracy is None
    assert heard.figures == []
    assert not list(tmp_path.rglob(EVALUATIONS_FILE))


def test_a_trainer_that_shows_no_checkpoint_has_no_median():
    finished = run(labeled_pool(), Wavering(steps=()))
    assert all(done.accuracy is not None for done in finished)
    assert all(done.median_accuracy is None for done in finished)


def test_starting_sets_are_parts_of_their_own_and_never_see_the_test_split():
    @dataclass(frozen=True)
    class Noting(Wavering):
        parts: list = field(default_factory=list)

        def fit(self, pool, generator, *, workspace=None, on_checkpoint=ignore):
            assert on_checkpoint is ignore
            self.parts.append(current_part())
            return super().fit(pool, generator)

    trainer = Noting()
    starting_answers(labeled_pool(), 4, 0, trainer=trainer, num_models=3)
    assert trainer.parts == ["start-0", "start-1", "start-2"]


POOL = labeled_pool()
TEST = POOL.test


def opened(folder, mark="a"):
    return Evaluations(TEST, folder, mark)


def test_evaluations_go_on_where_they_were(tmp_path):
    before = opened(tmp_path / "new")
    for step in (10, 20):
        before.add(step, Guesses(0, step, num_classes=4))
    after = opened(tmp_path / "new")
    assert after.accuracies == before.accuracies
    assert set(after.accuracies) == {10, 20}
    after.add(torch.tensor(20), Guesses(1, 20, num_classes=4))  # done again
    after.add(30, Guesses(0, 30, num_classes=4))
    last = opened(tmp_path / "new")
    assert last.accuracies == after.accuracies
    assert last.accuracies[20] == accuracy(Guesses(1, 20, num_classes=4), TEST)
    assert last.accuracies[20] != before.accuracies[20]
    assert list(last.accuracies) == [10, 20, 30]


def test_evaluations_of_another_training_are_dropped(tmp_path):
    opened(tmp_path).add(10, Guesses(0, 10, num_classes=4))
    other = opened(tmp_path, mark="b")
    assert other.accuracies == {}
    assert other.median is None
    other.add(20, Guesses(0, 20, num_classes=4))
    assert list(opened(tmp_path, mark="b").accuracies) == [20]
    assert opened(tmp_path).accuracies == {}


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\n",
        b"[]\n",
        b'{"mark": "a"}\n{"step": 10}\n',
        b'{"mark": "a"}\n{"step": 10, "accuracy": null}\n',
        b'{"mark": "a"}\nnot JSON\n{"step": 10, "accuracy": 0.5}\n',
    ],
)
def test_a_damaged_file_is_refused(tmp_path, content):
    """A median without the evaluations that are lost would be another."""
    (tmp_path / EVALUATIONS_FILE).write_bytes(content)
    with pytest.raises(RunError, match=r"evaluations\.jsonl' could not be read"):
        opened(tmp_path)


@pytest.mark.parametrize("content", [b"", b'{"mark": '])
def test_a_file_without_a_whole_line_is_begun_anew(tmp_path, content):
    (tmp_path / EVALUATIONS_FILE).write_bytes(content)
    found = opened(tmp_path)
    assert found.accuracies == {}
    found.add(10, Guesses(0, 10, num_classes=4))
    assert opened(tmp_path).accuracies == found.accuracies


def test_a_torn_last_line_costs_that_line_only(tmp_path):
    before = opened(tmp_path)
    for step in (10, 20):
        before.add(step, Guesses(0, step, num_classes=4))
    whole = (tmp_path / EVALUATIONS_FILE).read_bytes()
    (tmp_path / EVALUATIONS_FILE).write_bytes(whole[:-5])
    after = opened(tmp_path)
    assert list(after.accuracies) == [10]
    after.add(20, Guesses(0, 20, num_classes=4))
    assert (tmp_path / EVALUATIONS_FILE).read_bytes() == whole


def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = opened(None)
    found.add(10, Guesses(0, 10, num_classes=4))
    assert list(tmp_path.iterdir()) == []
    assert found.median == found.accuracies[10]


def relabeled(index, label):
    labels = POOL.labels.clone()
    labels[index] = label
    return replace(POOL, labels=labels, candidates=torch.nonzero(labels == -1)[:, 0])


def of_other_ids():
    names = [f"item-{number}" for number in range(len(POOL))]
    return Pool.build(POOL.images, POOL.labels, POOL.classes, ids=names)


def of_other_rows(part):
    return replace(part, images=ArrayImages(torch.ones(len(part), 2)))


@pytest.mark.parametrize(
    "changed",
    [
        {"trainer": Wavering(luck=1)},
        {"pool": of_other_rows(POOL)},
        {"test": of_other_rows(TEST)},
        {"pool": relabeled(3, 0)},
        {"pool": relabeled(3, UNKNOWN)},
        {"pool": of_other_ids()},
        {"test": replace(TEST, labels=TEST.labels.flip(0))},
        {"test": replace(TEST, ids=tuple("abcdefghijklmnopqrst"))},
        {"seed": 1},
        {"step": 1},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_mark_tells_trainings_apart(changed):
    same = {"trainer": Wavering(), "pool": POOL, "test": TEST, "seed": 0, "step": 0}
    assert mark_of(**same) == mark_of(**same)
    assert mark_of(**same) != mark_of(**same | changed)


def test_a_mark_does_not_depend_on_a_place_in_memory():
    class Plain:
        fit = Wavering.fit

    one, other = Plain(), Plain()
    assert repr(one) != repr(other)
    rest = {"pool": POOL, "test": TEST, "seed": 0, "step": 0}
    assert mark_of(one, **rest) == mark_of(other, **rest)


def test_a_network_is_measured_as_it_stands_at_the_checkpoint(tmp_path):
    """The built-in trainers: checkpoints are told in order and end with the result."""
    trainer = fewlabels.training.make("supervised", steps=6, checkpoint_every=2)
    done, *_ = run(POOL, trainer, workspace=tmp_path)
    mark, *entries = files.read_entries(tmp_path / "round-000" / EVALUATIONS_FILE)
    assert list(mark) == ["mark"]
    assert [entry["step"] for entry in entries] == [2, 4, 6]
    assert entries[-1]["accuracy"] == done.accuracy == done.median_accuracy
    text = (tmp_path / "round-000" / EVALUATIONS_FILE).read_text()
    again, *_ = run(POOL, trainer, workspace=tmp_path)
    assert again.median_accuracy == done.median_accuracy
    assert (tmp_path / "round-000" / EVALUATIONS_FILE).read_text().startswith(text)
    assert files.read_entries(tmp_path / "round-000" / EVALUATIONS_FILE)[4:] == [
        entries[-1]
    ]
