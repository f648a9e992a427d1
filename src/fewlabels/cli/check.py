"""``fewlabels check``: the conformance suite on anybody's strategy, trainer, ..."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import Annotated, cast

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from fewlabels.cli.options import Json, Quiet, StrategyOptions, read_options
from fewlabels.cli.terminal import Terminal, print_line
from fewlabels.conformance import Finding, Kind, Memory, Outcome
from fewlabels.conformance import check as findings_of
from fewlabels.data import load

_WIDEST = 110
_MARKS: dict[Outcome, tuple[str, str]] = {
    "passed": ("✓", "green"),
    "failed": ("✗", "bold red"),
    "refused": ("✓", "green"),
    "not promised": ("–", "dim"),
    "not run": ("–", "dim"),
}


def check(
    thing: Annotated[
        str,
        typer.Argument(
            metavar="THING", help="module:Class or module:function, or a built-in name."
        ),
    ],
    *,
    kind: Annotated[
        str | None,
        typer.Option(help="strategy, trainer, classifier or kernel, if ambiguous."),
    ] = None,
    option: StrategyOptions = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="What a trainer or a classifier is tried on: a name, folder or file; "
            "digits by default."
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(help="Size of the pool a strategy's memory is measured on.")
    ] = Memory.rows,
    limit: Annotated[
        float, typer.Option(help="GB of memory it may use there.")
    ] = Memory.limit_gb,
    seconds: Annotated[
        float, typer.Option(help="How long to wait there.")
    ] = Memory.seconds,
    quick: Annotated[
        bool, typer.Option("--quick", help="Skip the memory test; takes a second.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Test a strategy, trainer, classifier or kernel against what its kind promises.

    The exit code is 0 if nothing failed, 1 if something did.
    """
    memory = Memory(rows=rows, limit_gb=limit, seconds=seconds)
    terminal = Terminal.open(quiet=quiet or as_json)
    options = read_options(option)
    findings = []
    with terminal.busy():
        found = findings_of(
            thing,
            options,
            kind=cast("Kind | None", kind),  # another word is refused there
            pool=None if data is None else load(data),
            memory=None if quick else memory,
        )
        while (finding := _next_of(found)) is not None:
            findings.append(finding)
            if as_json:
                print_line(json.dumps(asdict(finding), ensure_ascii=False))
    terminal.result(_drawn(thing, findings, min(terminal.out.width, _WIDEST)))
    failed = [finding.name for finding in findings if finding.outcome == "failed"]
    terminal.result(_summary(thing, failed))
    if failed:
        raise typer.Exit(1)


def _next_of(findings: Iterator[Finding]) -> Finding | None:
    """Return the next finding; what the thing prints is not part of the output."""
    with redirect_stdout(sys.stderr):
        return next(findings, None)


def _drawn(thing: str, findings: Sequence[Finding], width: int) -> Table:
    """Return the table, a row per promise."""
    table = Table(
        title=Text(f"What {thing} promises"),
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        width=width,
    )
    table.add_column("")
    table.add_column("promise", no_wrap=True)
    table.add_column("seen", ratio=1, overflow="fold")
    for finding in findings:
        mark, style = _MARKS[finding.outcome]
        said = finding.detail
        if finding.outcome not in {"passed", "failed"}:
            said = f"{finding.outcome}: {said}"
        table.add_row(Text(mark, style), Text(finding.name), Text(said))
    return table


def _summary(thing: str, failed: Sequence[str]) -> str:
    if not failed:
        return f"{thing} keeps every promise that was checked."
    return f"{thing} breaks {len(failed)}: {', '.join(failed)}."
