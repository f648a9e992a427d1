"""What is asked comes back as it was answered, in every format."""

import json
import re
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.projects.exchange.annotators import EXTENSION, FILL, fill_csv

from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.files import replace_text
from fewlabels.projects.exchange import (
    IMAGE_ADDRESS,
    Answer,
    AskedItem,
    query_files,
    read_answers,
)
from fewlabels.projects.store import Kind

CLASSES = ["cat", "dog", "-1", 'ümlaut, "quoted" <&>']


def query(names, **options):
    return [
        AskedItem(
            id=f"{place:04d}e{place:04d}",
            path=name,
            number=place + 1,
            round=3,
            **options,
        )
        for place, name in enumerate(names)
    ]


def write_query(path, asked, classes):
    for file, text in query_files(path, asked, classes, IMAGE_ADDRESS).items():
        replace_text(file, text)


def told(parsed):
    return [
        (
            one.id,
            one.label,
            one.kind is Kind.SKIP,
            one.kind is Kind.UNSURE or "unsure" in one.payload,
            one.annotator,
        )
        for one in parsed.answers
    ]


def letters():
    """Everything that a file name can hold and UTF-8 can write."""
    return st.characters(exclude_characters="\0/", exclude_categories=["Cs"])


names = st.lists(
    st.text(letters(), min_size=1, max_size=12).filter(lambda n: n.strip() not in "..")
    .map(lambda name: f"{name}.png"),
    min_size=1,
    max_size=6,
    unique=True,
)  # fmt: skip
ODD = [
    "a,b.png",
    'say "x".png',
    "new\nline.png",
    "cr\rlf\r\n.png",
    "=1+1.png",
    " x .png",
]
ODD += [
    "'=2.png",
    "''.png",
    "-3.png",
    "tab\t.png",
    "\ufeffmark.png",
    "a\\b.png",
    "é.png",
]


@pytest.mark.parametrize("kind", FILL)
@given(names=names, seed=st.randoms(use_true_random=False))
@example(names=ODD, seed=None)
def test_names_labels_skips_and_annotators_come_back(
    tmp_path_factory, kind, names, seed
):
    path = tmp_path_factory.mktemp("q") / f"query.{EXTENSION[kind]}"
    asked = query(names)
    write_query(path, asked, CLASSES)
    said = []
    for place in range(len(names)):
        label = CLASSES[place % 4]
        said.append((place, label, None, "ann@example.org"))
        said.append((place, None, "skip", 'Bö, "B"'))
    if seed is not None and kind != "label-studio":
        seed.shuffle(said)
    FILL[kind](path, said)
    items = {item.path: item.id for item in asked}
    parsed = read_answers(path, items=items, asked=set(items.values()), classes=CLASSES)
    expected = [
        (asked[place].id, label, status == "skip", False, who)
        for place, label, status, who in said
    ]
    assert told(parsed) == expected


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("by", ["name", "id"])
def test_name_or_id_alone_is_enough(tmp_path, kind, by):
    asked = query(ODD)
    path = tmp_path / f"query.{EXTENSION[kind]}"
    write_query(path, asked, CLASSES)
    FILL[kind](path, [(place, "cat", "unsure", "a") for place in range(len(ODD))])
    items = {item.path: item.id for item in asked}
    if by == "id":  # every file was moved since
        items = {f"moved/{name}": one for name, one in items.items()}
    else:  # the column with the identifiers is of no use
        text = path.read_bytes().decode("utf-8")
        cleared = re.sub(r"id:\w+|(?<=\"id\": )\"\w+\"", "null" * (kind != "csv"), text)
        path.write_bytes(cleared.encode())
    parsed = read_answers(path, items=items, asked=None, classes=CLASSES)
    assert told(parsed) == [(item.id, "cat", False, True, "a") for item in asked]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_are_understood(tmp_path, separator):
    path = tmp_path / "query.csv"
    asked = query(ODD)
    write_query(path, asked, CLASSES)
    fill_csv(path, [(3, "dog", None, "a")], separator)
    items = {item.path: item.id for item in asked}
    parsed = read_answers(path, items=items, asked=None, classes=CLASSES)
    assert told(parsed) == [(asked[3].id, "dog", False, False, "a")]


@pytest.mark.parametrize("kind", FILL)
def test_a_query_that_nobody_filled_in_has_no_answers_and_no_faults(tmp_path, kind):
    path = tmp_path / f"query.{EXTENSION[kind]}"
    asked = query(ODD, probabilities=[0.1, 0.2, 0.3, 0.4], model="m1")
    write_query(path, asked, CLASSES)
    items = {item.path: item.id for item in asked}
    parsed = read_answers(path, items=items, asked=None, classes=CLASSES)
    assert parsed.answers == ()
    assert parsed.num_unanswered == len(ODD)


def test_a_table_shows_number_and_suggestion_and_no_formula(tmp_path):
    path = tmp_path / "query.csv"
    asked = query(["=b.png", "a.png"], probabilities=[0.1, 0.2, 0.6, 0.1], model="npc")
    write_query(path, asked[::-1], CLASSES)
    assert path.read_text("utf-8").splitlines() == [
        "number,file_name,label,status,annotator,suggestion,confidence,round,model,id",
        "1,'=b.png,,,,'-1,0.6000,3,npc,id:0000e0000",
        "2,a.png,,,,'-1,0.6000,3,npc,id:0001e0001",
    ]


def test_only_a_table_with_other_letters_begins_with_a_mark(tmp_path):
    write_query(tmp_path / "a.csv", query(["a.png"]), ["cat"])
    write_query(tmp_path / "b.csv", query(["ä.png"]), ["cat"])
    assert (tmp_path / "a.csv").read_bytes().startswith(b"number")
    assert (tmp_path / "b.csv").read_bytes().startswith(b"\xef\xbb\xbfnumber")


# ------------------------------------------------------------------- Label Studio


def test_tasks_have_label_studios_form(tmp_path):
    path = tmp_path / "tasks.json"
    asked = query(["a b.png", "c.png"], probabilities=[0.7, 0.1, 0.1, 0.1], model="npc")
    write_query(path, asked, CLASSES)
    tasks = json.loads(path.read_text("utf-8"))
    assert tasks[0] == {
        "data": {
            "image": "/data/local-files/?d=a%20b.png",
            "file_name": "a b.png",
            "id": "0000e0000",
            "number": 1,
            "round": 3,
            "model": "npc",
            "probabilities": dict(zip(CLASSES, [0.7, 0.1, 0.1, 0.1], strict=True)),
        },
        "predictions": [
            {
                "model_version": "npc-r3",
                "score": 0.5,
                "result": [
                    {
                        "from_name": "choice",
                        "to_name": "image",
                        "type": "choices",
                        "value": {"choices": ["cat"]},
                    }
                ],
            }
        ],
    }


def test_the_lowest_score_is_asked_first_also_without_a_model(tmp_path):
    path = tmp_path / "tasks.json"
    write_query(path, query(["a.png", "b.png", "c.png"])[::-1], CLASSES)
    tasks = json.loads(path.read_text("utf-8"))
    scores = [task["predictions"][0]["score"] for task in tasks]
    assert [task["data"]["number"] for task in tasks] == [1, 2, 3]
    assert scores == sorted(scores)
    assert len(set(scores)) == 3
    assert tasks[0]["predictions"][0]["result"] == []


def test_the_configuration_is_beside_the_tasks(tmp_path):
    path = tmp_path / "tasks.json"
    write_query(path, query(["a.png"]), CLASSES)
    view = ElementTree.fromstring((tmp_path / "tasks.config.xml").read_text("utf-8"))
    assert view.find("Image").attrib == {"name": "image", "value": "$image"}
    assert view.find("Choices").attrib == {"name": "choice", "toName": "image"}
    assert [one.get("value") for one in view.iter("Choice")] == CLASSES


EXPORT = """[
 {"id": 7, "data": {"image": "/data/local-files/?d=cats/a%2Bb%20c.png"},
  "annotations": [{"id": 1, "completed_by": 4, "was_cancelled": false,
    "lead_time": 3.25, "created_at": "2026-01-31T12:00:00.5Z",
    "result": [{"id": "q", "from_name": "choice", "to_name": "image", "type": "choices",
      "origin": "manual", "value": {"choices": ["dog"]}}]}],
  "predictions": []},
 {"id": 8, "data": {"image": "/data/local-files/?d=cats/d.png"},
  "annotations": [{"id": 2, "completed_by": {"id": 5, "email": "b@example.org"},
    "was_cancelled": true, "lead_time": 1.0, "result": []}]},
 {"id": 9, "data": {"image": "/data/local-files/?d=cats/e.png"}, "annotations": []}
]
"""


def test_an_export_of_somebodys_own_project_is_read(tmp_path):
    path = tmp_path / "export.json"
    path.write_text(EXPORT)
    items = {"cats/a+b c.png": "one", "cats/d.png": "two", "cats/e.png": "three"}
    parsed = read_answers(path, items=items, asked=None, classes=CLASSES)
    at = datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)
    assert parsed.answers == (
        Answer(
            id="one",
            kind=Kind.LABEL,
            label="dog",
            annotator="4",
            time=at,
            payload={"lead_time": 3.25},
        ),
        Answer(
            id="two",
            kind=Kind.SKIP,
            annotator="b@example.org",
            payload={"lead_time": 1.0},
        ),
    )
    assert parsed.num_unanswered == 1


# ------------------------------------------------------------------ wrong questions


def test_wrong_questions_are_refused(tmp_path):
    with pytest.raises(UsageError, match="nothing to ask"):
        write_query(tmp_path / "q.csv", [], CLASSES)
    with pytest.raises(UnknownNameError, match="no kind of file with answers"):
        write_query(tmp_path / "q.xlsx", query(["a.png"]), CLASSES)
    assert list(tmp_path.iterdir()) == []
