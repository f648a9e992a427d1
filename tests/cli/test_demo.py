"""``fewlabels demo``."""

import json
import re

import pytest
from tests.experiments.bench.little import Here

from fewlabels import jobs, names
from fewlabels.experiments.bench import recipes


def test_the_demo_shows_what_labels_were_worth(fewlabels, tmp_path, monkeypatch):
    whole = recipes.demo_experiment()
    settings = whole.conditions[0].settings.model_copy(update={"budget": 30})
    short = whole.conditions[0].model_copy(update={"settings": settings})
    changes = {"strategies": whole.strategies[::3], "conditions": (short,)}
    short_demo = recipes.demo_experiment(is_fast=True).model_copy(update=changes)
    monkeypatch.setattr(recipes, "demo_experiment", lambda is_fast: short_demo)
    monkeypatch.setattr(jobs, "LocalExecutor", Here)
    code, out, err = fewlabels("demo", "--fast")
    assert code == 0, err
    chosen = whole.subject
    sentence = rf"\d0 labels chosen by {chosen} were worth (over |at most )?\d+ random"
    assert re.search(sentence, " ".join(out.split()))
    page = tmp_path / "fewlabels-demo-fast" / "reports" / "demo" / "index.html"
    assert page.exists()
    assert out.endswith(
        f"Report: {page}\nNext, with a folder of your own images:\n"
        "  fewlabels start FOLDER --classes cat,dog --budget 200\n"
    )
    code, out, err = fewlabels("demo", "--fast", "--json")  # does nothing again
    assert (code, err) == (0, "")
    random, other = json.loads(out)["results"]["blend"]
    assert random["lead"] is None
    assert random["labels"] == other["labels"] == [0, 10, 20, 30]
    difference, low, high = other["lead"]
    assert difference == pytest.approx(other["accuracy"][-1] - random["accuracy"][-1])
    assert low < difference < high
    assert other["worth"].keys() == {"10", "20", "30"}


def test_the_demo_compares_the_default_under_two_learners():
    found = recipes.demo_experiment()
    chosen = [strategy.name for strategy in found.strategies]
    assert chosen[:3] == ["random", "npc", "typiclust"]
    assert chosen[3] == found.subject
    assert names.DEFAULT_STRATEGY in chosen
    assert [one.settings.trainer.name for one in found.conditions] == [
        *("blend", "fixmatch-darp")
    ]
    assert [len(found.seeds_of(one)) for one in found.conditions] == [30, 4]
    short = recipes.demo_experiment(is_fast=True)
    assert len(short.seeds) < len(found.seeds)
    assert short.conditions[1].settings.trainer.options["steps"] == 200
