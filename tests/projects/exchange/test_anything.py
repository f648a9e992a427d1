"""Whatever a file holds, it is read or refused in a sentence; nothing breaks."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewlabels.projects.exchange import Parsed, read_answers
from fewlabels.projects.store import Kind

ITEMS = {"a.png": "1a", "b.png": "2b"}
WORDS = ["a.png", "b.png", "1a", "cat", "skip", "", "image", "choices"]
KEYS = ["file_name", "id", "label", "status", "annotator", "time", "lead_time", "path"]
KEYS += ["data", "image", "annotations", "result", "value", "type", "choices"]
KEYS += ["completed_by", "was_cancelled", "created_at", "email"]

values = st.recursive(
    st.sampled_from(WORDS) | st.none() | st.booleans() | st.integers() | st.floats(),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inside, max_size=6)
    ),
    max_leaves=12,
)
tasks = st.fixed_dictionaries(
    {
        "data": st.dictionaries(st.sampled_from(KEYS), values, max_size=4),
        "annotations": st.lists(
            st.dictionaries(st.sampled_from(KEYS), values, max_size=4), max_size=3
        ),
    }
)


def read(folder, name, content):
    path = folder.mktemp("q") / name
    path.write_bytes(content)
    parsed = read_answers(
        path, items=ITEMS, asked=None, classes=["cat", "dog"], partial=True
    )
    assert isinstance(parsed, Parsed)
    assert {one.id for one in parsed.answers} <= {"1a", "2b"}
    assert all(one.label or one.kind is not Kind.LABEL for one in parsed.answers)
    assert all("\n" not in fault.sentence for fault in parsed.faults)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.json"])
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes(tmp_path_factory, name, content):
    read(tmp_path_factory, name, content)
    read(tmp_path_factory, name, b"file_name,label\n" + content)


@given(rows=st.lists(st.dictionaries(st.sampled_from(KEYS), values, max_size=8)))
def test_any_json_lines(tmp_path_factory, rows):
    content = "\n".join(map(json.dumps, rows)).encode()
    read(tmp_path_factory, "t.jsonl", content)


@given(elements=st.lists(tasks | values, max_size=4))
def test_any_export(tmp_path_factory, elements):
    read(tmp_path_factory, "t.json", json.dumps(elements).encode())
