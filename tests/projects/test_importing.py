"""Labels that exist already: imported whole or not at all, and undone as one."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.data.pictures import save
from tests.projects.toy import (
    answer,
    begin,
    begun,
    changed,
    go_on,
    num_events,
    paths,
    truth,
    write,
)

from fewlabels.errors import (
    AnswersError,
    DataError,
    FewlabelsWarning,
    StoreError,
    UnknownNameError,
    UsageError,
)
from fewlabels.projects import Project
from fewlabels.projects.store import new_uuid


@pytest.fixture
def project(tmp_path):
    with begun(tmp_path) as project:
        yield project


def names(numbers):
    return [f"{number:02d}.png" for number in numbers]


def table(place, numbers, columns=("file_name", "label"), more=()):
    rows = [(name, truth(name)) for name in names(numbers)]
    return write(place / "labels.csv", [*rows, *more], columns)


def held(project):
    """Return class and strategy of each labeled image by its path."""
    snapshot = project.snapshot()
    path_of = {item.id: item.path for item in snapshot.items}
    return {
        path_of[v.item]: (snapshot.classes[v.class_number], v.strategy)
        for v in snapshot.verdicts
        if v.class_number is not None
    }


def test_labels_train_are_listed_and_cost_nothing(project, tmp_path):
    done = project.import_labels(table(tmp_path, range(10)))
    assert (done.num_new, done.num_same, done.faults) == (10, 0, ())
    assert done.class_counts == {"even": 5, "odd": 5}
    assert held(project)["03.png"] == ("odd", "imported")
    status = project.status()
    assert (status.num_spent, status.num_imported) == (0, 10)
    assert status.class_counts == (5, 5)
    assert status.num_candidates == 14
    assert project.train().record.num_labeled == 10
    exported = project.export(tmp_path / "out")
    rows = (exported.folder / "labels.csv").read_text("utf-8")
    assert rows.count(",imported,") == 10


def test_the_same_file_again_changes_nothing(project, tmp_path):
    file = table(tmp_path, range(10))
    project.import_labels(file)
    before = num_events(project)
    again = project.import_labels(file)
    assert (again.num_new, again.num_same) == (0, 10)
    assert num_events(project) == before
    own = new_uuid()
    other = table(tmp_path, range(12))
    first = project.import_labels(other, uuid=own)
    assert (first.num_new, first.num_same) == (2, 10)
    assert project.import_labels(other, uuid=own).num_new == 2  # the answer was lost
    assert num_events(project) == before + 2
    project.undo_import(own)
    project.import_labels(other, uuid=own)  # undone since, and it stays so
    assert project.status().num_imported == 10


def test_an_import_is_undone_by_one_call(project, tmp_path):
    go_on(project)
    before = held(project)
    free = sorted(set(names(range(24))) - before.keys())
    first = write(tmp_path / "a.csv", [(n, truth(n)) for n in free[:4]])
    second = write(tmp_path / "b.csv", [(n, truth(n)) for n in free[4:9]])
    project.import_labels(first)
    project.import_labels(second)
    assert project.undo_import().num_labels == 5
    assert project.undo_import().num_labels == 4
    assert held(project) == before
    with pytest.raises(UsageError, match="No imported label is in force"):
        project.undo_import()
    assert project.import_labels(first).num_new == 4
    with pytest.raises(UsageError, match="has nothing to undo"):
        project.undo()


def test_an_imported_label_is_changed_by_anybody_and_then_stays(project, tmp_path):
    project.ask()
    (asked,) = project.store.rounds()
    role_of = {entry.item: entry.role for entry in asked.items}
    id_of = {item.path: item.id for item in project.store.items()}
    free = [path for path in sorted(id_of) if role_of.get(id_of[path]) != "audit"]
    waiting = next(path for path in free if id_of[path] in role_of)
    own, others, *_ = (path for path in free if id_of[path] not in role_of)
    file = write(tmp_path / "a.csv", [(path, "even") for path in free])
    done = project.import_labels(file, annotator="ann")
    spent = project.status().num_spent
    project.change(id_of[own], "odd", annotator="ann")
    sent = new_uuid()
    for _ in range(2):  # the answer was lost
        project.change(id_of[others], "odd", annotator="bob", uuid=sent)
    project.change(id_of[waiting], None, annotator="bob")
    assert held(project)[own] == held(project)[others] == ("odd", "imported")
    assert project.status().num_imported == len(free)
    assert project.status().num_spent == spent
    with pytest.raises(AnswersError, match="is labeled 'odd' already, by 'bob'"):
        project.import_labels(file, annotator="ann")
    assert project.undo_import().num_labels == done.num_new - 3
    assert held(project).keys() == {own, others}
    assert project.status().num_skipped == 1
    with pytest.raises(UsageError, match="No imported label is in force"):
        project.undo_import()


def test_a_file_with_faults_is_refused_whole_or_taken_in_part(project, tmp_path):
    asked = project.ask()
    wrong = next(
        n
        for n, r in zip(paths(project, asked), asked.items, strict=True)
        if r.role == "query"
    )
    answer(project, asked)
    free = sorted(set(names(range(24))) - held(project).keys())
    good = [(name, truth(name)) for name in free[:6]]
    other = {"even": "odd", "odd": "even"}[truth(wrong)]
    bad = [
        ("99.png", "odd"),
        (free[7], "zebra"),
        (wrong, other),
        (free[8], "odd"),
        (free[8], "even"),
        ("", "odd"),
    ]
    file = write(tmp_path / "labels.csv", [*good, *bad, (free[9], "")])
    before = num_events(project)
    with pytest.raises(AnswersError) as refused:
        project.import_labels(file)
    told = str(refused.value)
    assert "has 6 faults, and nothing was taken" in told
    assert "line 8: there is no image '99.png'" in told
    assert "line 9: there is no class 'zebra'" in told
    assert f"line 10: '{wrong}' is labeled '{truth(wrong)}' already, by 'ann'" in told
    assert (
        f"line 11: '{free[8]}' has the class 'odd' here and 'even' on line 12" in told
    )
    assert "line 13: names no image" in told
    assert num_events(project) == before
    would = project.import_labels(file, dry_run=True)
    assert (would.num_new, len(would.faults), would.num_blank) == (6, 6, 1)
    assert would.unknown_classes == ("zebra",)
    assert num_events(project) == before
    done = project.import_labels(file, partial=True)
    assert (done.num_new, len(done.faults)) == (6, 6)
    assert project.status().num_imported == 6


def test_images_that_measure_are_left_out_with_their_copies(tmp_path):
    with begin(tmp_path, audit=6) as project:
        asked = project.ask()
        audit = {one.item for one in asked.items if one.role == "audit"}
        path_of = {item.id: item.path for item in project.store.items()}
        measured = sorted(path_of[item] for item in audit)
        images = project.images_folder
        shutil.copy(images / measured[0], images / "copy.png")
        rows = [(name, truth(name)) for name in names(range(24))]
        rows.append(("copy.png", truth(measured[0])))
        done = project.import_labels(write(tmp_path / "labels.csv", rows))
        assert done.num_new == 18
        assert len(done.left_out) == 7
        assert f"'{measured[0]}' measures, so its label is not imported" in str(
            done.left_out[0]
        )
        assert "is a copy of one that does" in str(done.left_out[-1])
        assert not held(project).keys() & {*measured, "copy.png"}
        assert project.snapshot().audited == {}


def test_imported_images_are_never_drawn_to_measure(project, tmp_path):
    project.import_labels(table(tmp_path, range(15)))
    with pytest.warns(FewlabelsWarning, match="no model was trained"):
        asked = project.ask()
    assert asked.num_audit == 3
    assert not set(paths(project, asked)) & set(names(range(15)))
    notes = " ".join(project.status().notes)
    assert "15 images were imported before those that measure were drawn" in notes


def test_an_open_image_that_is_imported_is_open_no_more(project, tmp_path):
    asked = project.ask()
    tab = new_uuid()
    project.lease(7, annotator="bob", token=tab)
    queried = {o.item for o in asked.items if o.role == "query"}
    path_of = {item.id: item.path for item in project.store.items()}
    rows = [(path_of[item], truth(path_of[item])) for item in queried]
    project.import_labels(write(tmp_path / "labels.csv", rows))
    assert project.status().num_open == 3
    item = min(queried)
    with pytest.raises(StoreError, match="You no longer had"):
        project.label(item, "odd", annotator="bob", in_turn=True)
    assert project.status().num_spent == 0


def test_one_imported_label_is_enough_where_people_need_two(tmp_path):
    with changed(begun(tmp_path), overlap=2) as project:
        project.import_labels(table(tmp_path, range(6)))
        assert project.status().class_counts == (3, 3)


def test_skipped_images_stay_skipped_and_unsure_ones_get_their_class(project, tmp_path):
    project.ask()
    tab = new_uuid()
    leases = project.lease(7, annotator="ann", token=tab).items
    audit = project.snapshot().audit
    first, second, *_ = [item for item in leases if item not in audit]
    project.skip(first, annotator="ann")
    project.unsure(second, annotator="ann")
    path_of = {item.id: item.path for item in project.store.items()}
    rows = [(path_of[item], truth(path_of[item])) for item in (first, second)]
    file = write(tmp_path / "labels.csv", rows)
    done = project.import_labels(file, partial=True)
    assert done.num_new == 1
    assert f"'{path_of[first]}' was skipped by 'ann'" in str(done.faults[0])
    assert project.status().num_spent == 0


# ------------------------------------------------------------------------- formats


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("Image;Species\n00.png;even\n01.png;odd\n", {}),
        ("file\tcategory\tnote\n00.png\teven\tx\n01.png\todd\ty\n", {}),
        (
            "a,b,c\n1,00.png,EVEN\n2,01.png,Odd\n",
            {"file_column": "B", "class_column": "c"},
        ),
        ("path,label,statsu\n/data/x/00.png,even,\n/data/x/01.png,odd,\n", {}),
        ("path,class\nC:\\x\\00.png,even\nC:\\x\\01.png,odd\n", {}),
        ("file_name,label\n00.png,even\n01.png,odd\n02.png,\n03.png,skip\n", {}),
    ],
)
def test_tables_of_many_kinds(project, tmp_path, text, options):
    file = tmp_path / "labels.csv"
    file.write_text(text)
    done = project.import_labels(file, **options)
    assert done.num_new == 2
    assert {name: held(project)[name][0] for name in names(range(2))} == {
        "00.png": "even",
        "01.png": "odd",
    }


def test_json_lines_and_parquet(project, tmp_path):
    file = tmp_path / "labels.jsonl"
    rows = [{"image": "00.png", "class": "even", "box": [1, 2]}, {"image": "01.png"}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = project.import_labels(file)
    assert (done.num_new, done.num_blank) == (1, 1)
    assert done.columns == {"file_name": "image", "label": "class"}
    columns = {
        "Filename": names(range(2, 6)),
        "Target": ["even", "odd", None, "zebra"],
        "box": [[1.0]] * 4,
    }
    parquet.write_table(pa.table(columns), tmp_path / "labels.parquet")
    done = project.import_labels(tmp_path / "labels.parquet", partial=True)
    assert (done.num_new, done.num_blank) == (2, 1)
    assert str(done.faults[0]) == "line 4: there is no class 'zebra'."
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(AnswersError, match="the table cannot be read"):
        project.import_labels(tmp_path / "broken.parquet")


def test_columns_that_nobody_can_guess_are_asked_for(project, tmp_path):
    file = write(tmp_path / "labels.csv", [("00.png", "even")], ("a", "b"))
    with pytest.raises(
        UsageError,
        match=r"the columns are a, b.*Rename one to 'file_name'.*file_column",
    ):
        project.import_labels(file)
    with pytest.raises(UsageError, match=r"There is no column 'klass'.*class_column"):
        project.import_labels(file, file_column="a", class_column="klass")
    with pytest.raises(UnknownNameError, match=r"labels\.xlsx"):
        project.import_labels(tmp_path / "labels.xlsx", content=b"PK")
    with pytest.raises(DataError, match="cannot be read"):
        project.import_labels(tmp_path / "nowhere.csv")


def studio_task(image, *choices, **more):
    result = {"type": "choices", "value": {"choices": list(choices)}}
    annotation = {"result": [result], "completed_by": 3, **more}
    return {"id": 1, "data": {"image": image, "id": 99}, "annotations": [annotation]}


def test_an_export_of_label_studio(project, tmp_path):
    tasks = [
        studio_task("/data/local-files/?d=images/00.png", "even"),
        studio_task("/data/local-files/?d=images%2F01.png", "odd"),
        studio_task("/data/local-files/?d=images/02.png", was_cancelled=True),
        studio_task("/data/local-files/?d=images/03.png", "even", "odd"),
    ]
    file = tmp_path / "export.json"
    file.write_text(json.dumps(tasks))
    with pytest.raises(AnswersError, match="task 4: has the 2 choices even, odd"):
        project.import_labels(file)
    done = project.import_labels(file, partial=True)
    assert (done.num_new, done.num_blank, len(done.faults)) == (2, 1, 1)
    tasks = [
        studio_task("/data/upload/7/0a1b2c3d-04.png", "even"),
        studio_task("/data/upload/7/1a1b2c3d-05.png", "odd"),
    ]
    file.write_text(json.dumps(tasks))
    assert project.import_labels(file).num_new == 2
    assert held(project)["05.png"] == ("odd", "imported")
    assert project.undo_import().num_labels == 2
    assert project.undo_import().num_labels == 2


def test_a_row_without_a_name_says_so_below_a_shared_root_too(project, tmp_path):
    rows = [("/x/00.png", "even"), ("/x/01.png", "odd"), ("", "odd")]
    done = project.import_labels(write(tmp_path / "labels.csv", rows), partial=True)
    assert done.num_new == 2
    assert str(done.faults[0]) == "line 4: names no image; fill in file_name."


# ------------------------------------------------------------------------- folders


def sorted_pictures(folder, numbers=range(12)):
    for name in names(numbers):
        save(folder / truth(name) / name, int(name[:2]))
    return folder


def test_the_folders_of_a_project_are_its_classes(tmp_path):
    images = sorted_pictures(tmp_path / "images")
    save(images / "50.png", 50)
    (images / "blurred").mkdir()
    save(images / "blurred" / "51.png", 51)
    with begin(tmp_path) as project:
        with pytest.raises(AnswersError, match=r"'blurred/51.png': there is no class"):
            project.import_labels(images)
        done = project.import_labels(images, partial=True)
        assert (done.num_new, done.num_blank, len(done.faults)) == (12, 1, 1)
        assert held(project)["even/04.png"] == ("even", "imported")
        assert project.import_labels(images, partial=True).num_new == 0
        assert project.undo_import().num_labels == 12
        assert project.import_labels(images, add_classes=True).num_new == 13


def test_another_folder_is_compared_by_content(project, tmp_path):
    other = sorted_pictures(tmp_path / "sorted")
    save(other / "odd" / "strange.png", 77)
    with pytest.raises(AnswersError, match=r"has the content of 'odd/strange.png'"):
        project.import_labels(other)
    (other / "odd" / "strange.png").unlink()
    (other / "even" / "04.png").rename(other / "even" / "another name.png")
    assert project.import_labels(other).num_new == 12
    assert held(project)["04.png"] == ("even", "imported")
    with pytest.raises(DataError, match=r"No image in .* is in a subfolder"):
        project.import_labels(other / "even")


# ------------------------------------------------------------------------- classes


def test_classes_are_added_where_that_is_wanted_and_leave_again(project, tmp_path):
    more = [("12.png", "Zebra"), ("13.png", "zebra"), ("14.png", "no digit")]
    file = table(tmp_path, range(4), more=more)
    would = project.import_labels(file, add_classes=True, dry_run=True)
    assert would.new_classes == ("Zebra", "no digit")
    assert project.status().classes == ("even", "odd")
    done = project.import_labels(file, add_classes=True)
    assert (done.num_new, done.new_classes) == (7, ("Zebra", "no digit"))
    undone = project.undo_import()
    assert undone.num_labels == 7
    assert undone.retired_classes == ("Zebra", "no digit")
    active = [entry.name for entry in project.store.classes() if entry.is_active]
    assert active == ["even", "odd"]
    assert "Zebra" not in " ".join(project.status().notes)
    with pytest.raises(AnswersError, match="there is no class 'Zebra'"):
        project.import_labels(file)
    assert project.add_classes(["no digit"])[3] == "no digit"  # it comes back
    again = project.import_labels(file, add_classes=True)
    assert (again.num_new, again.new_classes) == (7, ("Zebra",))
    assert project.undo_import().retired_classes == ("Zebra",)


def test_a_class_that_no_row_needs_is_not_added(project, tmp_path):
    file = table(tmp_path, range(4), more=[("99.png", "zebra")])
    done = project.import_labels(file, add_classes=True, partial=True)
    assert (done.num_new, done.new_classes) == (4, ())
    assert project.status().classes == ("even", "odd")


def test_a_class_that_others_use_meanwhile_stays(project, tmp_path):
    first = table(tmp_path, range(4), more=[("12.png", "zebra")])
    project.import_labels(first, add_classes=True)
    own = project.import_labels(write(tmp_path / "b.csv", [("13.png", "zebra")])).uuid
    imported = next(
        stored.payload["import"]
        for stored in project.store.events()
        if stored.strategy == "imported"
    )
    assert imported != own
    undone = project.undo_import(imported)
    assert (undone.num_labels, undone.retired_classes) == (5, ())
    assert held(project) == {"13.png": ("zebra", "imported")}


def test_a_column_of_ids_does_not_become_classes(tmp_path):
    with begun(tmp_path) as project:
        rows = [("00.png", f"class {number}") for number in range(1_002)]
        file = write(tmp_path / "labels.csv", rows)
        with pytest.raises(UsageError, match="Over 1,000 classes are new"):
            project.import_labels(file, add_classes=True)


# --------------------------------------------------------------------------- kills

_IMPORT = """
import sys
from fewlabels.projects import Project
from fewlabels.projects.store import schema
import os, signal
renew = schema.renew_checksums
def killed(connection, *tables, **options):
    renew(connection, *tables, **options)
    if connection.exec_driver_sql("SELECT max(sequence) FROM events").scalar() > 10:
        os.kill(os.getpid(), signal.SIGKILL)
schema.renew_checksums = killed
with Project.open(sys.argv[1]) as project:
    project.import_labels(sys.argv[2], add_classes=True, scan=False)
"""


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_an_import_that_is_killed_leaves_nothing(project, tmp_path):
    file = table(tmp_path, range(20), more=[("20.png", "zebra")])
    before = num_events(project)
    command = [sys.executable, "-c", _IMPORT, str(project.folder), str(file)]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    with Project.open(project.folder) as anew:
        assert num_events(anew) == before
        assert anew.import_labels(file, add_classes=True).num_new == 21
