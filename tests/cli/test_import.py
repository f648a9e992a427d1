"""``fewlabels import``: what it prints, refuses, and takes back."""

import pytest
from tests.projects.toy import begun, num_events, truth, write

from fewlabels.projects import Project


@pytest.fixture
def place(tmp_path):
    begun(tmp_path).close()
    return "project"


def table(tmp_path, *more):
    names = [f"{number:02d}.png" for number in range(10)]
    rows = [(name, truth(name)) for name in names]
    return write(tmp_path / "labels.csv", [*rows, *more])


def test_labels_are_imported_and_taken_back(fewlabels, tmp_path, place):
    file = table(tmp_path)
    code, out, err = fewlabels("import", place, file)
    assert code == 0, err
    assert out.splitlines() == [
        "10 labels imported.",
        "even 5, odd 5.",
        "File names are in column 'file_name', classes in 'label'.",
        "To undo this import: fewlabels import project --undo",
        "Run fewlabels train project.",
    ]
    shown = fewlabels("status", place)[1]
    assert "10 labels, which cost no budget" in shown
    assert "0 of 12" in shown
    assert "10 known already" in fewlabels("import", place, file)[1]
    code, out, err = fewlabels("import", place, "--undo")
    assert (code, out.splitlines()[0]) == (0, "10 imported labels taken back.")
    assert "imported" not in fewlabels("status", place)[1]
    code, _, err = fewlabels("import", place, "--undo")
    assert code == 2
    assert "No imported label is in force" in err


def test_faults_are_listed_and_nothing_is_half_done(fewlabels, tmp_path, place):
    bad = [(f"{number}.png", "odd") for number in range(100, 124)]
    file = table(tmp_path, *bad, ("11.png", "zebra"))
    with Project.open(tmp_path / place) as project:
        before = num_events(project)
    code, _, err = fewlabels("import", place, file)
    assert code == 1
    assert "has 25 faults, and nothing was taken from it" in err
    assert "line 12: there is no image '100.png'" in err
    assert "and 5 more" in err
    assert "--partial does that; --add-classes adds missing classes." in err
    with Project.open(tmp_path / place) as project:
        assert num_events(project) == before
    code, out, err = fewlabels("import", place, file, "--partial", "--add-classes")
    assert code == 0
    assert out.startswith("11 labels imported, 24 faulty.")
    assert "New classes: zebra." in out
    assert "Faulty: and 4 more." in err
    out = fewlabels("import", place, "--undo")[1]
    assert out.startswith(
        "11 imported labels taken back. Classes no longer in use: zebra."
    )


def test_a_call_that_cannot_be_right(fewlabels, tmp_path, place):
    for words in ((), (table(tmp_path), "--undo")):
        code, _, err = fewlabels("import", place, *words)
        assert code == 2
        assert "either a file or folder to import, or --undo" in err
