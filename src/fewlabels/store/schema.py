"""The tables as queries see them. How they came to be is told by ``migrations``."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from fewlabels.files import parsed
from fewlabels.store.failures import UnreadableValueError
from fewlabels.store.records import canonical

METADATA = MetaData()

PRESENT, MISSING = "present", "missing"
"""States of an item: its file is there, or was not when files were last listed."""


class Json(TypeDecorator[Any]):
    """A JSON value, written one way only so that equal values are equal texts."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, _: Dialect) -> str | None:
        """Write a value down."""
        return None if value is None else canonical(value)

    def process_result_value(self, value: str | None, _: Dialect) -> Any:
        """Read a value back."""
        if value is None:
            return None
        try:
            return parsed(value)
        except (ValueError, TypeError) as error:
            raise UnreadableValueError(f"a value is not JSON: {value!r:.80}") from error


class Moment(TypeDecorator[datetime]):
    """A moment, as text in UTC: equal on all databases, sorted like time itself."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _: Dialect) -> str | None:
        """Write a moment down."""
        if value is None:
            return None
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: str | None, _: Dialect) -> datetime | None:
        """Read a moment back."""
        if value is None:
            return None
        try:
            return datetime.fromisoformat(value)
        except (ValueError, TypeError) as error:
            raise UnreadableValueError(
                f"a value is not a time: {value!r:.80}"
            ) from error


VERSION = Table("schema_version", METADATA, Column("version", Integer))

ITEMS = Table(
    "items",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("path", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("duplicates", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("mtime_ns", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("details", Json, nullable=False),
)

CLASSES = Table(
    "classes",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("active", Boolean, nullable=False),
)

ROUNDS = Table(
    "rounds",
    METADATA,
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("strategy", Text, nullable=False),
    Column("options", Json, nullable=False),
    Column("seed", BigInteger),
    Column("model", Text),
    Column("candidates_digest", Text),
    Column("created", Moment, nullable=False),
)

ROUND_ITEMS = Table(
    "round_items",
    METADATA,
    Column("round", Integer, ForeignKey("rounds.step"), primary_key=True),
    Column("rank", Integer, primary_key=True),
    Column("item", Text, ForeignKey("items.id"), nullable=False),
    Column("role", Text, nullable=False),
)

EVENTS = Table(
    "events",
    METADATA,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("uuid", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("annotator", Text, nullable=False),
    Column("item", Text, ForeignKey("items.id")),
    Column("class_number", Integer, ForeignKey("classes.number")),
    Column("target", BigInteger, ForeignKey("events.sequence")),
    Column("root", BigInteger, ForeignKey("events.sequence")),
    Column("client_time", Moment),
    Column("server_time", Moment, nullable=False),
    Column("round", Integer, ForeignKey("rounds.step")),
    Column("strategy", Text),
    Column("model", Text),
    Column("payload", Json, nullable=False),
)

LEASES = Table(
    "leases",
    METADATA,
    Column("item", Text, ForeignKey("items.id"), primary_key=True),
    Column("annotator", Text, primary_key=True),
    Column("token", Text, nullable=False),
    Column("granted", Moment, nullable=False),
    Column("expires", Moment, nullable=False),
)

CHECKSUMS = Table(
    "checksums",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("checksum", Text, nullable=False),
)

VIEWS = MetaData()

IN_FORCE = EVENTS.to_metadata(VIEWS, name="in_force")  # verdicts that no undo cancels

VERDICTS = Table(  # a view: the last event in force of each annotator on each item
    "verdicts",
    VIEWS,
    Column("item", Text),
    Column("annotator", Text),
    Column("kind", Text),
    Column("class_number", Integer),
    Column("sequence", BigInteger),
    Column("uuid", Text),
    Column("server_time", Moment),
    Column("round", Integer),
    Column("strategy", Text),
    Column("model", Text),
)
