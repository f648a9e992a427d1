"""A project from the shell: results, exit codes, and sentences for mistakes."""

import json

import pytest
from tests.projects.exchange.annotators import fill_csv
from tests.projects.toy import (
    answer,
    begin,
    begun,
    go_on,
    num_events,
    pictures,
    truth,
    write,
)

from fewlabels.projects import Project
from fewlabels.projects.store import Store


@pytest.fixture
def place(tmp_path):
    """A project; commands get its folder as a person would type it."""
    begun(tmp_path).close()
    return "project"


def fill_in(path):
    """Label everything that a query asks about."""
    names = [line.split(",")[1] for line in path.read_text("utf-8").splitlines()[1:]]
    fill_csv(path, [(i, truth(name), None, "ann") for i, name in enumerate(names)])
    return len(names)


def init(fewlabels, *options, classes="even,odd", budget=12):
    words = ("--images", "images", "--classes", classes, "--budget", budget)
    return fewlabels("init", "project", *words, "--trainer", "supervised", *options)


def test_init_says_what_was_found_and_what_comes_next(fewlabels, tmp_path):
    pictures(tmp_path / "images")
    code, out, err = init(fewlabels)
    assert code == 0, err
    assert "24 images, 24 to choose from" in out
    assert "Trainer: supervised." in out
    assert "2 of the 12 labels will be drawn at random and only measure" in out
    assert out.splitlines()[-1] == "Run fewlabels ask project."


def test_a_round_from_the_shell(fewlabels, tmp_path, place):
    code, out, err = fewlabels("ask", place)
    assert code == 0, err
    assert out.splitlines() == [
        "Round 0: 7 images, 3 of them to measure, chosen by random on an untrained "
        "network.",
        "Look at them in project/round-000.html, a page for the browser.",
        "Label them in project/round-000.csv, then: fewlabels tell project "
        "project/round-000.csv",
    ]
    assert "still open" in fewlabels("ask", place)[1]
    code, out, err = fewlabels("ask", place, "--strategy", "margin")
    assert "still open, chosen by random" in out
    assert "This round is still open; --anew chooses again." in err
    assert fill_in(tmp_path / "project/round-000.csv") == 7
    code, out, _ = fewlabels("tell", place, "project/round-000.csv")
    assert (code, out.splitlines()) == (
        0,
        ["7 new labels.", "Run fewlabels train project."],
    )
    words = "Accuracy: not measured, since no model has been trained yet."
    assert words in fewlabels("status", place)[1]
    code, out, err = fewlabels("train", place)
    assert code == 0, err
    assert "You chose the trainer." in err  # said before it begins
    assert out.startswith("model-000: 4 labels, trained in ")
    assert "from 3 images drawn at random" in out
    assert "before, unchanged" in fewlabels("train", place)[1]
    code, out, err = fewlabels("status", place)
    assert code == 0, err
    assert "7 of 12" in out
    assert "3 of 3 labeled" in out
    assert "Next: Run fewlabels ask project." in out
    facts = json.loads(fewlabels("status", place, "--json")[1])
    assert (facts["num_spent"], facts["model"]) == (7, "model-000")
    asked = json.loads(fewlabels("ask", place, "--json", "--out", "q.jsonl")[1])
    assert (asked["round"], asked["model"], len(asked["ids"])) == (1, "model-000", 4)
    assert len((tmp_path / "q.jsonl").read_text("utf-8").splitlines()) == 4
    assert asked["sheet"] == "q.html"
    assert "Guesses of model-000" in (tmp_path / "q.html").read_text("utf-8")


def test_a_page_that_is_there_already_is_not_written_over(fewlabels, tmp_path, place):
    (tmp_path / "q.html").write_text("my thesis")
    code, _, err = fewlabels("ask", place, "--out", "q.csv")
    assert code == 2
    assert "'q.html' is not a contact sheet" in err
    assert (tmp_path / "q.html").read_text() == "my thesis"
    assert not (tmp_path / "q.csv").exists()
    assert fewlabels("ask", place, "--out", "q.json")[0] == 0  # Label Studio shows them


def test_an_export_is_used_on_new_images(fewlabels, tmp_path, place):
    with Project.open(tmp_path / place) as project:
        path = project.write_query(project.ask(), tmp_path / "query.csv")
        fill_in(path)
        project.tell(path)
        project.train()
    code, out, err = fewlabels("export", place, "--out", "out")
    assert code == 0, err
    *listed, message = out.splitlines()
    assert message.startswith("Exported model-000, which learned from 4 labels, and ")
    listed = [tmp_path / line for line in listed]
    assert all(path.is_file() for path in listed)
    assert tmp_path / "out/report.html" in listed
    pictures(tmp_path / "new", range(30, 33))
    code, out, err = fewlabels("predict", "out/model", "new")
    assert code == 0, err
    assert out.startswith("3 images: ")


def test_a_malformed_file_is_refused_with_line_numbers(fewlabels, tmp_path, place):
    fewlabels("ask", place, "--out", "q.csv")
    fill_in(tmp_path / "q.csv")
    good = (tmp_path / "q.csv").read_text("utf-8")
    (tmp_path / "q.csv").write_text(good + "8,99.png,odd\n", "utf-8")
    with Project.open(tmp_path / place) as project:
        before = num_events(project)
        code, out, err = fewlabels("tell", place, "q.csv")
        assert (code, out) == (1, "")
        assert "has 1 fault, and nothing was taken from it:" in err
        assert "or take the good rows alone. --partial does that." in err
        assert "line 9: there is no image '99.png' in this project." in err
        assert num_events(project) == before
        code, out, err = fewlabels("tell", place, "q.csv", "--partial")
        assert code == 0
        assert out.startswith("7 new labels.")
        assert "Left out: line 9: " in err
        assert num_events(project) == before + 7
    told = json.loads(fewlabels("tell", place, "q.csv", "--partial", "--json")[1])
    assert (told["num_new"], told["num_same"], len(told["faults"])) == (0, 7, 1)


MISTAKES = {
    "no project": (["ask", "nothing"], 1, "There is no project in 'nothing'"),
    "no answers": (["tell", "project", "none.csv"], 1, "none.csv"),
    "nothing to train on": (["train", "project"], 2, "0 labels of 0 classes"),
    "unknown strategy": (["ask", "project", "--strategy", "npd"], 2, "npc"),
    "unknown ending": (["ask", "project", "--out", "q.xlsx"], 2, "xlsx"),
    "no query": (["ask", "project", "--size", "0"], 2, "0"),
    "no images": (
        ["init", "p", "--images", "none", "--classes", "a,b", "--budget", "9"],
        1,
        "There is no folder 'none' with images.",
    ),
    "not empty": (
        ["init", "project", "--images", "images", "--classes", "a,b", "--budget", "9"],
        1,
        "is not empty; nothing was touched",
    ),
    "a word that is missing": (
        ["init", "p", "--images", "images"],
        2,
        "Missing option",
    ),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_gets_a_sentence_and_an_exit_code(fewlabels, tmp_path, place, kind):
    words, expected, message = MISTAKES[kind]
    if words[0] == "tell":
        fewlabels("ask", place)
    code, _, err = fewlabels(*words)
    assert code == expected, err
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("options", "expected", "message"),
    [
        ({"budget": 0}, 2, "'budget' is 0"),
        ({"classes": "even"}, 2, "at least two different names"),
        ({"options": ["--audit", 12]}, 2, "takes 12 of 12 labels"),
        ({"options": ["--strategy", "npd"]}, 2, "npc"),
        ({"options": ["--trainer", "supervized"]}, 2, "supervised"),
        ({"options": ["--shares", "0.4"]}, 2, "'even', 'unknown' or such as 2,1"),
        ({"options": ["--shares", "even"]}, 2, "has no use for class shares"),
    ],
    ids=["budget", "one class", "audit", "strategy", "trainer", "number", "shares"],
)
def test_what_cannot_be_begun(fewlabels, tmp_path, options, expected, message):
    pictures(tmp_path / "images")
    extra = options.pop("options", [])
    code, _, err = init(fewlabels, *extra, **options)
    assert code == expected, err
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "project").exists()


@pytest.mark.parametrize("name", ["project.json", "labels.sqlite"])
def test_a_damaged_project(fewlabels, tmp_path, place, name):
    for path in (tmp_path / place).glob("*.sqlite-*"):
        path.unlink()
    (tmp_path / place / name).write_bytes(b"nonsense" * 999)
    code, _, err = fewlabels("status", place)
    assert code == 1, err
    assert name in err
    assert "Traceback" not in err


def test_images_that_are_gone(fewlabels, tmp_path, place):
    (tmp_path / "images").rename(tmp_path / "elsewhere")
    code, _, err = fewlabels("ask", place)
    assert code == 1, err
    assert "images" in err


def test_a_project_at_work(fewlabels, tmp_path, place):
    with Project.open(tmp_path / place) as project:
        asked = project.ask()
        file = project.write_query(asked, tmp_path / "q.csv")
        fill_in(file)
        with project.alone(".training.lock", "training"):
            code, _, err = fewlabels("train", place)
            assert code == 1
            assert "Another process is training in 'project'; wait until" in err
            assert fewlabels("ask", place, "--out", "open.csv")[0] == 0
            assert fewlabels("tell", place, "q.csv")[0] == 0
            assert fewlabels("status", place)[0] == 0


def test_skips_are_counted_in_words(fewlabels, tmp_path, place):
    fewlabels("ask", place, "--json")
    with Project.open(tmp_path / place) as project:
        first, second, *_ = (
            project.snapshot().items[project.snapshot().positions[one.item]].path
            for one in project.ask().items
        )
    write(tmp_path / "a.csv", [(first, "", "skip"), (second,)])
    _, out, _ = fewlabels("tell", place, "a.csv", "--annotator", "ann")
    assert out.startswith("0 new labels, 1 skipped or unsure, 1 left blank.")


def test_an_export_that_would_lack_labels_or_the_model_is_refused(
    fewlabels, tmp_path, place
):
    def label():
        asked = json.loads(fewlabels("ask", place, "--json")[1])
        fill_in(tmp_path / asked["file"])
        assert fewlabels("tell", place, asked["file"])[0] == 0

    label()
    code, _, err = fewlabels("export", place)
    assert (code, "There is no model yet" in err) == (2, True)
    assert f"Run fewlabels train {place}, or add --as-is." in err
    fewlabels("train", place)
    assert fewlabels("export", place)[0] == 0
    label()
    code, _, err = fewlabels("export", place)
    assert (code, "not learned from all labels" in err) == (2, True)
    code, out, err = fewlabels("export", place, "--as-is")
    assert code == 0
    assert "Exported model-000, which learned from 4 labels, and 11 labels" in out
    assert "model-000 has not learned from the latest 4 labels." in err


def test_a_network_from_scratch_is_trained_where_somebody_asks(
    fewlabels, tmp_path, place
):
    asked = json.loads(fewlabels("ask", place, "--json")[1])
    fill_in(tmp_path / asked["file"])
    fewlabels("tell", place, asked["file"])
    code, out, err = fewlabels("train", place, "--trainer", "spreading")
    assert code == 0, err
    assert "Expected: " in err
    assert "model-000: 4 labels, trained in" in out
    with Project.open(tmp_path / place) as project:
        assert project.settings.trainer.name == "supervised"
        assert project.records()[-1].trainer == "spreading"
    assert fewlabels("train", place, "--trainer", "flexmach")[0] == 2


def test_skip_takes_a_label_back_and_an_empty_row_does_not(fewlabels, tmp_path, place):
    fewlabels("ask", place)
    file = tmp_path / "project/round-000.csv"
    fill_in(file)
    fewlabels("tell", place, file, "--annotator", "ann")
    name = file.read_text("utf-8").splitlines()[1].split(",")[1]
    for row, left in (((name, ""), 7), ((name, "", "skip"), 6)):
        write(tmp_path / "a.csv", [row])
        assert fewlabels("tell", place, "a.csv", "--annotator", "ann")[0] == 0
        status = json.loads(fewlabels("status", place, "--json")[1])
        assert status["num_spent"] == left


def test_a_contradiction_is_said_with_what_becomes_of_the_image(
    fewlabels, tmp_path, place
):
    fewlabels("ask", place)
    file = tmp_path / "project/round-000.csv"
    fill_in(file)
    fewlabels("tell", place, file)
    names = [line.split(",")[1] for line in file.read_text("utf-8").splitlines()[1:4]]
    wrong = {"even": "odd", "odd": "even"}

    def tell(num_wrong, who):
        rows = [
            (name, wrong[truth(name)] if i < num_wrong else truth(name))
            for i, name in enumerate(names)
        ]
        write(tmp_path / "a.csv", rows)
        return fewlabels("tell", place, "a.csv", "--annotator", who)[1].splitlines()[1]

    out = "count once a majority agrees."
    assert tell(1, "bob") == f"Others disagree about 1 image; 1 {out}"
    assert tell(2, "eve") == f"Others disagree about 2 images; 0 {out}"
    assert tell(3, "dan") == f"Others disagree about 3 images; 1 {out}"


def test_train_says_what_to_keep_in_mind(fewlabels, tmp_path, place):
    fewlabels("ask", place)
    file = tmp_path / "project/round-000.csv"
    fill_in(file)
    fewlabels("tell", place, file)
    gone = file.read_text("utf-8").splitlines()[1].split(",")[1]
    (tmp_path / "images" / gone).unlink()
    code, out, err = fewlabels("train", place)
    assert code == 0, err
    assert "Note: The files of 1 labeled image are gone." in out


def test_a_forgotten_class_is_added_and_renamed_from_the_shell(fewlabels, place):
    add = ("classes", "add", place)
    assert fewlabels(*add, "neither", "both") == (
        0,
        "Classes: even, odd, neither, both.\n",
        "",
    )
    code, out, _ = fewlabels("classes", "rename", place, "both", "mixed")
    assert (code, out) == (0, "Classes: even, odd, neither, mixed.\n")
    code, out, err = fewlabels(*add, "Odd")
    assert (code, out) == (2, "")
    assert "The class 'Odd' was not taken: 'odd' is a class already." in err
    code, _, err = fewlabels("classes", "rename", place, "ood", "x")
    assert code == 2
    assert "Did you mean 'odd'?" in err
    assert fewlabels("classes", "add", "nothing", "x")[0] == 1


def test_training_from_inside_the_folder_finds_what_was_trained(
    fewlabels, tmp_path, monkeypatch
):
    """Where the project lies, seen from here, decides nothing."""
    head = {"encoder": "tests.projects.toy:ENCODER", "steps": 5}
    with begin(tmp_path, trainer={"name": "frozen-supervised", **head}) as project:
        go_on(project)
    code, out, err = fewlabels("train", "project", "--allow-code")
    assert code == 0, err
    assert out.startswith("model-000: 4 labels, trained in ")
    monkeypatch.chdir(tmp_path / "project")
    code, out, err = fewlabels("train", ".", "--allow-code")
    assert code == 0, err
    assert "before, unchanged" in out
    assert not (tmp_path / "project/models/model-001").exists()


def test_a_backup_is_a_store_of_that_moment(fewlabels, tmp_path, place):
    with Project.open(tmp_path / place) as project:
        answer(project, project.ask())
        labels = project.store.labels()
        code, out, err = fewlabels("backup", place, "copy.sqlite")
        assert (code, out) == (0, f"copy.sqlite: {num_events(project)} events.\n"), err
        project.undo(annotator="ann")
    with Store.open(tmp_path / "copy.sqlite", create=False) as copy:
        assert copy.labels() == labels
    code, _, err = fewlabels("backup", place, "copy.sqlite")
    assert code == 2
    assert "'copy.sqlite' exists already. Give the backup a new name" in err


def test_the_next_step_is_a_word_for_programs_and_a_command_for_people(
    fewlabels, tmp_path, place
):
    def steps():
        (*_, last) = fewlabels("status", place)[1].splitlines()
        word = json.loads(fewlabels("status", place, "--json")[1])["next_step"]
        return word, last.removeprefix("Next: ")

    assert steps() == ("ask", "Run fewlabels ask project.")
    with Project.open(tmp_path / place) as project:
        asked = project.ask()
        word, sentence = steps()
        assert word == "tell"
        assert sentence.startswith(f"Label the {len(asked.items)} open images and run")
        answer(project, asked)
    assert steps() == ("train", "Run fewlabels train project.")
