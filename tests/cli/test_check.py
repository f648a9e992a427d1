import json

import pytest

OWN = "tests.experiments.conformance.broken"


def shown(out):
    """The table's text without its layout."""
    return " ".join(out.split())


def test_a_table_shows_what_passed(fewlabels):
    code, out, err = fewlabels("check", "margin")
    assert (code, err) == (0, "")
    assert "✓  distinct " in out
    assert "✗" not in out
    assert "margin keeps every promise that was checked." in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "said", "broken"),
    [
        ("Repeats", "2 times in a query of", "distinct"),
        ("PicksLabeled", "which are labeled, withheld or not", "candidates only"),
        (
            "IgnoresSeed",
            "Equal inputs and generators gave",
            "seeded, global randomness",
        ),
        ("ChangesLabels", "It changed its input: pool.labels", "inputs untouched"),
    ],
)
def test_the_fault_of_a_broken_strategy_is_named(fewlabels, name, said, broken):
    code, out, _ = fewlabels("check", f"{OWN}:{name}")
    assert code == 1
    assert said in shown(out)
    assert f"{OWN}:{name} breaks" in out
    assert out.rstrip().endswith(f": {broken}.")


@pytest.mark.parametrize(
    ("thing", "words", "said", "broken"),
    [
        ("Trainer", (), "of its own 60 labels right", None),
        (
            "Trainer",
            ("--data", "digits", "--kind", "trainer"),
            "labels, candidates and images stay",
            None,
        ),
        ("LearnsNothing", (), "it learned nothing of them", "learns"),
        ("Sorting", (), "row k belongs to indices[k]", "order"),
        ("Negative", (), "not positive semi-definite", "semi-definite"),
        ("Ambiguous", ("--kind", "kernel"), "float64, finite, 40 items", None),
    ],
)
def test_parts_are_checked_as_well(fewlabels, thing, words, said, broken):
    path = f"tests.experiments.conformance.broken_parts:{thing}"
    code, out, _ = fewlabels("check", path, *words)
    assert code == (0 if broken is None else 1)
    assert said in shown(out)
    if broken is not None:
        assert out.rstrip().endswith(f"breaks 1: {broken}.")


def test_options_are_read_as_in_a_settings_file(fewlabels):
    code, out, _ = fewlabels("check", "npc", "--option", "draws=7", "--quiet")
    assert (code, out) == (0, "")
    code, _, err = fewlabels("check", "npc", "--option", "draws=seven")
    assert code == 2
    assert "is 'seven': Input should be a valid integer" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("npk",), "There is no strategy called 'npk'. Did you mean 'npc'?"),
        (("npc", "--option", "draws"), "'draws' has no value"),
        (("npc", "--option", "draws=["), "'draws=[' cannot be read"),
        (("npc", "--option", "drws=1"), "Did you mean 'draws'?"),
        (("json:loads",), "'json:loads' cannot be made"),
        (("npc", "--kind", "trainer"), "There is no trainer called 'npc'"),
        (("npc", "--kind", "stategy"), "Did you mean 'strategy'?"),
        (("npc", "--data", "digits"), "A strategy is checked on its own pools"),
        (("pathlib:PurePath",), "has the methods of none of these; give kind"),
    ],
)
def test_a_wrong_call_is_a_sentence(fewlabels, words, message):
    code, out, err = fewlabels("check", *words)
    assert (code, out) == (2, "")
    assert message in shown(err)
    assert "Traceback" not in err


def test_what_a_strategy_prints_does_not_spoil_the_json(
    fewlabels, tmp_path, monkeypatch
):
    (tmp_path / "talkative.py").write_text(
        "from fewlabels.strategies import Margin\n"
        "class Talks(Margin):\n"
        "    def select(self, *given, **named):\n"
        "        print('hello')\n"
        "        return super().select(*given, **named)\n"
    )
    monkeypatch.chdir(tmp_path)
    code, out, err = fewlabels("check", "talkative:Talks", "--json")
    assert code == 0
    assert {json.loads(line)["outcome"] for line in out.splitlines()} >= {"passed"}
    assert "hello" in err
