"""Code that a file names is imported only if the person at the terminal says so."""

import json
import sys

import pytest
from tests.experiments.bench.little import done, experiment
from tests.experiments.runs.toy import digits, whole_run
from tests.projects.toy import begin, go_on

from fewlabels.errors import UsageError
from fewlabels.experiments.bench import Condition
from fewlabels.experiments.diagnosis import diagnose
from fewlabels.experiments.runs import RunFolder
from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project
from fewlabels.report import write_report

TRAP = """\
from pathlib import Path
Path("ran").touch()
from fewlabels.training import make
from fewlabels.strategies import Random as Strategy
from torch.nn import Flatten as Encoder
from fewlabels.gram import wide_head_kernel
def kernel(outputs, pool): return wide_head_kernel(outputs.features)
def Trainer(steps=600):
    return make("supervised", steps=steps)
"""


@pytest.fixture
def has_run(tmp_path):
    """Put a module into the current folder; return whether it was imported since."""
    (tmp_path / "trap.py").write_text(TRAP)

    def look():
        sys.modules.pop("trap", None)
        mark = tmp_path / "ran"
        there = mark.exists()
        mark.unlink(missing_ok=True)
        return there

    look()
    yield look
    look()


def refusal(path):
    return (
        f"names code to import: '{path}'. That code would run with your permissions. "
        "If you know it and trust it, allow it with --allow-code, or with "
        "allow_code=True in Python."
    )


def changed(file, **settings):
    """Change settings in a run.json, as whoever hands it on could."""
    content = json.loads(file.read_text("utf-8"))
    content["settings"] |= settings
    del content["checksum"]
    file.write_text(json.dumps(content), "utf-8")


@pytest.fixture
def folder(tmp_path):
    """A finished run in the current folder."""
    trainer = Choice(name="supervised", options={"steps": 2})
    return whole_run(tmp_path / "run", digits(), trainer=trainer, budget=15)[1]


FROM_FILES = [
    {"name": "trap:Trainer", "options": {"steps": 2}},
    {"name": "frozen-supervised", "options": {"encoder": "trap:Encoder", "steps": 2}},
]


@pytest.mark.parametrize("trainer", FROM_FILES)
def test_a_run_of_somebody_else_runs_no_code(fewlabels, folder, has_run, trainer):
    changed(folder.settings_file, trainer=trainer)
    code, _, err = fewlabels("diagnose", "run")
    assert code == 2
    path = "trap:Trainer" if "trap:Trainer" in str(trainer) else "trap:Encoder"
    assert refusal(path) in err
    with pytest.raises(UsageError, match=r"run\.json' names code to import"):
        next(diagnose(folder, digits()))
    write_report(folder.report_file, folder, digits())
    assert not has_run()


def test_the_person_may_allow_the_code_of_a_run(fewlabels, folder, has_run):
    changed(folder.settings_file, trainer=FROM_FILES[0])
    code, _, err = fewlabels("diagnose", "run", "--allow-code")
    assert code == 0, err
    assert has_run()
    list(diagnose(folder, digits(), allow_code=["trap:Trainer"]))
    assert has_run()


def test_a_strategy_is_not_needed_to_look_at_a_run(fewlabels, folder, has_run):
    changed(folder.settings_file, strategy={"name": "trap:Strategy", "options": {}})
    assert fewlabels("diagnose", "run")[0] == 0
    assert not has_run()


ARMS = {"name": "albl", "arms": ["random", {"name": "trap:Strategy"}]}


@pytest.mark.parametrize("strategy", ["trap:Strategy", ARMS])
def test_settings_from_a_file_run_no_code(fewlabels, tmp_path, has_run, strategy):
    content = {"data": "digits", "strategy": strategy, "start": 10, "budget": 10}
    content["trainer"] = {"name": "supervised", "steps": 2}
    (tmp_path / "x.yaml").write_text(json.dumps(content))
    code, _, err = fewlabels("run", "--settings", "x.yaml", "--out", "out")
    assert code == 2
    assert refusal("trap:Strategy") in err
    assert not has_run()
    assert not (tmp_path / "out").exists()
    words = ("run", "--settings", "x.yaml", "--out", "out", "--allow-code")
    code, _, err = fewlabels(*words)
    assert code == 0, err
    assert has_run()


def test_a_kernel_that_a_file_names_is_not_imported(fewlabels, tmp_path, has_run):
    content = {"data": "digits", "start": 10, "query": 2, "budget": 12}
    content["strategy"] = {"name": "npc", "kernel": "trap:kernel", "draws": 5}
    content["trainer"] = {"name": "supervised", "steps": 2}
    (tmp_path / "x.yaml").write_text(json.dumps(content))
    words = ("run", "--settings", "x.yaml", "--out", "out")
    code, _, err = fewlabels(*words)
    assert code == 2
    assert refusal("trap:kernel") in err
    assert not has_run()
    code, _, err = fewlabels(*words, "--allow-code")
    assert code == 0, err
    assert has_run()
    rounds = (tmp_path / "out" / "rounds.jsonl").read_text("utf-8")
    assert json.loads(rounds.splitlines()[0])["kernel"] == "trap:kernel"
    made = json.loads((tmp_path / "out" / "run.json").read_text("utf-8"))
    assert '"trap"' in json.dumps(made)  # with the hash of its source


def test_what_the_command_names_needs_no_leave(fewlabels, tmp_path, has_run):
    content = {"strategy": "other:Strategy", "start": 10, "query": 5, "budget": 15}
    content["trainer"] = {"name": "supervised", "steps": 2}
    (tmp_path / "x.yaml").write_text(json.dumps(content))
    words = ("run", "digits", "--settings", "x.yaml", "--strategy", "trap:Strategy")
    for _ in range(2):  # begun, then found finished
        code, _, err = fewlabels(*words, "--out", "out")
        assert code == 0, err
        assert has_run()


def described(**changes):
    """Return an experiment as a file would hold it."""
    return experiment(**changes).model_dump(mode="json")


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_an_experiment_from_a_file_runs_no_code(fewlabels, tmp_path, has_run, more):
    content = described()
    content["conditions"][0]["settings"]["trainer"] = FROM_FILES[0]
    content["strategies"].append({"name": "trap:Strategy", "options": {}})
    (tmp_path / "x.yaml").write_text(json.dumps(content))
    code, _, err = fewlabels("bench", "run", "x.yaml", *more)
    assert code == 2
    assert "'trap:Trainer', 'trap:Strategy'. That code would run" in err
    words = ("bench", "run", "x.yaml", "--strategies", "trap:Strategy", *more)
    code, _, err = fewlabels(*words)
    assert code == 2
    assert refusal("trap:Trainer") in err
    assert not has_run()
    words = ("bench", "run", "x.yaml", "--dry-run", "--allow-code")
    assert fewlabels(*words)[0] == 0
    assert has_run()


def test_strategies_of_an_experiment_may_be_named(fewlabels, tmp_path, has_run):
    content = described(strategies=(Choice(name="trap:Strategy"),))
    content["conditions"][0]["settings"]["trainer"] = {"name": "supervised"}
    (tmp_path / "x.yaml").write_text(json.dumps(content))
    words = ("bench", "run", "x.yaml", "--dry-run", "--strategies", "trap:Strategy")
    code, _, err = fewlabels(*words)
    assert code == 0, err
    assert has_run()


def test_a_benchmark_of_somebody_else_runs_no_code(fewlabels, tmp_path, has_run):
    settings = experiment().conditions[0].settings
    settings = settings.model_copy(update={"trainer": Choice(**FROM_FILES[0])})
    little = experiment(conditions=(Condition(settings=settings),), seeds=(0,))
    *_, ended = done(tmp_path / "bench", little)
    assert not any(one.error for one in ended)
    assert has_run()
    assert fewlabels("bench", "report", "bench")[0] == 0
    code, _, err = fewlabels("bench", "verify", "bench")
    assert code == 2
    assert "bench' names code to import: 'trap:Trainer'" in err
    assert not has_run()
    assert fewlabels("bench", "verify", "bench", "--allow-code")[0] == 0
    assert has_run()


@pytest.fixture
def project(tmp_path):
    """A project with labels and code of its owner."""
    with begin(tmp_path) as made:
        go_on(made, strategy="random")
        file = made.settings_file
    content = json.loads(file.read_text("utf-8"))
    content["trainer"] = FROM_FILES[0]
    content["strategy"] = {"name": "trap:Strategy", "options": {}}
    file.write_text(json.dumps(content), "utf-8")
    return "project"


def test_a_project_of_somebody_else_runs_no_code(fewlabels, project, has_run):
    for verb, path in (("train", "trap:Trainer"), ("ask", "trap:Strategy")):
        code, _, err = fewlabels(verb, project)
        assert code == 2
        assert refusal(path) in err
    code, out, err = fewlabels("status", project)
    assert code == 0, err
    assert "Next: Run fewlabels train project --allow-code." in out
    assert fewlabels("export", project)[0] == 2  # to train, it would run code
    assert fewlabels("export", project, "--as-is")[0] == 0  # the labels
    assert not has_run()


def test_the_owner_of_a_project_allows_the_code(fewlabels, tmp_path, project, has_run):
    code, _, err = fewlabels("train", project, "--allow-code")
    assert code == 0, err
    assert has_run()
    code, out, err = fewlabels("ask", project, "--allow-code")
    assert code == 0, err
    assert "fewlabels tell project" in out
    assert has_run()
    with Project.open(tmp_path / project, allow_code=["trap:Trainer"]) as opened:
        opened.trainer()
        with pytest.raises(UsageError, match="'trap:Strategy'"):
            opened.ask(anew=True)
    with begin(tmp_path / "mine", trainer=Choice(**FROM_FILES[0])) as mine:
        go_on(mine)
        mine.train()  # whoever makes a project has named its code


def test_an_encoder_of_ones_own_is_not_imported_for_an_export(
    fewlabels, tmp_path, has_run
):
    options = {"encoder": "trap:Encoder", "steps": 2}
    chosen = Choice(name="frozen-supervised", options=options)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        with begin(tmp_path, trainer=chosen) as made:
            go_on(made)
            made.train()
    assert has_run()
    code, _, err = fewlabels("export", "project")
    assert code == 2
    assert refusal("trap:Encoder") in err
    assert not has_run()
    code, _, err = fewlabels("export", "project", "--allow-code")
    assert code == 0, err


def test_a_resumed_run_needs_its_code_named_again(fewlabels, tiny, tmp_path, has_run):
    words = ("run", "digits", "--settings", tiny, "--out", "out")
    code, _, err = fewlabels(*words, "--strategy", "trap:Strategy")
    assert code == 0, err
    assert has_run()
    assert RunFolder(tmp_path / "out").lines()
    code, _, err = fewlabels(*words)
    assert code == 1
    assert "contains a run with different settings: strategy was {'name': 'trap:" in err
    assert not has_run()
