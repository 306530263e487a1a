"""Rows of a table: parts of its log from anywhere, its rows at a position, one key with its past.

Whatever is asked for, an answer is small and comes soon: limits of rows and of seconds end every
read, and the page says which of them did.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

from headwater.client.client import AsyncClient
from headwater.client.sync.client import Client
from headwater.client.sync.scan import View
from headwater.client.sync.table import Table
from headwater.client.sync.tail import Tail
from headwater.console.facts.lags import place_text
from headwater.errors import InvalidValueError, RequestError
from headwater.model import TablePath
from headwater.model.path import spec_of_name
from headwater.read.filters import OPERATORS, Where
from headwater.read.literals import Value
from headwater.read.offsets import LogBatch, Offsets, Place, buckets_of, list_offsets
from headwater.rows.log_batch import ChangeType
from headwater.runtime.clock import Clock

ROWS_DEFAULT = 100
ROWS_MAX = 1000
BUCKETS_MAX = 256
"""Buckets that one page of a log reads; of a table with more, a partition has to be chosen."""
READ_S_MAX = 8.0
POLL_S = 0.5
HISTORY_MAX = 200
CHANGES = {
    ChangeType.APPEND: "",
    ChangeType.INSERT: "insert",
    ChangeType.UPDATE_BEFORE: "before",
    ChangeType.UPDATE_AFTER: "update",
    ChangeType.DELETE: "delete",
}
FILTERS = ("=", "!=", "<", "<=", ">", ">=")
_LAST = "last"


@dataclass(frozen=True, slots=True)
class RowsTable:
    """Rows with the names and types of their columns."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[object, ...], ...]
    note: str = ""
    """Why there may be more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """One row of a log."""

    bucket: str
    offset: int
    at_ms: int
    change: str
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """Some rows of a log, and where the next ones are."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[LogRow, ...]
    following: str
    """Where the next page starts, as text."""
    is_end: bool
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsQuery:
    """Which rows are asked for."""

    start: str = _LAST
    partition: str = ""
    column: str = ""
    operator: str = "="
    value: str = ""
    limit: int = ROWS_DEFAULT

    @property
    def is_filtered(self) -> bool:
        """Tell whether there is a filter."""
        return bool(self.column)


# What people type.


def typed(text: str, kind: pa.DataType) -> Value:
    """Convert a text to a value of a column."""
    try:
        if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
            return bytes.fromhex(text.removeprefix("0x"))
        return pa.array([text]).cast(kind)[0].as_py()
    except (pa.ArrowException, ValueError):
        raise InvalidValueError(f"{text[:80]!r} is not a value of type {kind}.") from None


def filter_of(query: RowsQuery, schema: pa.Schema) -> Where | None:
    """Return the filter of a query, with a value of the column's type."""
    if not query.is_filtered:
        return None
    if query.column not in schema.names:
        raise RequestError(f"There is no column {query.column[:80]!r}.")
    if query.operator not in OPERATORS:
        raise RequestError(f"There is no operator {query.operator[:20]!r}.")
    return [(query.column, query.operator, typed(query.value, schema.field(query.column).type))]


def positions_text(positions: Offsets) -> str:
    """Write positions, so that a page can go on there."""
    listed = [[place.partition, place.bucket, at] for place, at in positions.items()]
    return json.dumps(listed, separators=(",", ":"))


def positions_of(text: str) -> dict[Place, int]:
    """Read positions that were written before."""
    try:
        listed = json.loads(text)
        return {Place(partition, int(bucket)): int(at) for partition, bucket, at in listed}
    except (ValueError, TypeError):
        raise RequestError(f"{text[:80]!r} is not a position.") from None


def moment_of(text: str) -> datetime:
    """Read a moment in ISO format; without a zone it is in UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise RequestError(
            f"{text[:80]!r} is not a place to start.",
            hint="Use earliest, latest, last, an offset, or a time like 2026-03-01T12:30:00Z.",
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


# The log.


@dataclass(frozen=True, slots=True)
class _Ends:
    starts: Offsets
    ends: Offsets
    moments: Offsets | None


def _ends(client: Client, path: TablePath, *, partition: str, at: datetime | None) -> _Ends:
    async def ask(awaiting: AsyncClient) -> _Ends:
        info = (await awaiting.table(path)).info
        cluster = awaiting.cluster
        wanted = None
        if partition and not info.is_partitioned:
            raise RequestError(f"{path} has no partitions.")
        if info.is_partitioned:
            names = sorted(await cluster.partitions(info))
            if not partition and len(names) * info.bucket_count > BUCKETS_MAX:
                raise RequestError(
                    f"{path} has {len(names)} partitions.", hint="Choose one of them."
                )
            wanted = [partition] if partition else names
        buckets = await buckets_of(cluster, info, partitions=wanted)
        starts = await list_offsets(cluster, info, "earliest", buckets=buckets)
        ends = await list_offsets(cluster, info, "latest", buckets=buckets)
        moments = None
        if at is not None:
            moments = await list_offsets(cluster, info, at, buckets=buckets)
        return _Ends(starts, ends, moments)

    return client.run(ask)


def start_of(query: RowsQuery, starts: Offsets, ends: Offsets) -> dict[Place, int]:
    """Return where to start in each bucket, within what its log holds."""
    text = query.start
    if text == "earliest":
        return dict(starts)
    if text == "latest":
        return dict(ends)
    if text == _LAST:
        back = max(1, query.limit // max(len(ends), 1))
        return {place: max(starts[place], end - back) for place, end in ends.items()}
    if text.isdigit():
        at = int(text)
        return {place: max(starts[place], min(at, end)) for place, end in ends.items()}
    named = positions_of(text)
    return {place: max(named.get(place, first), first) for place, first in starts.items()}


def log_page(client: Client, path: TablePath, query: RowsQuery, clock: Clock) -> LogPage:
    """Read some rows of a log."""
    is_moment = query.start not in ("earliest", "latest", _LAST) and not (
        query.start.isdigit() or query.start.startswith("[")
    )
    at = moment_of(query.start) if is_moment else None
    found = _ends(client, path, partition=query.partition, at=at)
    start = start_of(query, found.starts, found.ends) if found.moments is None else found.moments
    table = client.table(path)
    return _read_log(table, query, start=start, ends=found.ends, clock=clock)


def _read_log(
    table: Table, query: RowsQuery, *, start: Offsets, ends: Offsets, clock: Clock
) -> LogPage:
    schema = table.schema
    left = {place for place, at in start.items() if at < ends[place]}
    # Each bucket that has rows gives as many of them, so that none hides the others.
    collected = _Collected(dict(start), max(1, query.limit // max(len(left), 1)))
    keys = table.info.descriptor.partition_keys
    chosen = [dict(spec_of_name(query.partition, keys))] if query.partition and keys else None
    note = ""
    if left:
        with table.tail(start, where=filter_of(query, schema), partitions=chosen) as tail:
            note = _collect(tail, collected, left=left, ends=ends, clock=clock)
    positions = collected.positions
    return LogPage(
        columns=tuple((field.name, str(field.type)) for field in schema),
        rows=tuple(sorted(collected.rows, key=lambda row: (row.at_ms, row.bucket, row.offset))),
        following=positions_text(positions),
        is_end=all(at >= ends[place] for place, at in positions.items()),
        note=note,
    )


def _collect(
    tail: Tail, collected: "_Collected", *, left: set[Place], ends: Offsets, clock: Clock
) -> str:
    """Read until every bucket gave its share or ended; returns why it stopped before that."""
    deadline_s, note = clock.monotonic() + READ_S_MAX, ""
    while left and not note:
        for batch in tail.poll(POLL_S):
            collected.take(batch)
        position = tail.position
        left = {
            place
            for place in left
            if not collected.is_full(place) and position[place] < ends[place]
        }
        if left and clock.monotonic() >= deadline_s:
            note = f"Reading was stopped after {READ_S_MAX:.0f} s: there may be more."
    collected.advance(tail.position)
    return note


@dataclass(slots=True)
class _Collected:
    """Rows of all buckets, as many of each, and up to where each bucket was read."""

    positions: dict[Place, int]
    share: int
    rows: list[LogRow] = field(default_factory=list)
    _counts: dict[Place, int] = field(default_factory=dict)

    def is_full(self, place: Place) -> bool:
        """Tell whether a bucket has given its share."""
        return self._counts.get(place, 0) >= self.share

    def take(self, batch: LogBatch) -> None:
        """Take rows of a batch, up to the share of its bucket."""
        place = Place(batch.partition, batch.bucket.bucket)
        count = min(batch.rows.num_rows, self.share - self._counts.get(place, 0))
        if count <= 0:
            return
        self._counts[place] = self._counts.get(place, 0) + count
        taken, times = batch.rows.slice(0, count), batch.row_timestamps()
        values = list(zip(*(column.to_pylist() for column in taken.columns), strict=True))
        for at, row in enumerate(values):
            change = ChangeType.APPEND if batch.changes is None else ChangeType(batch.changes[at])
            self.rows.append(
                LogRow(
                    bucket=place_text(place),
                    offset=int(batch.offsets[at]),
                    at_ms=int(times[at]),
                    change=CHANGES[change],
                    values=row,
                )
            )
        self.positions[place] = int(batch.offsets[count - 1]) + 1

    def advance(self, read: Offsets) -> None:
        """Note how far buckets were read in which nothing more was found."""
        for place, at in read.items():
            if place in self.positions and not self.is_full(place):
                self.positions[place] = max(self.positions[place], at)


# Rows at a position.


def view_of(table: Table, *, token: str, moment: str, mode: str) -> View:
    """Open a table at a token, at a moment, or now."""
    if mode not in ("union", "lake", "log"):
        raise RequestError(f"{mode[:20]!r} is none of union, lake and log.")
    return table.view(token=token or None, as_of=moment_of(moment) if moment else None, mode=mode)


def union_rows(view: View, query: RowsQuery, clock: Clock) -> RowsTable:
    """Read the first rows of a view that match."""
    scan = view.scan(where=filter_of(query, view.schema), limit=query.limit)
    return rows_within(scan, scan.schema, limit=query.limit, clock=clock)


def rows_within(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, limit: int, clock: Clock
) -> RowsTable:
    """Read rows until there are enough, or until it has taken too long."""
    rows: list[tuple[object, ...]] = []
    note, deadline_s = "", clock.monotonic() + READ_S_MAX
    for batch in batches:
        taken = batch.slice(0, limit - len(rows))
        rows += zip(*(column.to_pylist() for column in taken.columns), strict=True)
        if len(rows) >= limit:
            note = f"The first {limit:,} rows that were found."
            break
        if clock.monotonic() > deadline_s:
            note = f"Reading was stopped after {READ_S_MAX:.0f} s."
            break
    columns = tuple((each.name, str(each.type)) for each in schema)
    return RowsTable(columns, tuple(rows), note)


# One key.


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFacts:
    """The row of a key, and what happened to it."""

    row: tuple[tuple[str, object], ...] | None
    history: RowsTable


def key_of(table: Table, given: Mapping[str, str]) -> dict[str, Value]:
    """Return the key that a form names, with the types of its columns."""
    schema = table.schema
    return {
        name: typed(given.get(name, ""), schema.field(name).type)
        for name in table.info.schema.primary_key
    }


def key_facts(client: Client, path: TablePath, given: Mapping[str, str], clock: Clock) -> KeyFacts:
    """Look a key up, and follow it through the changelog that is still there."""
    table = client.table(path)
    key = key_of(table, given)
    row = table.get(key)
    log = client.table(TablePath(path.database, f"{path.table}$changelog"))
    scan = log.scan(where=[(name, "=", value) for name, value in key.items()])
    return KeyFacts(
        row=None if row is None else tuple(row.items()),
        history=rows_within(scan, scan.schema, limit=HISTORY_MAX, clock=clock),
    )
