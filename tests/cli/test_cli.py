import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from fewlabels import cli, files
from fewlabels.cli.app import app
from fewlabels.experiments.runs import RunFolder


def test_a_run_prints_its_rounds_and_resumes(fewlabels, tiny, tmp_path):
    words = ("run", "digits", "--settings", tiny, "--strategy", "random", "--out", "r")
    code, out, err = fewlabels(*words)
    assert code == 0, err
    assert "10 labels   accuracy" in out
    assert "15 labels   accuracy" in out
    assert "Report: r/report.html" in out
    assert (tmp_path / "r" / "report.html").stat().st_size > 10_000
    before = (tmp_path / "r" / "rounds.jsonl").read_bytes()
    code, again, _ = fewlabels(*words)
    assert (code, again) == (0, out)
    assert (tmp_path / "r" / "rounds.jsonl").read_bytes() == before
    code, _, err = fewlabels(*words, "--seed", "1")
    assert code == 1
    assert "contains a run with different settings: seed was 0 and is now 1" in err


def test_a_run_on_vectors(fewlabels, tmp_path):
    labels = np.arange(60) % 3
    rows = np.random.default_rng(0).normal(size=(60, 4)) + 5 * np.eye(3, 4)[labels]
    train, test = {"x_train": rows, "y_train": labels}, {"x_test": rows + 0.1}
    np.savez(tmp_path / "rows.npz", **train, **test, y_test=labels)
    trainer = {"name": "supervised", "network": "linear", "steps": 30}
    settings = {"trainer": trainer, "start": 3, "query": 3, "budget": 6}
    (tmp_path / "rows.yaml").write_text(json.dumps(settings))
    words = ("run", "rows.npz", "--settings", "rows.yaml", "--out", "r")
    code, out, err = fewlabels(*words)
    assert code == 0, err
    assert "6 labels   accuracy" in out
    assert fewlabels(*words)[:2] == (0, out)


def test_json_and_quiet(fewlabels, tiny):
    words = ("run", "digits", "--settings", tiny, "--out", "r")
    code, out, err = fewlabels(*words, "--json")
    assert code == 0, err
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["num_labeled"] for line in lines] == [10, 15]
    assert err == ""
    assert fewlabels(*words, "--quiet") == (0, "", "")


def savez(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_select_from_the_shell(fewlabels, tmp_path):
    rows = np.random.default_rng(0).normal(size=(30, 8))
    file = savez(tmp_path / "a.npz", features=rows, labeled=np.arange(4))
    code, out, _ = fewlabels("select", file, "--size", 6)
    assert code == 0
    chosen = [int(line) for line in out.split()]
    assert len(set(chosen)) == 6
    assert min(chosen) >= 4
    code, out, _ = fewlabels("select", file, "--size", 6, "--json")
    assert json.loads(out) == {"strategy": "variance-reduction", "indices": chosen}


def test_select_with_options_of_the_strategy(fewlabels, tmp_path):
    file = savez(tmp_path / "a.npz", features=np.eye(30), logits=9 * np.eye(30))
    npc = ("select", file, "--size", 2, "--strategy", "npc", "--option")
    code, _, _ = fewlabels(*npc, "method=greedy")
    assert code == 0
    code, _, err = fewlabels(*npc, "metod=greedy")
    assert (code, "metod" in err) == (2, True)
    code, _, err = fewlabels(*npc, "method")
    assert (code, "write name=value" in err) == (2, True)


ROWS = np.ones((5, 3))


@pytest.mark.parametrize(
    ("arrays", "words", "code", "message"),
    [
        ({"features": ROWS * np.nan}, (), 1, "features holds nan at (0, 0)"),
        ({"features": ROWS}, ("--size", 6), 2, "there are 5 candidates"),
        (
            {"features": ROWS, "logits": ROWS[:2]},
            (),
            2,
            "logits has 2 entries; give 5",
        ),
        (
            {"features": ROWS, "weights": ROWS},
            (),
            2,
            "no array of 'a.npz' called 'weights'",
        ),
        ({"rows": ROWS}, (), 2, "called 'rows'"),
        ({"logits": ROWS}, (), 1, "has no 'features', only ['logits']"),
        ({"features": ROWS}, ("--strategy", "margin"), 2, "There are 0 logits"),
        ({"features": np.array([{"a": 1}], dtype=object)}, (), 1, "plain arrays"),
    ],
)
def test_wrong_arrays_are_a_sentence(fewlabels, tmp_path, arrays, words, code, message):
    file = savez(tmp_path / "a.npz", **arrays)
    size = () if "--size" in words else ("--size", 2)
    seen, out, err = fewlabels("select", file, *size, *words)
    assert (seen, out) == (code, "")
    assert message in " ".join(err.split())
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("run", "digitz"), 2, "Did you mean 'digits'"),
        (("run", "digits", "--strategy", "nbc"), 2, "Did you mean 'npc'"),
        (("run", "digits", "--trainer", "fixmach"), 2, "Did you mean 'fixmatch'"),
        (("run", "digits", "--strategy", "pathlib:Path"), 2, "is not a strategy"),
        (("run", "digits", "--budget", 5), 2, "query 20 and budget 5; start"),
        (
            ("run", "digits", "--budget", 5000),
            2,
            "budget is 5000; 1297 items",
        ),
        (("run", "digits", "--query", 99), 2, "query 99 and budget 50; start"),
        (("run", "digits", "--threads", 0), 2, "threads is 0"),
        (("run", "digits", "--threads", 10**6), 2, "at most 1024"),
        (("run", ""), 2, "The data have an empty name"),
        (("run", "a" * 5000), 2, "There is no data set called"),
        (("run",), 2, "The setting 'data' is missing"),
        (("run", "digits", "--settings", "no.yaml"), 2, "could not be read"),
        (("run", "digits", "--out", "foreign"), 1, "contains 'letter.txt'"),
        (("demo", "--out", "foreign"), 1, "contains 'letter.txt'"),
        (
            ("select", "no.npz"),
            1,
            "Error: 'no.npz' does not exist; give an .npz file that has 'features', or "
            "a folder of shards.",
        ),
    ],
)
def test_a_mistake_is_a_sentence_and_leaves_nothing(
    fewlabels, tmp_path, words, code, message
):
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "letter.txt").write_text("dear reader")
    seen, out, err = fewlabels(*words)
    assert seen == code
    assert message in " ".join(err.split())
    assert "Traceback" not in out + err
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["foreign", "letter.txt"]


LAUGHS = "a0: &a0 [ha, ha]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(40)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bugdet: 50", "no setting called 'bugdet'. Did you mean 'budget'"),
        ("budget: many", "The setting 'budget' is 'many': input should be a valid"),
        ("- 1", "holds a list. Give a YAML file with one 'name: value' per line"),
        ("a: [", "Give a YAML file with one 'name: value' per line"),
        ("trainer: {name: fixmatch, stepz: 3}", "Did you mean 'steps'"),
        (
            "data: {name: digits, size: big}",
            "The setting 'size' is 'big': input should",
        ),
        ("data: {name: digits, noize: 3}", "Did you mean 'noise'"),
        ("[" * 600, "could not be read: it is nested too deeply. Give a YAML file"),
        ("a: " + "[" * 60 + "]" * 60, "is nested deeper than 50 levels"),
        (LAUGHS, "could not be read: it holds more than 100,000 values"),
        ("a: &a [*a]", "could not be read: it holds more than 100,000 values, or is"),
        ("a: 1\n" * 300_000, "could not be read: 1,500,000 bytes; at most 1,048,576"),
        ("budget: 1" + "0" * 5000, "could not be read"),
    ],
)
def test_a_wrong_settings_file_is_a_sentence(fewlabels, tmp_path, text, message):
    (tmp_path / "s.yaml").write_text(text)
    named = () if "data:" in text else ("digits",)
    code, _, err = fewlabels("run", *named, "--settings", "s.yaml")
    assert code == 2
    assert message in " ".join(err.split())


def test_a_full_disk_is_a_sentence_and_the_run_goes_on_later(
    fewlabels, tiny, tmp_path, monkeypatch
):
    words = ("run", "digits", "--settings", tiny, "--out", "r", "--quiet")
    flush = files._flush

    def full(path):
        if path.name.startswith(".rounds.jsonl.") and (tmp_path / "full").exists():
            raise OSError(28, "No space left on device")
        flush(path)

    monkeypatch.setattr(files, "_flush", full)
    (tmp_path / "full").touch()
    code, _, err = fewlabels(*words)
    assert code == 1
    assert "The disk is full" in err
    (tmp_path / "full").unlink()
    assert fewlabels(*words)[0] == 0
    assert len(RunFolder(tmp_path / "r").lines()) == 2


def interrupted(folder):
    """Run a command as a shell would, with what it says in a file."""
    os.chdir(folder)
    sys.argv[:] = ["fewlabels", "run", "digits", "--out", "r"]
    with Path("said.txt").open("w") as file:
        os.dup2(file.fileno(), 2)
        sys.stdout = sys.stderr = file
        cli.main()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_ctrl_c_is_a_sentence_and_loses_nothing(tmp_path):
    process = get_context("fork").Process(target=interrupted, args=(tmp_path,))
    process.start()
    limit = time.monotonic() + 60
    while not (tmp_path / "r" / "training.jsonl").exists() and time.monotonic() < limit:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    process.join(60)
    err = (tmp_path / "said.txt").read_text("utf-8")
    assert process.exitcode == 1
    assert "Stopped. Finished work is kept; run the same command to resume." in err
    assert "Traceback" not in err
    assert list((tmp_path / "r").rglob("state.safetensors"))
    assert (
        json.loads((tmp_path / "r" / "run.json").read_text())["settings"]["seed"] == 0
    )


def test_a_folder_of_images_with_broken_ones_runs_and_resumes(
    fewlabels, tiny, tmp_path
):
    chance = np.random.default_rng(0)
    for number in range(60):
        place = tmp_path / "images" / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        pixels = chance.integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"{number:02d}.png")
    (tmp_path / "images" / "a" / "torn.png").write_bytes(b"\x89PNG but no more")
    words = ("run", "images", "--settings", tiny, "--out", "r")
    code, _, err = fewlabels(*words)
    assert code == 0, err
    assert "torn.png" in err
    folder = RunFolder(tmp_path / "r")
    line = folder.lines()[0]
    truth = {name: 0 if name.startswith("a/") else 1 for name in line.ids}
    assert dict(zip(line.ids, line.labels, strict=True)) == truth
    start = folder.start()
    unasked = next(
        file
        for file in sorted((tmp_path / "images").rglob("*.png"))
        if not any(
            name.startswith(f"{file.parent.name}/{file.name}@") for name in start
        )
    )
    unasked.unlink()
    (tmp_path / "r" / "rounds.jsonl").unlink()
    code, _, err = fewlabels(*words)
    assert code == 0, err
    assert "The data changed since the run" in " ".join(err.split())
    for name, label in start.items():
        assert label == (0 if name.startswith("a/") else 1)
    assert folder.start() == start


def test_names_that_split_lines_or_look_like_markup_survive(fewlabels, tiny, tmp_path):
    chance = np.random.default_rng(1)
    for number in range(40):
        place = tmp_path / "images" / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        pixels = chance.integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"x\u2028y\u0085{number}.png")
    words = ("run", "images", "--settings", tiny, "--out", "a[/red]b")
    for _ in range(2):
        code, out, err = fewlabels(*words)
        assert code == 0, err
        assert "Report: a[/red]b/report.html" in out


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc to see handlers")
@pytest.mark.parametrize("delay", [0.05, 0.6])
def test_ctrl_c_while_still_loading_is_a_sentence(tmp_path, delay):
    process = subprocess.Popen(
        [sys.executable, "-c", "from fewlabels.cli import main; main()", "demo"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    limit = time.monotonic() + 20
    while time.monotonic() < limit:  # until the handler is there
        status = (Path("/proc") / str(process.pid) / "status").read_text()
        caught = next(x for x in status.splitlines() if x.startswith("SigCgt"))
        if int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
            break
        time.sleep(0.01)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Stopped." in err
    assert "Traceback" not in err


def test_help_and_version():
    runner = CliRunner()
    assert "fewlabels 0." in runner.invoke(app, ["--version"]).output
    told = " ".join(runner.invoke(app, ["run", "--help"]).output.split())
    assert "[default: variance-reduction]" in told
    for command in ("run", "demo", "select", "diagnose"):
        assert runner.invoke(app, [command, "--help"]).exit_code == 0
