"""What the sections of the page are made of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup
from matplotlib.figure import Figure

from fewlabels.report.bench.tables import Table


@dataclass(frozen=True)
class FigureFile:
    """A figure for a paper, drawn when it is written."""

    name: str
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class PanelRow:
    """Small drawings side by side."""

    panels: tuple[tuple[str, Markup], ...]
    """Each with what stands above it."""
    heading: str = ""
    kind: Literal["maps", "strips"] = "maps"
    """Decides how many stand side by side."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a section: what there is to say of one condition, mostly."""

    heading: str = ""
    drawings: tuple[Markup, ...] = ()
    """One drawing, for wide and for narrow screens."""
    rows: tuple[PanelRow, ...] = ()
    tables: tuple[Table, ...] = ()
    hidden: tuple[Table, ...] = ()
    """Tables that repeat a drawing, shown to who asks for them."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page under one heading."""

    anchor: str
    title: str
    notes: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()
    figures: tuple[FigureFile, ...] = ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """All its tables."""
        return tuple(
            table for block in self.blocks for table in (*block.tables, *block.hidden)
        )
