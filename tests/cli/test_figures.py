"""What the command line keeps of trainings as they go on."""

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fewlabels import files


def told(folder):
    """Part and step of every line that says a loss, and of every accuracy."""
    lines = files.read_entries(folder / "training.jsonl")
    assert {line["schema_version"] for line in lines} == {3}
    assert {line["task"] for line in lines if "loss" in line} == {"Training"}
    return [
        [(line["part"], line["step"]) for line in lines if name in line]
        for name in ("loss", "accuracy")
    ]


def test_a_run_writes_the_figures_of_its_trainings(fewlabels, tiny, tmp_path):
    words = ("run", "digits", "--settings", tiny, "--quiet", "--out")
    assert fewlabels(*words, "plain")[0] == 0
    assert fewlabels(*words, "curves", "--tensorboard")[0] == 0
    expected = [("round-000", 8), ("round-001", 8)]
    for name in ("plain", "curves"):
        losses, accuracies = told(tmp_path / name)
        assert losses[-1] == expected[-1]
        assert accuracies == expected
    plain, curves = tmp_path / "plain", tmp_path / "curves"
    assert not (plain / "tensorboard").exists()
    for part, _ in expected:
        found = EventAccumulator(str(curves / "tensorboard" / part)).Reload()
        assert {"Training/loss", "Training/accuracy"} <= set(found.Tags()["scalars"])
    for name in ("run.json", "rounds.jsonl"):
        assert (plain / name).read_bytes() == (curves / name).read_bytes()


def test_a_run_goes_on_with_or_without_curves_and_with_a_torn_line(
    fewlabels, tiny, tmp_path
):
    words = ("run", "digits", "--settings", tiny, "--quiet", "--out", "r")
    assert fewlabels(*words, "--tensorboard")[0] == 0
    whole = (tmp_path / "r" / "rounds.jsonl").read_bytes()
    first = whole[: whole.index(b"\n") + 1]
    for more in ((), ("--tensorboard",)):
        (tmp_path / "r" / "rounds.jsonl").write_bytes(first)
        with (tmp_path / "r" / "training.jsonl").open("ab") as file:
            file.write(b'{"schema_version": 3, "ti')
        code, _, err = fewlabels(*words, *more)
        assert code == 0, err
        assert (tmp_path / "r" / "rounds.jsonl").read_bytes() == whole
        assert told(tmp_path / "r")[1][-1] == ("round-001", 8)


def test_a_missing_tensorboard_is_a_sentence(fewlabels, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("fewlabels.names.find_spec", lambda name: None)
    words = ("run", "digits", "--settings", tiny, "--tensorboard", "--out", "r")
    code, _, err = fewlabels(*words)
    assert code == 2
    assert "pip install 'fewlabels[track]'" in err
    assert not (tmp_path / "r").exists()
