"""The planner: takes what a query asks for when it is bound, and gives the SQL that answers it."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, count
from threading import Lock, local

import pyarrow as pa

from headwater.client.sync.client import Client
from headwater.client.sync.scan import View
from headwater.client.sync.table import Table
from headwater.client.union_scan import ATTEMPTS, LOST
from headwater.engines.duckdb.keyed_files import KeyedFiles
from headwater.engines.duckdb.request import CHANGELOG, NO_QUERY, Request, request_of
from headwater.engines.duckdb.sql import POSITION_COLUMNS, StreamNumbers, nothing, rendered
from headwater.engines.duckdb.streams import NumberedStreams, Relations, RowStream, hinted
from headwater.engines.duckdb.tail_files import TailFiles, TailPlace
from headwater.engines.storages import StoragePlace, opened
from headwater.errors import (
    AccessError,
    HeadwaterError,
    InvalidScanError,
    RequestError,
    UnsupportedError,
)
from headwater.model import Column, Schema, TablePath
from headwater.model.types import BigIntType, RowField, RowType, StringType, TimestampLtzType
from headwater.read.offsets import Start
from headwater.read.split import Hybrid, NativePlan
from headwater.read.virtual import VirtualKind, split_virtual

# Which columns DuckDB can show.


def check_columns(schema: Schema) -> None:
    """Refuse names that DuckDB cannot tell apart, as it does not look at their case."""
    seen: dict[str, str] = {}
    for name in schema.names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise UnsupportedError(
                f"DuckDB cannot tell the columns '{other}' and '{name}' apart.",
                hint="Rename one of them with table.rename_column.",
            )


# Views that queries still read, of which only the newest keep what they have read.

VIEWS_MAX = 16
"""A view by key holds its folded tail: as many as queries run at once, and some more."""


class HeldViews:
    """Give views by what they are made of, and keep the newest ones as they are."""

    def __init__(self, views_max: int = VIEWS_MAX) -> None:
        self._views: OrderedDict[int, View] = OrderedDict()
        self._numbers = count()
        self._views_max = views_max
        self._lock = Lock()

    def keep(self, table: Table, view: View) -> Callable[[], View]:
        """Return what gives the view, at any time later and however often."""
        number, value = next(self._numbers), view.value
        self._put(number, view)

        def found() -> View:
            with self._lock:
                held = self._views.get(number)
            if held is None:
                # It reads the same rows again, since offsets and snapshots do not change.
                held = table.view_of(value)
                self._put(number, held)
            return held

        return found

    def _put(self, number: int, view: View) -> None:
        with self._lock:
            self._views[number] = view
            self._views.move_to_end(number)
            while len(self._views) > self._views_max:
                self._views.popitem(last=False)


# Parts of a log, and logs with what each record did: read from streams alone.

_MILLIS = 3
_DESCRIBED = (
    Column(name="_change_type", type=StringType(nullable=False)),
    Column(name="_log_offset", type=BigIntType(nullable=False)),
    Column(name="_commit_timestamp", type=TimestampLtzType(precision=_MILLIS, nullable=False)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedLog:
    """Hold a part of a log, pinned so that every read gives the same rows."""

    table: Table
    start: Start
    end: Start

    def stream(self) -> RowStream:
        """Return what reads it."""
        return RowStream(tuple(self.table.schema.names), self._rows)

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


def log_range(table: Table, request: Request) -> PinnedLog:
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
    return PinnedLog(table=table, start=start, end=end)


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


# The planner: takes what a query asks for when it is bound, and gives the SQL that answers it.

SHARED_MAX = 64
"""Reads whose SQL is kept for others of the same query."""


class Storages:
    """Find the storage that a query names, or the one that was installed."""

    def __init__(
        self,
        installed: StoragePlace | None,
        lake: Mapping[str, str] | None,
        *,
        is_closed: bool = False,
    ) -> None:
        self._installed = installed
        self._lake = dict(lake or {})
        self._is_closed = is_closed

    def of(self, bootstrap: str | None) -> Client:
        """Return a client."""
        if bootstrap is not None:
            if self._is_closed:
                raise RequestError(
                    "Here only the tables of this storage can be read.",
                    hint="Leave the address out: fluss_read('DATABASE', 'TABLE').",
                )
            return opened(bootstrap, lake=self._lake)
        if self._installed is None:
            raise RequestError(
                "No storage was installed.",
                hint="Name one first, as in fluss_read('host:port', database, table), or give it"
                " to headwater.duckdb.install(con, 'host:port').",
            )
        return opened(self._installed, lake=self._lake)


class SqlPlanner:
    """Turn reads of tables into SQL.

    With `seen` no file is read by DuckDB, which then needs no access to any: all rows come from
    streams, and `seen` is told of the view of every read.
    """

    def __init__(
        self,
        storages: Storages,
        relations: Relations,
        streams: NumberedStreams,
        *,
        seen: Callable[[View], None] | None = None,
    ) -> None:
        self._seen = seen
        self._storages = storages
        self._relations = relations
        self._streams = streams
        self._views = HeldViews()
        place = TailPlace()
        self._tails, self._keyed = TailFiles(place), KeyedFiles(place)
        self._shared: OrderedDict[str, str] = OrderedDict()
        self._lock = Lock()
        self._here = local()

    def plan(self, text: str) -> str:
        """Return the SQL for one read.

        1. What is the same read of the same query as before gives the same rows.
        2. A part of a log comes from a stream.
        3. Anything else is a view of the table: files for DuckDB, streams for the rest.
        """
        with self._lock:
            if text in self._shared:
                return self._shared[text]
        try:
            request = request_of(text)
            sql = self._planned(request)
        except HeadwaterError as fault:
            raise hinted(fault) from None
        if request.query != NO_QUERY and not self.describes:
            with self._lock:
                self._shared[text] = sql
                while len(self._shared) > SHARED_MAX:
                    self._shared.popitem(last=False)
        return sql

    @property
    def describes(self) -> bool:
        """Tell whether only columns are wanted in this thread."""
        return bool(getattr(self._here, "describes", False))

    @contextmanager
    def describing(self) -> Iterator[None]:
        """Plan without rows in this thread: a view is made from the columns of a query."""
        self._here.describes = True
        try:
            yield
        finally:
            self._here.describes = False

    def _planned(self, request: Request) -> str:
        places, virtual = request.places, logged_name(request)
        client = self._storages.of(places.bootstrap)
        table = client.table(TablePath(places.database, virtual or places.table))
        schema = log_schema(table)
        check_columns(schema)
        if self.describes:
            return nothing(schema)
        if virtual is not None or request.is_range:
            return self._logged(table, schema, request)
        for _ in range(1, 1 if request.is_elsewhere else ATTEMPTS):
            # Retention can take away what a view found a moment before: the next finds the rows.
            with suppress(*LOST):
                return self._viewed(table, request)
        return self._viewed(table, request)

    def _logged(self, table: Table, schema: Schema, request: Request) -> str:
        stream = log_range(table, request).stream()
        plan = NativePlan(groups=(), tail=())
        return rendered(schema, plan, self._numbers(table.schema, rows=stream))

    def _viewed(self, table: Table, request: Request) -> str:
        view = table.view(
            token=request.token,
            snapshot_id=request.snapshot_id,
            as_of=request.moment,
            offsets=request.to_offsets or None,
            mode=request.mode,
        )
        schema = view.value.table.schema
        check_columns(schema)
        if self._seen is not None:
            self._seen(view)
            plan = NativePlan(groups=(), tail=(), others=view.plan().splits, key=schema.primary_key)
            rows = _rows(self._views.keep(table, view), schema, plan)
            return rendered(schema, plan, self._numbers(view.schema, rows=rows))
        plan = native = _native(view, schema)
        if not request.is_elsewhere:
            files = self._keyed if table.is_keyed else self._tails
            # Files hold all columns; who may not read all reads those of the query, from streams.
            with suppress(AccessError):
                plan = files.with_tail(view, native)
        kept = self._views.keep(table, view)
        keys = _keys(kept, native) if any(group.is_touched for group in plan.groups) else None
        numbers = self._numbers(view.schema, rows=_rows(kept, schema, plan), keys=keys)
        return rendered(schema, plan, numbers)

    def _numbers(
        self, schema: pa.Schema, *, rows: RowStream | None, keys: RowStream | None = None
    ) -> StreamNumbers:
        relation, marker = self._relations.of(schema)
        return StreamNumbers(
            relation=relation,
            marker=marker,
            rows=None if rows is None else self._streams.add(rows),
            keys=None if keys is None else self._streams.add(keys),
        )


def _native(view: View, schema: Schema) -> NativePlan:
    plan = view.native_plan()
    names = {name.casefold() for group in plan.groups for _, name in group.names}
    if not names & POSITION_COLUMNS or not any(group.files[0].deletes for group in plan.groups):
        return plan
    # DuckDB could not tell such a column from the position of a row.
    return NativePlan(groups=(), tail=(), others=view.plan().splits, key=schema.primary_key)


def _rows(view: Callable[[], View], schema: Schema, plan: NativePlan) -> RowStream | None:
    if not plan.tail and not plan.others:
        return None

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        held = view()
        return chain(
            held.tail_rows(plan.tail, columns=columns), held.read(plan.others, columns=columns)
        )

    return RowStream(schema.names, read)


def _keys(view: Callable[[], View], plan: NativePlan) -> RowStream:
    tail = [split for split in plan.tail if isinstance(split, Hybrid)]

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return iter(view().changed_keys(tail).select(list(columns)).to_batches())

    return RowStream(plan.key, read)
