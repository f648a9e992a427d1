"""``fewlabels check``: the conformance suite on anybody's strategy."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from fewlabels.cli.options import StrategyOptions, read_options
from fewlabels.cli.run import Json, Quiet
from fewlabels.cli.terminal import Terminal, print_line
from fewlabels.conformance import Finding, Memory, Outcome
from fewlabels.conformance import check as findings_of

_WIDEST = 110
_MARKS: dict[Outcome, tuple[str, str]] = {
    "passed": ("✓", "green"),
    "failed": ("✗", "bold red"),
    "refused": ("✓", "green"),
    "not promised": ("–", "dim"),
    "not run": ("–", "dim"),
}


def check(
    strategy: Annotated[
        str,
        typer.Argument(metavar="STRATEGY", help="module:Class, or a built-in name."),
    ],
    *,
    option: StrategyOptions = None,
    rows: Annotated[
        int, typer.Option(help="Size of the pool that memory is measured on.")
    ] = Memory.rows,
    limit: Annotated[
        float, typer.Option(help="GB of memory that it may take there.")
    ] = Memory.limit_gb,
    seconds: Annotated[
        float, typer.Option(help="How long to wait there.")
    ] = Memory.seconds,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave memory out; takes a second.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Hold a strategy to everything that strategies promise, and show what holds.

    Leaves with 0 if nothing failed, with 1 if something did.
    """
    memory = Memory(rows=rows, limit_gb=limit, seconds=seconds)
    terminal = Terminal.open(quiet=quiet or as_json)
    options = read_options(option)
    findings = []
    with terminal.busy():
        found = findings_of(strategy, options, memory=None if quick else memory)
        while (finding := _next_of(found)) is not None:
            findings.append(finding)
            if as_json:
                print_line(json.dumps(asdict(finding), ensure_ascii=False))
    terminal.result(_drawn(strategy, findings, min(terminal.out.width, _WIDEST)))
    failed = [finding.name for finding in findings if finding.outcome == "failed"]
    terminal.result(_summary(strategy, failed))
    if failed:
        raise typer.Exit(1)


def _next_of(findings: Iterator[Finding]) -> Finding | None:
    """Return the next finding; what the strategy prints is no part of the output."""
    with redirect_stdout(sys.stderr):
        return next(findings, None)


def _drawn(strategy: str, findings: Sequence[Finding], width: int) -> Table:
    """Return the table, a row per promise."""
    table = Table(
        title=Text(f"What {strategy} promises"),
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


def _summary(strategy: str, failed: Sequence[str]) -> str:
    if not failed:
        return f"{strategy} keeps every promise that was checked."
    return f"{strategy} breaks {len(failed)}: {', '.join(failed)}."
