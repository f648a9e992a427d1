"""People and programs that fill in what was asked, without this package's help."""

import csv
import io
import json


def fill_csv(path, said, separator=","):
    """Fill in a table; ``said`` are (name, label, status, annotator)."""
    rows = list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8-sig"), "")))
    filled = io.StringIO(newline="")
    table = csv.DictWriter(filled, rows[0].keys(), delimiter=separator)
    table.writeheader()
    for place, label, status, annotator in said:
        words = {"label": label or "", "status": status or "", "annotator": annotator}
        table.writerow({**rows[place], **words})
    path.write_bytes(filled.getvalue().encode())


def fill_lines(path, said):
    """Fill in JSON Lines."""
    rows = [json.loads(line) for line in path.read_bytes().decode().split("\n") if line]
    filled = [
        {**rows[place], "label": label, "status": status, "annotator": annotator}
        for place, label, status, annotator in said
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in filled), "utf-8")


def fill_studio(path, said):
    """Import tasks, annotate them and export, as Label Studio does."""
    tasks = json.loads(path.read_text("utf-8"))
    for number, task in enumerate(tasks, start=1):
        task |= {"id": number, "annotations": [], "total_annotations": 0}
    for place, label, status, annotator in said:
        choice = {"from_name": "choice", "to_name": "image", "type": "choices"}
        result = [{**choice, "id": "x1", "value": {"choices": [label]}}]
        tasks[place]["annotations"].append(
            {
                "id": len(tasks[place]["annotations"]) + 1,
                "completed_by": {"id": 1, "email": annotator},
                "result": [] if status else result,
                "was_cancelled": status == "skip",
                "lead_time": 2.5,
                "created_at": "2026-01-31T12:00:00.123456Z",
            }
        )
    path.write_text(json.dumps(tasks), "utf-8")


FILL = {"csv": fill_csv, "jsonl": fill_lines, "label-studio": fill_studio}
EXTENSION = {"csv": "csv", "jsonl": "jsonl", "label-studio": "json"}
