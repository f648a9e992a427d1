"""Names that come to stand for something else do not mix results."""

import sys
from functools import partial

import pytest
from tests.experiments.bench import little
from tests.experiments.bench.little import done

from fewlabels.experiments.bench import outdated, plan, read_results, run
from fewlabels.experiments.bench.experiment import checked
from fewlabels.experiments.settings import Choice
from fewlabels.report import write_bench_report
from fewlabels.strategies import Margin, uncertainty

OWN = """
from tests.experiments.runs.toy import {0}


class Mine({0}):
    pass
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of one's own, with a class that is edited by adding to its file."""

    def made(name, base):
        file = tmp_path / f"{name}.py"
        file.write_text(OWN.format(base))
        monkeypatch.delitem(sys.modules, name, raising=False)
        return file

    monkeypatch.syspath_prepend(tmp_path)
    return made


def edited(file):
    file.write_text(file.read_text() + "    steps = 2\n")


def with_trainer(name, **changes):
    bare = little.experiment(**changes)
    (condition,) = bare.conditions
    settings = condition.settings.model_copy(update={"trainer": Choice(name=name)})
    conditions = (condition.model_copy(update={"settings": settings}),)
    return bare.model_copy(update={"conditions": conditions})


def test_an_edited_trainer_gets_runs_of_its_own(tmp_path, own):
    file = own("my_trainer", "Resuming")
    bare = with_trainer("my_trainer:Mine", seeds=(0,))
    before = checked(bare)
    folder, first, _ = done(tmp_path / "b", before)
    assert outdated(before, folder) == ()
    edited(file)
    now = checked(bare)
    assert not {one.address for one in plan(now).all} & {
        one.address for one in plan(before).all
    }
    _, again, _ = done(tmp_path / "b", now)
    assert len(again.done) == len(first.done) == 3  # two strategies, one beginning
    (told,) = outdated(now, folder)
    assert told.startswith("3 runs with these settings had another trainer 'my_train")
    assert "'my_trainer:Mine': the source of 'my_trainer' is not what" in told
    page = write_bench_report(folder, "toy").read_text()
    assert "3 runs with these settings had another trainer" in page
    assert read_results(folder, before).num_finished == 2  # they are kept


def test_an_edited_strategy_gets_runs_of_its_own(tmp_path, own):
    file = own("my_strategy", "FirstOnes")
    mine = Choice(name="my_strategy:Mine")
    bare = little.experiment(seeds=(0,)).model_copy(update={"strategies": (mine,)})
    folder, *_ = done(tmp_path / "b", checked(bare))
    edited(file)
    now = folder.ask_for(checked(bare))
    assert len(now.strategies) == 1
    assert [one.address for one in folder.missing(plan(now).all)] == [
        plan(now).cells[0].address
    ]
    (told,) = outdated(now, folder)
    assert told.startswith("1 run with these settings had another strategy 'my_strat")


def test_a_default_that_changes_gets_runs_of_its_own(tmp_path, monkeypatch):
    folder, *_ = done(tmp_path / "b", little.experiment(seeds=(0,)))
    later = partial(Margin, on="logits")
    monkeypatch.setattr(uncertainty, "Margin", later)
    now = little.experiment(seeds=(0,))
    (cell,) = folder.missing(plan(now).all)
    assert cell.settings.strategy.name == "margin"
    (told,) = outdated(now, folder)
    assert "'margin': on was 'probabilities' and is now 'logits'" in told


def test_other_code_on_the_machine_of_a_worker_is_refused(tmp_path, own):
    file = own("my_trainer", "Resuming")
    experiment = checked(with_trainer("my_trainer:Mine", seeds=(0,)))
    folder = little.opened(tmp_path / "b")
    edited(file)
    first, *_ = run(experiment, folder, little.Here())
    assert "trainer: the source of 'my_trainer' is not what it was" in first.error
    assert not list(folder.path.glob("cells/*/run.json"))
