"""The planner: takes what a query asks for when it is bound, and gives the SQL that answers it."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from threading import Lock, local

import pyarrow as pa

from headwater.client.sync.client import Client
from headwater.client.sync.table import Table
from headwater.client.sync.view import View
from headwater.client.union.scanning import ATTEMPTS, LOST
from headwater.client.union.split import NativePlan, Tier
from headwater.engines.duckdb.columns import check_columns
from headwater.engines.duckdb.held_views import HeldViews
from headwater.engines.duckdb.hints import hinted
from headwater.engines.duckdb.logged import log_range, log_schema, logged_name
from headwater.engines.duckdb.relations import Relations
from headwater.engines.duckdb.rendering import (
    POSITION_COLUMNS,
    StreamNumbers,
    nothing,
    rendered,
)
from headwater.engines.duckdb.request import NO_QUERY, Request, request_of
from headwater.engines.duckdb.streams import NumberedStreams, Stream
from headwater.engines.duckdb.tail_files import TailFiles
from headwater.engines.storages import Place, opened
from headwater.errors import HeadwaterError, RequestError
from headwater.model.path import TablePath
from headwater.model.schema import Schema

SHARED_MAX = 64
"""Reads whose SQL is kept for others of the same query."""


class Storages:
    """Find the storage that a query names, or the one that was installed."""

    def __init__(self, installed: Place | None, lake: Mapping[str, str] | None) -> None:
        self._installed = installed
        self._lake = dict(lake or {})

    def of(self, bootstrap: str | None) -> Client:
        """Return a client."""
        if bootstrap is not None:
            return opened(bootstrap, lake=self._lake)
        if self._installed is None:
            raise RequestError(
                "No storage was installed.",
                hint="Name one first, as in fluss_read('host:port', database, table), or give it"
                " to headwater.duckdb.install(con, 'host:port').",
            )
        return opened(self._installed, lake=self._lake)


class Planner:
    """Turn reads of tables into SQL."""

    def __init__(self, storages: Storages, relations: Relations, streams: NumberedStreams) -> None:
        self._storages = storages
        self._relations = relations
        self._streams = streams
        self._views = HeldViews()
        self._tails = TailFiles()
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
        plan = _native(view, schema)
        if not request.is_elsewhere:
            plan = self._tails.with_tail(view, plan)
        kept = self._views.keep(table, view)
        numbers = self._numbers(view.schema, rows=_rows(kept, schema, plan), keys=_keys(kept, plan))
        return rendered(schema, plan, numbers)

    def _numbers(
        self, schema: pa.Schema, *, rows: Stream | None, keys: Stream | None = None
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


def _rows(view: Callable[[], View], schema: Schema, plan: NativePlan) -> Stream | None:
    if not plan.tail and not plan.others:
        return None

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        held = view()
        return chain(
            held.tail_rows(plan.tail, columns=columns), held.read(plan.others, columns=columns)
        )

    return Stream(schema.names, read)


def _keys(view: Callable[[], View], plan: NativePlan) -> Stream | None:
    if not any(group.is_touched for group in plan.groups):
        return None
    tail = [split for split in plan.tail if split.tier is Tier.HYBRID]

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return iter(view().changed_keys(tail).select(list(columns)).to_batches())

    return Stream(plan.key, read)
