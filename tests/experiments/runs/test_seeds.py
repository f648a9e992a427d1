import pytest
import torch
from tests.experiments.loop.test_run import PixelTrainer, labeled_pool
from tests.experiments.runs import toy

from fewlabels.errors import SettingsChangedError
from fewlabels.experiments.acquisition import (
    Seeds,
    TableOracle,
    hidden,
    rounds,
    starting_answers,
)
from fewlabels.experiments.runs import RunFolder, execute, replayed
from fewlabels.experiments.settings import Choice, RunSettings, SeedOptions
from fewlabels.strategies import Random

TOY = Choice(name="tests.experiments.runs.toy:Resuming")
RANDOM = Choice(name="random")


@pytest.fixture(scope="module")
def digits():
    return toy.digits()


def run(path, pool, **changes):
    return toy.whole_run(path, pool, trainer=TOY, strategy=RANDOM, **changes)


def measured(done):
    return done.accuracy, done.median_accuracy


def asked(done):
    return done.query.indices.tolist()


def test_one_number_is_the_seed_of_every_purpose():
    assert Seeds.of(3) == Seeds(start=3, first=3, train=3, query=3)
    seeds = Seeds(start=1, first=2, train=3, query=4)
    assert Seeds.of(seeds) is seeds
    assert [seeds.training(step) for step in (0, 1, 2)] == [2, 3, 3]
    settings = RunSettings(data=Choice(name="digits"), seed=5, seeds={"train": 7})
    assert settings.all_seeds == Seeds(start=5, first=5, train=7, query=5)


@pytest.mark.parametrize("purpose", ["start", "first", "train", "query"])
def test_a_seed_of_one_purpose_changes_that_alone(purpose, tmp_path, digits):
    base, folder = run(tmp_path / "base", digits)
    other, changed = run(tmp_path / "other", digits, seeds=SeedOptions(**{purpose: 99}))
    has_same_start = folder.start() == changed.start()
    assert has_same_start == (purpose != "start")
    same = [measured(a) == measured(b) for a, b in zip(base, other, strict=True)]
    is_trained_alike = {"first": [False, True, True], "train": [True, False, False]}
    assert same == is_trained_alike.get(purpose, [True] * 3)
    if purpose != "start":
        is_asked_alike = asked(base[0]) == asked(other[0])
        assert is_asked_alike == (purpose != "query")


def test_a_run_does_not_go_on_with_another_setting(tmp_path, digits):
    run(tmp_path / "run", digits)
    with pytest.raises(
        SettingsChangedError, match="zero_shot was False and is now True"
    ):
        run(tmp_path / "run", digits, zero_shot=True)


def test_withheld_labels_are_seen_by_nobody_before_the_first_query_is_made():
    pool, trainer, strategy = labeled_pool(), PixelTrainer(), Watching()
    start = starting_answers(pool, 8, 0, trainer=trainer)
    found = list(
        rounds(
            hidden(pool, 24),
            trainer=trainer,
            strategy=strategy,
            oracle=TableOracle(pool.labels),
            query=8,
            budget=24,
            seed=0,
            test=pool.test,
            withheld=start,
        )
    )
    assert [done.num_labeled for done in found] == [0, 16, 24]
    assert trainer.seen[0]["labeled"] == []
    assert not set(asked(found[0])) & set(start.indices.tolist())
    assert set(start.indices.tolist()) <= set(trainer.seen[1]["labeled"])
    assert not set(strategy.candidates[0]) & set(start.indices.tolist())


class Watching(Random):
    def __init__(self):
        self.candidates = []

    def select(self, classifier, pool, size, generator, *, history=()):
        self.candidates.append(pool.candidates.tolist())
        return Random().select(classifier, pool, size, generator, history=history)


def test_a_zero_shot_run_begins_untrained_and_goes_on_where_it_was(tmp_path, digits):
    changes = {"zero_shot": True, "query": 30, "budget": 40}
    whole, folder = run(tmp_path / "whole", digits, **changes)
    assert [done.num_labeled for done in whole] == [0, 40]
    assert whole[-1].class_counts == tuple(
        torch.bincount(
            torch.tensor([*folder.start().values(), *whole[0].answers.labels.tolist()]),
            minlength=10,
        ).tolist()
    )
    settings = toy.settings(trainer=TOY, strategy=RANDOM, **changes)
    stopped = execute(settings, tmp_path / "stopped", digits)
    next(stopped)
    stopped.close()
    run(tmp_path / "stopped", digits, **changes)
    again = (tmp_path / "stopped" / "rounds.jsonl").read_bytes()
    assert again == folder.rounds_file.read_bytes()
    pools = [pool for _, pool in replayed(folder, digits, folder.settings())]
    assert [len(pool.labeled) for pool in pools] == [0, 40]


def test_a_run_can_take_its_beginning_from_another(tmp_path, digits):
    _, beginning = run(tmp_path / "beginning", digits, query=1, budget=10)
    whole, folder = run(tmp_path / "whole", digits)
    settings = toy.settings(trainer=TOY, strategy=RANDOM)
    rest = list(execute(settings, tmp_path / "rest", digits, beginning=beginning.path))
    assert [done.accuracy for done in rest] == [done.accuracy for done in whole]
    again = RunFolder(tmp_path / "rest")
    assert again.rounds_file.read_bytes() == folder.rounds_file.read_bytes()
    assert (again.path / "round-000" / "state.txt").read_text() == "40"


def test_a_beginning_that_is_under_way_is_not_copied(tmp_path, digits):
    beginning = RunFolder(tmp_path / "beginning")
    (beginning.path / "round-000").mkdir(parents=True)
    (beginning.path / "round-000" / "state.txt").write_text("7")
    _, folder = run(tmp_path / "whole", digits)
    beginning.write_start(folder.start())
    own = RunFolder(tmp_path / "own")
    own.path.mkdir()
    own.begin_like(beginning)
    assert own.start() is None
    assert not (own.path / "round-000").exists()
    own.begin_like(folder)
    assert own.start() == folder.start()
    assert (own.path / "round-000" / "state.txt").read_text() == "40"


def test_the_training_of_the_set_that_was_kept_is_not_done_again(tmp_path, digits):
    options = {"steps": 3}
    trainer = Choice(name="supervised", options=options)
    changes = {"trainer": trainer, "strategy": RANDOM, "budget": 10, "query": 1}
    settings = toy.settings(initial_models=3, **changes)
    list(execute(settings, tmp_path / "run", digits))
    models = {
        path.parent.name: path.read_bytes()
        for path in (tmp_path / "run").glob("*/model.safetensors")
    }
    assert set(models) == {"start-0", "start-1", "start-2", "round-000"}
    kept = models.pop("round-000")
    assert sum(kept == other for other in models.values()) == 1
