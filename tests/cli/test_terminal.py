"""What a terminal would obey is shown and not sent."""

import json

from rich.table import Table

from fewlabels.cli import harmless
from fewlabels.cli.terminal import Terminal, print_line

EVIL = "cat\x1b]0;mine\x07\x1b[2J\x9b31m\u202etac\r[red]:cat:"
SEEN = "cat\\u001b]0;mine\\u0007\\u001b[2J\\u009b31m\\u202etac\\u000d[red]:cat:"


def test_controls_are_made_visible_and_all_else_is_left():
    assert harmless(EVIL) == SEEN
    plain = "Katze, قط, 猫 🐱\tä\n"
    assert harmless(plain) == plain


def test_nothing_that_is_printed_is_obeyed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    terminal = Terminal()
    table = Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(EVIL)
    terminal.result(table)
    terminal.result(EVIL)
    terminal.say(EVIL)
    shown = capsys.readouterr()
    assert shown.out.count(SEEN) == 4
    assert shown.err == SEEN + "\n"


def test_json_means_the_same(capsys):
    print_line(json.dumps({"name": EVIL}, ensure_ascii=False))
    line = capsys.readouterr().out
    assert line.isprintable() is False  # the line break
    assert line.rstrip("\n").isprintable()
    assert json.loads(line) == {"name": EVIL}
