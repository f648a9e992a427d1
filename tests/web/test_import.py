"""Labels that exist, dropped on the page: looked at first, imported, and undone."""

import json

import pytest
from tests.projects.toy import num_events, truth
from tests.web.pages import HEADERS, uuid

from fewlabels.web.guard import MOST_BYTES, MOST_UPLOAD_BYTES

BYTES = {"content-type": "application/octet-stream"}


def send(browser, content, name="labels.csv", headers=None, **wish):
    wish = {"tab": browser.tab, "uuid": uuid(), "name": name, **wish}
    own = HEADERS | BYTES | (headers or {})
    return browser.client.post("/api/import", params=wish, content=content, headers=own)


@pytest.fixture
def free(project):
    """Images that nobody is asked about."""
    asked = {one.item for asked in project.store.rounds() for one in asked.items}
    return [item.path for item in project.store.items() if item.id not in asked]


def table(names, *more):
    rows = [(name, truth(name)) for name in names]
    lines = [",".join(row) for row in [("image", "class"), *rows, *more]]
    return "\n".join(lines).encode()


def test_a_file_is_looked_at_imported_and_taken_back(browser, project, free):
    content = table(free[:8], ("99.png", "odd"), (free[9], "zebra"))
    before = num_events(project)
    found = send(browser, content, dry_run=True).json()
    assert (found["num_new"], found["num_faults"]) == (8, 2)
    assert found["faults"][0].startswith("line 10: there is no image '99.png'")
    assert found["unknown_classes"] == ["zebra"]
    assert found["columns"] == {"file_name": "image", "label": "class"}
    refused = send(browser, content)
    assert refused.status_code == 422
    assert "nothing was taken" in refused.json()["error"]
    assert num_events(project) == before
    own = uuid()
    for _ in range(2):  # the first answer was lost
        done = send(browser, content, uuid=own, partial=True).json()
        assert (done["num_new"], done["uuid"]) == (8, own)
    assert num_events(project) == before + 8
    assert browser.session.state()["imported"] == 8
    assert browser.session.state()["spent"] == 0
    for expected in (8, 0):
        undone = browser.post("/api/import/undo", {"uuid": own}).json()
        assert undone["num_labels"] == expected
    assert browser.session.state()["imported"] == 0
    assert browser.post("/api/import/undo").status_code == 422
    added = send(browser, content, partial=True, add_classes=True).json()
    assert (added["num_new"], added["new_classes"]) == (9, ["zebra"])
    told = browser.post("/api/import/undo").json()
    assert (told["num_labels"], told["retired_classes"]) == (9, ["zebra"])


def test_no_name_is_ever_a_path(browser, tmp_path, free):
    secret = tmp_path / "secret.csv"
    secret.write_bytes(table(free))
    for name in (str(secret), "../secret.csv", str(tmp_path / "images")):
        told = send(browser, b"", name=name, dry_run=True)
        assert told.status_code in {200, 422}
        assert told.status_code == 422 or told.json()["num_new"] == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("labels.csv", b"\xff\xfe\x00"),
        ("labels.csv", b"\x00" * 100),
        ("labels.csv", b'image,class\n"00.png,even'),
        ("labels.jsonl", b"[" * 100_000),
        ("labels.json", b"[" * 100_000),
        ("labels.json", b'{"a": 1}'),
        (
            "labels.json",
            json.dumps([{"data": {"image": 3}, "annotations": [3]}]).encode(),
        ),
        ("labels.parquet", b"PAR1" + b"\xff" * 64 + b"PAR1"),
        ("labels.xlsx", b"PK\x03\x04"),
        ("labels", b""),
        ("\x00.csv", b"image,class\n\x1b[31m,even"),
    ],
)
def test_strange_files_are_refused_or_listed(browser, project, name, content):
    before = num_events(project)
    for dry_run in (True, False):
        told = send(browser, content, name=name, dry_run=dry_run)
        assert told.status_code in ({200, 422} if dry_run else {422})
    assert num_events(project) == before


def test_a_file_may_be_larger_than_a_message_but_not_huge(browser, free):
    content = table(free[:2]) + b"\n" * MOST_BYTES
    assert send(browser, content, dry_run=True).json()["num_new"] == 2
    huge = b" " * (MOST_UPLOAD_BYTES + 1)
    assert send(browser, huge).status_code == 413
    parts = (b" " * 2**20 for _ in range(MOST_UPLOAD_BYTES // 2**20 + 1))
    assert send(browser, parts).status_code == 413
    told = browser.client.post("/api/import/undo", content=content, headers=HEADERS)
    assert told.status_code == 413  # all other addresses keep their limit


def test_a_file_with_far_more_rows_than_images_is_refused(browser):
    content = b"image,class\n" + b"00.png,odd\n" * 100_001
    told = send(browser, content, dry_run=True).json()
    assert told["num_new"] == 0
    assert "more than 100,000 rows" in told["faults"][0]


def test_other_sites_and_forms_cannot_import(browser, free):
    content = table(free[:2])
    wish = {"tab": browser.tab, "uuid": uuid(), "name": "labels.csv"}
    told = browser.client.post("/api/import", params=wish, content=content)
    assert told.status_code == 403
    foreign = {"origin": "http://evil.example"}
    assert send(browser, content, headers=foreign).status_code == 403
    assert send(browser, content, more="x").status_code == 422


def test_an_empty_file_is_a_fault_in_a_sentence(browser):
    facts = send(browser, b"", dry_run=True).json()
    assert facts["faults"] == ["line 1: the file is empty."]
