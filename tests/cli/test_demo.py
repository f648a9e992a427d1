"""``fewlabels demo``."""

import json

import pytest
from tests.bench.little import Here

from fewlabels import bench
from fewlabels.bench.recipes import cpu
from fewlabels.cli.demo import _FAST_STEPS, _shortened


def test_the_demo_shows_leads_over_random_labels(fewlabels, tmp_path, monkeypatch):
    whole = cpu.demo()
    small = {"strategies": whole.strategies[::3], "conditions": whole.conditions[1:]}
    monkeypatch.setattr(cpu, "demo", lambda: whole.model_copy(update=small))
    monkeypatch.setattr(bench, "LocalEngine", Here)
    code, out, err = fewlabels("demo", "--fast")
    assert code == 0, err
    for word in ("random", "outward", "spreading", "95 % interval"):
        assert word in " ".join(out.split())
    page = tmp_path / "fewlabels-demo-fast" / "reports" / "demo" / "index.html"
    assert f"Report: {page}" in out
    assert page.exists()
    code, out, err = fewlabels("demo", "--fast", "--json")  # does nothing again
    assert (code, err) == (0, "")
    random, outward = json.loads(out)["results"]["spreading"]
    assert random["lead"] is None
    low, high = outward["lead"][1:]
    assert outward["lead"][0] == pytest.approx(outward["accuracy"] - random["accuracy"])
    assert low < outward["lead"][0] < high


def test_the_demo_asks_two_learners_about_four_strategies():
    found = cpu.demo()
    assert [one.name for one in found.strategies] == [
        *("random", "npc", "typiclust", "outward")
    ]
    assert [one.settings.trainer.name for one in found.conditions] == [
        *("fixmatch-darp", "spreading")
    ]
    short = _shortened(found)
    assert len(short.seeds) < len(found.seeds)
    assert short.conditions[0].settings.trainer.options["steps"] == _FAST_STEPS
