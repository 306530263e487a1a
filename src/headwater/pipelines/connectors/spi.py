"""What a connector is: a name, declared options, and what it can read and write.

A package adds a connector with an entry point in the group `headwater.connectors` that names a
`Connector`. Every function of it gets a `ConnectorTable` whose options were checked: each of them
is declared, and its value fits.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from importlib.metadata import entry_points
from typing import cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructField, StructType

from headwater.config.values import Option, shown
from headwater.errors import InvalidOptionError, UnsupportedError

GROUP = "headwater.connectors"
CONNECTOR = "connector"
FIELD = "#"
"""Stands for a column in the name of an option: `fields.#.kind`."""


class OutputMode(StrEnum):
    """What a stream gives to its sink: new rows, rows that replace others, or the whole result."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorTable:
    """A table as its statement declares it, with the columns that are really stored."""

    name: str
    schema: StructType
    options: Mapping[str, str] = field(default_factory=dict)
    """Without 'connector'."""
    needed: tuple[str, ...] = ()
    """The columns that a read needs, if it is not all; others may be left out."""
    primary_key: tuple[str, ...] = ()
    partitioned_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """How a streaming write runs."""

    job: str
    """Name of the query; it is part of the name under which a sink remembers what it wrote."""
    checkpoint: str
    mode: OutputMode = OutputMode.APPEND
    interval_ms: int | None = None
    """At most one micro-batch per interval; None: as fast as possible."""
    ends: bool = False
    """End when everything is read that there is now."""
    is_new: bool = True
    """The checkpoint is empty, so nothing was written by this job yet."""


Read = Callable[[SparkSession, ConnectorTable], DataFrame]
Write = Callable[[DataFrame, ConnectorTable], None]
WriteStream = Callable[[DataFrame, ConnectorTable, StreamStart], StreamingQuery]


def _never(_table: ConnectorTable) -> bool:
    return False


def _no_pace(_table: ConnectorTable) -> int | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A kind of table. A function that is None is something it cannot do."""

    name: str
    description: str
    options: tuple[Option[object], ...] = ()
    required: tuple[str, ...] = ()
    only_streams: frozenset[str] = frozenset()
    """Options of a table that only streams over it heed, such as where they begin."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What `METADATA FROM 'key'` gives: a Spark expression over the rows that are read."""
    free: tuple[str, ...] = ()
    """Prefixes of options that are passed on unchecked, such as 'properties.'."""
    read: Read | None = None
    """Rows as they are now. Without `read_stream`, streams join them as a fixed table."""
    read_stream: Read | None = None
    write: Write | None = None
    """Append rows, or replace those with the same key."""
    overwrite: Write | None = None
    """Replace all rows."""
    write_stream: WriteStream | None = None
    is_bounded: Callable[[ConnectorTable], bool] = _never
    """Tell whether a streaming read of the table comes to an end."""
    pace_ms: Callable[[ConnectorTable], int | None] = _no_pace
    """How often a streaming read should look for new rows, if the table says so."""
    takes_updates: Callable[[ConnectorTable], bool] = _never
    """Tell whether a stream may replace rows that it wrote before."""


def connector_names() -> tuple[str, ...]:
    """Names of the installed connectors, usable or not."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


@cache
def connector(name: str) -> Connector:
    """Load a connector, or say which ones there are."""
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found:
        names = connector_names()
        close = get_close_matches(name[:200], names, n=1)
        raise UnsupportedError(
            f"There is no connector {shown(name)}.",
            hint=(f"Did you mean '{close[0]}'? " if close else "")
            + f"Installed connectors: {', '.join(names)}. A package adds one with an entry point "
            f"in the group '{GROUP}'.",
        )
    try:
        return cast("Connector", found[0].load())
    except ModuleNotFoundError as fault:
        raise UnsupportedError(
            f"The connector '{name}' needs the package '{fault.name}', which is not installed.",
            hint=f"Run: pip install {fault.name}",
        ) from fault


def checked(of: Connector, table: ConnectorTable) -> ConnectorTable:
    """Check the options of a table; raises for an unknown one, a wrong value or a missing one."""
    declared = {option.name: option for option in of.options}
    given: dict[str, str] = {}
    for name, text in table.options.items():
        if name == CONNECTOR:
            continue
        given[name] = text
        if not name.startswith(of.free or ("\0",)):
            _declared(name, declared, of=of, table=table).read(text)
    for name in of.required:
        if name not in given:
            raise InvalidOptionError(
                f"{table.name} needs the option '{name}'.",
                hint=f"Add '{name}' = '…' to its WITH clause.",
            )
    return replace(table, options=given)


def _declared(
    name: str, declared: Mapping[str, Option[object]], *, of: Connector, table: ConnectorTable
) -> Option[object]:
    found = declared.get(name) or _of_field(name, declared, table.schema.names)
    if found is not None:
        return found
    known = [each for option in declared for each in _spelled(option, table.schema.names)]
    close = get_close_matches(name[:200], known, n=1)
    hint = f"Did you mean '{close[0]}'?" if close else f"Its options are {_listed(declared)}."
    raise InvalidOptionError(
        f"The connector '{of.name}' has no option {shown(name)} ({table.name}).", hint=hint
    )


def _listed(declared: Iterable[str]) -> str:
    return ", ".join(sorted(declared)) or "none"


def _of_field(
    name: str, declared: Mapping[str, Option[object]], columns: Iterable[str]
) -> Option[object] | None:
    """Find the option of a column: `fields.id.kind` is declared as `fields.#.kind`."""
    for declared_name, option in declared.items():
        if FIELD in declared_name and name in _spelled(declared_name, columns):
            return replace(option, name=name)
    return None


def _spelled(name: str, columns: Iterable[str]) -> list[str]:
    return [name.replace(FIELD, column) for column in columns] if FIELD in name else [name]


def needed_fields(table: ConnectorTable) -> StructType:
    """The columns that a read needs, in the order of the table."""
    fields = table.schema.fields
    kept = [each for each in fields if not table.needed or each.name in table.needed]
    return all_nullable(StructType(kept))


def all_nullable(schema: StructType) -> StructType:
    """The same columns, each nullable: Spark demands exactly that of batches from Python."""
    return StructType([StructField(each.name, each.dataType) for each in schema.fields])


# What a statement asks of a table that its connector cannot do.


def refuse(of: Connector, table: ConnectorTable, *, what: str, hint: str) -> UnsupportedError:
    """Make the error for something that a connector cannot do."""
    return UnsupportedError(
        f"{table.name} cannot be {what} by the connector '{of.name}'.", hint=hint
    )


def read_batch(spark: SparkSession, of: Connector, table: ConnectorTable) -> DataFrame:
    """Read a table as it is now."""
    if of.read is None:
        raise refuse(of, table, what="read", hint="It is for writing only.")
    return of.read(spark, checked(of, table))


def read_streaming(spark: SparkSession, of: Connector, table: ConnectorTable) -> DataFrame:
    """Read a table as a stream, or as it is now if its connector has no streams."""
    if of.read_stream is None:
        return read_batch(spark, of, table)
    return of.read_stream(spark, checked(of, table))


def write_batch(rows: DataFrame, of: Connector, table: ConnectorTable, *, overwrite: bool) -> None:
    """Write rows into a table, in addition to its rows or in place of them."""
    write = of.overwrite if overwrite else of.write
    if write is None:
        what = "overwritten" if overwrite else "written"
        hint = "Use INSERT INTO." if overwrite and of.write else "It is for reading only."
        raise refuse(of, table, what=what, hint=hint)
    write(rows, checked(of, table))


def write_streaming(
    rows: DataFrame, of: Connector, table: ConnectorTable, start: StreamStart
) -> StreamingQuery:
    """Start to write a stream into a table."""
    if of.write_stream is None:
        hint = (
            "Write in a batch: SET 'execution.runtime-mode' = 'batch'."
            if of.write
            else "It is for reading only."
        )
        raise refuse(of, table, what="written by a stream", hint=hint)
    known = checked(of, table)
    if start.mode is not OutputMode.APPEND and not of.takes_updates(known):
        raise UnsupportedError(
            f"The query changes rows that it has written before, and {table.name} only takes new "
            "ones.",
            hint="Write into a table with a PRIMARY KEY, or group by a window over a column with a "
            "WATERMARK, so that each result is written once.",
        )
    return of.write_stream(rows, known, start)
