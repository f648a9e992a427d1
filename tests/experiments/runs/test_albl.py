"""A bandit's memory survives a kill: it is in the run folder, nowhere else."""

import os
from itertools import pairwise

import pytest
from tests.experiments.runs import toy
from tests.experiments.runs.test_killed import killed_at, without_a_kill

from fewlabels.experiments.runs import RunFolder, execute
from fewlabels.experiments.settings import Choice

BANDITS = [
    {},
    {"arms": ["random", {"name": "margin", "on": "logits"}]},
]


def settings(options):
    return toy.settings(
        strategy=Choice(name="albl", options=options),
        trainer=Choice(
            name="tests.experiments.runs.toy:Resuming", options={"steps": 6}
        ),
        budget=30,
    )


def states(path):
    lines = RunFolder(path).lines()
    return [line.record["albl"] for line in lines if line.record]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
@pytest.mark.parametrize("options", BANDITS, ids=str)
def test_killed_in_the_middle_the_weights_go_on_the_same(
    tmp_path, monkeypatch, options
):
    pool, seen, expected = without_a_kill(tmp_path / "whole", settings(options))
    whole = states(tmp_path / "whole")
    assert len(whole) == 4
    assert all(one["weights"] != two["weights"] for one, two in pairwise(whole))
    path = tmp_path / "killed"
    assert killed_at(len(seen) // 2, path, pool, monkeypatch, settings(options))
    assert 1 <= len(states(path)) < 4
    list(execute(settings(options), path, pool))
    assert states(path) == whole
    assert RunFolder(path).rounds_file.read_bytes() == expected
