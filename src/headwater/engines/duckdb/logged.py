"""Parts of a log, and logs with what each record did: read from streams alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from headwater.client.reading.starts import Start
from headwater.client.sync.table import Table
from headwater.client.virtual import VirtualKind, split_virtual
from headwater.engines.duckdb.request import CHANGELOG, Request
from headwater.engines.duckdb.streams import Stream
from headwater.errors import InvalidScanError, RequestError
from headwater.model.schema import Column, Schema
from headwater.model.types import (
    BigIntType,
    RowField,
    RowType,
    StringType,
    TimestampLtzType,
)

_MILLIS = 3
_DESCRIBED = (
    Column(name="_change_type", type=StringType(nullable=False)),
    Column(name="_log_offset", type=BigIntType(nullable=False)),
    Column(name="_commit_timestamp", type=TimestampLtzType(precision=_MILLIS, nullable=False)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """Hold a part of a log, pinned so that every read gives the same rows."""

    table: Table
    start: Start
    end: Start

    def stream(self) -> Stream:
        """Return what reads it."""
        return Stream(tuple(self.table.schema.names), self._rows)

    def _rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return iter(self.table.scan(columns=list(columns), start=self.start, end=self.end))


def logged_name(request: Request) -> str | None:
    """Return the virtual table that is asked for by mode or by name; None for a plain table."""
    base, kind = split_virtual(request.places.table)
    if request.mode != CHANGELOG:
        return None if kind is None else request.places.table
    if kind is VirtualKind.BINLOG:
        raise RequestError(
            f"'{request.places.table}' is read in mode '{CHANGELOG}'.", hint="Leave the mode out."
        )
    return f"{base}${VirtualKind.CHANGELOG}"


def log_range(table: Table, request: Request) -> LogRange:
    """Return the part of a log that is asked for, up to this moment if no end is named."""
    if table.is_keyed:
        raise InvalidScanError(
            f"{table.path} has a primary key, so it is read at a position, not from one on.",
            hint=f"Use as_of or to_offsets, or mode := '{CHANGELOG}'.",
        )
    start: Start = request.from_offsets or request.from_ts or "earliest"
    end: Start = request.to_offsets or request.moment or table.offsets("latest")
    if isinstance(end, datetime) and isinstance(start, datetime) and end < start:
        raise RequestError(f"The range ends at {end}, before it begins at {start}.")
    return LogRange(table=table, start=start, end=end)


def log_schema(table: Table) -> Schema:
    """Return the columns of a table, virtual or not."""
    schema = table.info.schema
    _, kind = split_virtual(table.name)
    match kind:
        case None:
            return schema
        case VirtualKind.CHANGELOG:
            return Schema(columns=(*_DESCRIBED, *schema.columns))
        case VirtualKind.BINLOG:
            return Schema(columns=(*_DESCRIBED, *_images(schema)))


def _images(schema: Schema) -> tuple[Column, Column]:
    fields = tuple(RowField(name=each.name, type=each.type) for each in schema.columns)
    image = Column(name="before", type=RowType(fields=fields))
    return image, replace(image, name="after")
