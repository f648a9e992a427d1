"""``fewlabels check``: the conformance suite on anybody's strategy, trainer, ..."""

import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import cast

from rich.text import Text
from typer import Exit

from fewlabels.cli.options import Json, Quiet, StrategyOptions, read_options
from fewlabels.cli.terminal import Terminal, print_json, table
from fewlabels.data import load
from fewlabels.experiments.conformance import Kind
from fewlabels.experiments.conformance import check as findings_of

_WIDEST = 110
_MARKS = {
    "passed": Text("✓", "green"),
    "failed": Text("✗", "bold red"),
    "refused": Text("✓", "green"),
    "not promised": Text("–", "dim"),
    "not run": Text("–", "dim"),
}


def check(
    thing: str,
    *,
    kind: str | None = None,
    option: StrategyOptions = None,
    data: str | None = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Test a strategy, trainer, classifier or kernel against what its kind promises.

    The exit code is 0 if nothing failed, 1 if something did.

    Options:
        thing: module:Class or module:function, or a built-in name.
        kind: strategy, trainer, classifier or kernel, if ambiguous.
        data: What a trainer or a classifier is tried on: a name, folder or file; digits
            by default.
    """
    terminal = Terminal(quiet or as_json)
    options = read_options(option)
    drawn = table(
        *("", "promise", "seen"),
        title=Text(f"What {thing} promises"),
        collapse_padding=True,
        width=min(terminal.out.width, _WIDEST),
    )
    drawn.columns[1].no_wrap, drawn.columns[2].ratio = True, 1
    failed = []
    with terminal.busy():
        findings = findings_of(
            thing,
            options,
            kind=cast("Kind | None", kind),  # another word is refused there
            pool=None if data is None else load(data),
        )
        while True:
            with redirect_stdout(sys.stderr):  # what the thing prints is no result
                finding = next(findings, None)
            if finding is None:
                break
            if as_json:
                print_json(asdict(finding))
            is_plain = finding.outcome in {"passed", "failed"}
            seen = (
                finding.detail if is_plain else f"{finding.outcome}: {finding.detail}"
            )
            drawn.add_row(_MARKS[finding.outcome], Text(finding.name), Text(seen))
            if finding.outcome == "failed":
                failed.append(finding.name)
    terminal.result(drawn)
    if failed:
        terminal.result(f"{thing} breaks {len(failed)}: {', '.join(failed)}.")
        raise Exit(1)
    terminal.result(f"{thing} keeps every promise that was checked.")
