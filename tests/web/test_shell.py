"""The page and the command line work on one project, in turns."""

import csv

from tests.projects.toy import begin, truth
from tests.web.pages import Browser

from fewlabels.cli import project as commands
from fewlabels.cli.terminal import Terminal
from fewlabels.experiments.settings import Choice
from fewlabels.web import work

HEAD = Choice(name="frozen-linear", options={"encoder": "pixels"})
QUIET = Terminal(is_quiet=True)


def test_a_round_is_begun_in_the_shell_and_finished_on_the_page_and_back(tmp_path):
    with begin(tmp_path, trainer=HEAD, strategy="margin") as project:
        place, query = project.folder, tmp_path / "query.csv"
        commands.ask(place, out=query, strategy="random", terminal=QUIET)
        browser = Browser(project)
        shown = browser.lease(7, annotator="ann")
        for item in shown[:3]:
            name = truth(item["file"])
            browser.act("label", item=item["id"], name=name, annotator="ann")
        with query.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert {row["file_name"] for row in rows} == {one["file"] for one in shown}
        for row in rows:
            row["label"] = truth(row["file_name"])
        with query.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, rows[0])
            table.writeheader()
            table.writerows(rows)
        commands.tell(place, query, annotator="ann", terminal=QUIET)
        state = browser.session.state()
        assert state["round"] == {"number": 0, "size": 7, "open": 0}
        assert state["spent"] == 7
        assert browser.lease(annotator="ann") == []
        commands.train(place, terminal=QUIET)
        told = work.next_round(str(place), at_random=False, allow_code=())
        assert told == {"round": 1, "model": None}  # nothing to learn anew
        (first, *_) = browser.lease(annotator="ann")
        browser.act("label", item=first["id"], name="odd", annotator="ann")
        commands.ask(place, out=query, terminal=QUIET)  # what the page has left open
        with query.open(encoding="utf-8", newline="") as file:
            left = {row["file_name"] for row in csv.DictReader(file)}
        assert len(left) == 3
        assert first["file"] not in left
        assert browser.act("undo", annotator="ann").json()["item"]["id"] == first["id"]
