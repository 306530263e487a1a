"""Blocking access to a table, and its writers."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Literal, Self

import pyarrow as pa

from headwater.client.sync.scan import Scan, View
from headwater.client.sync.tail import Cursor, Tail
from headwater.client.table import AsyncTable
from headwater.client.view import AsyncView
from headwater.client.writer import AsyncWriter
from headwater.cluster.schema_in import OptionValue
from headwater.epochs.intake import EpochReceipt
from headwater.model import DataType, TableInfo, TablePath
from headwater.read.filters import Where
from headwater.read.offsets import Offsets, Start
from headwater.read.view import NamedOffsets, PositionQuery, TableView
from headwater.rows.columns import shown
from headwater.runtime.loops import LoopThread
from headwater.write.receipts import Receipt
from headwater.write.rows_in import KeyLike, KeysLike, RowsLike


class Writer:
    """Sends rows without waiting for each; leaving the `with` block waits for all of them.

    A single row (a dictionary, or a tuple of plain values) is held for a few milliseconds, until
    others have joined it; everything else is sent at once. Order is kept, and memory is
    bounded: a call waits while too many rows are in flight. What goes wrong after a call has
    returned is raised by the next call, by `flush`, or when the block is left, and says what was
    written.
    """

    def __init__(self, loop: LoopThread, writer: AsyncWriter) -> None:
        self._loop = loop
        self._writer = writer

    def __repr__(self) -> str:
        return shown(self, self._writer.name)

    def write(self, rows: RowsLike) -> None:
        """Append rows, or upsert them if the table has a primary key."""
        # by hand: a row that can be held costs neither another thread nor a turn of the loop
        if not self._writer.take(rows):
            self._loop.run(self._writer.write(rows))

    def append(self, rows: RowsLike) -> None:
        """Append rows to a log table."""
        # by hand: goes through `write`
        self._writer.check_log()
        self.write(rows)

    def upsert(self, rows: RowsLike) -> None:
        """Insert rows, or replace those with the same key."""
        # by hand: goes through `write`
        self._writer.check_keyed("upserted")
        self.write(rows)

    def delete(self, keys: KeysLike) -> None:
        """Delete rows by key, after everything written before."""
        # by hand: a key that can be held costs neither another thread nor a turn of the loop
        self._writer.check_keyed("deleted")
        if not self._writer.take_delete(keys):
            self._loop.run(self._writer.delete(keys))

    def flush(self) -> Receipt:
        """Wait until everything so far is on disk; raise the first error."""
        return self._loop.run(self._writer.flush())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.run(self._writer.__aexit__(kind, fault, trace))


# The table.


class Table:
    """One table: write its rows, look them up, scan them, follow them.

    Rows are passed as Arrow (a table, batch or reader), pandas or Polars frames, dictionaries or
    tuples, and come back as Arrow. The examples use a storage `hw` and these tables:

    >>> orders = hw.create_table("orders", {"id": "BIGINT", "city": "STRING", "amount": "DOUBLE"})
    >>> customers = hw.create_table(
    ...     "customers", {"id": "BIGINT", "name": "STRING", "visits": "INT"}, primary_key="id"
    ... )
    """

    def __init__(self, loop: LoopThread, table: AsyncTable) -> None:
        self._loop = loop
        self._table = table

    # ---- what it is

    @property
    def path(self) -> TablePath:
        """Database and name."""
        return self._table.path

    @property
    def name(self) -> str:
        """Name with its database, and with its suffix if the table is virtual."""
        return self._table.name

    @property
    def info(self) -> TableInfo:
        """What the storage knows about the table: ids, keys, buckets, options."""
        # by hand: an attribute of the table that awaits
        return self._table.info

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows."""
        return self._table.schema

    @property
    def is_keyed(self) -> bool:
        """Tell whether the table has a primary key."""
        # by hand: an attribute of the table that awaits
        return self._table.is_keyed

    def __repr__(self) -> str:
        return shown(self, self.name)

    # ---- writing

    def append(self, rows: RowsLike) -> Receipt:
        """Append rows to a log table; when this returns, they are on disk.

        Each call waits for the disk, and stores its own batch: for rows that arrive one by
        one, use `writer`.

        >>> orders.append([{"id": 1, "city": "Ulm", "amount": 9.5}, {"id": 2, "city": "Bonn"}]).rows
        2
        """
        # by hand: few rows are written from the caller's thread
        table = self._table
        short = None if table.is_keyed else table.short or table.short_writer(self._loop)
        receipt = None if short is None else short.write(rows)
        return self._loop.run(table.append(rows)) if receipt is None else receipt

    def upsert(self, rows: RowsLike, *, columns: str | Sequence[str] | None = None) -> Receipt:
        """Insert rows into a primary-key table, or replace those with the same key.

        With `columns` only these are written and the others keep their values; the key is part
        of them. Each call waits for the disk: for rows that arrive one by one, use `writer`.

        >>> customers.upsert({"id": 1, "name": "Ada", "visits": 1}).rows
        1
        >>> customers.upsert({"id": 1, "visits": 2}, columns=["id", "visits"]).rows
        1
        >>> customers.get({"id": 1})
        {'id': 1, 'name': 'Ada', 'visits': 2}
        """
        # by hand: few rows are written from the caller's thread
        table, short = self._table, None
        if columns is None and table.is_keyed:
            short = table.short or table.short_writer(self._loop)
        receipt = None if short is None else short.write(rows)
        if receipt is not None:
            return receipt
        return self._loop.run(table.upsert(rows, columns=columns))

    def delete(self, keys: KeysLike) -> Receipt:
        """Delete the rows with these keys; missing keys are ignored.

        >>> customers.delete([{"id": 1}]).rows
        1
        """
        return self._loop.run(self._table.delete(keys))

    def writer(self) -> Writer:
        """Open a writer that accepts single rows and small batches without waiting for each.

        >>> with orders.writer() as writer:
        ...     for number in range(100):
        ...         writer.append({"id": number})
        >>> orders.count()
        102
        """
        return Writer(self._loop, self._table.writer())

    def write_epoch(  # noqa: PLR0913 - one argument per choice
        self,
        rows: RowsLike,
        *,
        sink: str,
        epoch: int,
        lane: int = 0,
        deletes: str | None = None,
        columns: str | Sequence[str] | None = None,
        begins: Offsets | None = None,
    ) -> EpochReceipt:
        """Write the rows of an epoch once, however often and by however many it is attempted.

        A sink writes epochs in order, each after the one before is written; its lanes write in
        parallel. Every attempt must pass the same rows for a sink, epoch and lane, in any
        order; rows of one key keep their order. `deletes` names a BOOLEAN column of the
        rows that says which of them delete their key. With `begins`, the offsets that
        `offsets()` returned before the first attempt, nothing is recorded in the table
        `headwater.sinks`: for a sink with a single epoch.

        >>> customers.write_epoch([{"id": 7, "name": "Emmy"}], sink="load", epoch=0).batches_written
        1
        >>> customers.write_epoch([{"id": 7, "name": "Emmy"}], sink="load", epoch=0).batches_written
        0
        """
        return self._loop.run(
            self._table.write_epoch(
                rows,
                sink=sink,
                epoch=epoch,
                lane=lane,
                deletes=deletes,
                columns=columns,
                begins=begins,
            )
        )

    # ---- reading by key

    def get(self, key: KeyLike) -> dict[str, object] | None:
        """Get the row with a key, or None; pass a key of one column as its value.

        >>> customers.upsert({"id": 2, "name": "Alan"}).rows
        1
        >>> customers.get(2) == customers.get({"id": 2})
        True
        >>> customers.get(2)
        {'id': 2, 'name': 'Alan', 'visits': None}
        """
        # by hand: a row that is in reach is read from the caller's thread
        self._loop.check()
        found = self._table.get_now(key, may_wait=True)
        if found is None:
            return self._loop.run(self._table.get(key))
        return found[0] if found else None

    def lookup(
        self,
        keys: KeysLike,
        *,
        columns: str | Sequence[str] | None = None,
        keep_missing: bool = False,
        insert_missing: bool = False,
    ) -> pa.Table:
        """Look up the rows with these keys, in the order of the keys.

        Missing keys are left out, or with `keep_missing` give a row that contains only
        the key. With `insert_missing` a row is created for them, with numbers in an
        auto-increment column.

        >>> customers.lookup([2, 3], columns=["name"]).to_pylist()
        [{'name': 'Alan'}]
        """
        # by hand: few rows that are in reach are read from the caller's thread
        self._loop.check()
        if not insert_missing:
            rows = self._table.lookup_now(keys, columns=columns, keep_missing=keep_missing)
            if rows is not None:
                return rows
        return self._loop.run(
            self._table.lookup(
                keys, columns=columns, keep_missing=keep_missing, insert_missing=insert_missing
            )
        )

    def prefix_lookup(
        self, prefixes: KeysLike, *, columns: str | Sequence[str] | None = None
    ) -> pa.Table:
        """Look up all rows whose keys begin with these values of the bucket key.

        >>> visits = hw.create_table(
        ...     "visits",
        ...     {"city": "STRING", "day": "INT"},
        ...     primary_key=["city", "day"],
        ...     bucket_by="city",
        ... )
        >>> visits.upsert([("Ulm", 1), ("Ulm", 2), ("Bonn", 1)]).rows
        3
        >>> visits.prefix_lookup({"city": "Ulm"}).num_rows
        2
        """
        return self._loop.run(self._table.prefix_lookup(prefixes, columns=columns))

    # ---- reading it all

    def view(
        self,
        *,
        token: str | None = None,
        snapshot_id: int | None = None,
        as_of: datetime | int | None = None,
        offsets: NamedOffsets | None = None,
        mode: str = "union",
    ) -> View:
        """The table at one position, by default the newest, to be read any number of times.

        A position is that of a `token`, the end of a lake snapshot, the moment `as_of`, or an
        offset for each bucket. With a lake, rows come from a snapshot and from the log after it;
        `mode` leaves one of them out ("lake", "log").

        >>> view = orders.view()
        >>> view.scan(limit=3).to_arrow().num_rows
        3
        >>> orders.view(token=view.token()).offsets == view.offsets
        True
        """
        found = self._loop.run(
            self._table.view(
                token=token, snapshot_id=snapshot_id, as_of=as_of, offsets=offsets, mode=mode
            )
        )
        return View(self._loop, found)

    def view_of(self, value: TableView) -> View:
        """Restore a view from its value, which may come from another process.

        >>> orders.view_of(view.value).token() == view.token()
        True
        """
        # by hand: made from the cluster of the table that awaits
        return View(self._loop, AsyncView.of(self._table.cluster, value))

    def scan(  # noqa: PLR0913 - one argument per choice
        self,
        *,
        columns: str | Sequence[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        partitions: Iterable[Mapping[str, str]] | None = None,
        start: Start | None = None,
        end: Start | None = None,
        token: str | None = None,
        snapshot_id: int | None = None,
        as_of: datetime | int | None = None,
        offsets: NamedOffsets | None = None,
        mode: str = "union",
    ) -> Scan:
        """Scan the current rows: all rows of a log table, the last of each key otherwise.

        This includes rows in the lake. With `token`, `snapshot_id`, `as_of` or `offsets` rows
        are read as they were then; see `view`.

        >>> orders.scan(columns=["id", "city"], where=[("city", "==", "Ulm")]).to_pylist()
        [{'id': 1, 'city': 'Ulm'}]
        """
        # by hand: the columns of a token are known only once its position was looked up
        wish = PositionQuery(
            token=token, snapshot_id=snapshot_id, as_of=as_of, offsets=offsets, mode=mode
        )
        if wish.token is not None and start is None and end is None:
            # The columns are those of the token, so the position is resolved first.
            view = self.view(token=token, mode=mode)
            return view.scan(columns=columns, where=where, limit=limit, partitions=partitions)
        scan = self._table.scan(
            columns=columns,
            where=where,
            limit=limit,
            partitions=partitions,
            start=start,
            end=end,
            token=token,
            snapshot_id=snapshot_id,
            as_of=as_of,
            offsets=offsets,
            mode=mode,
        )
        return Scan(self._loop, scan)

    def tail(
        self,
        start: Start = "earliest",
        *,
        columns: str | Sequence[str] | None = None,
        where: Where | None = None,
        partitions: Iterable[Mapping[str, str]] | None = None,
        discovery_s: float = 10.0,
    ) -> Tail:
        """Follow the table from the start, the end ("latest"), offsets, or a moment.

        >>> with orders.tail({0: 100}) as tail:
        ...     batches = tail.poll(timeout_s=5.0)
        >>> [number for batch in batches for number in batch.rows["id"].to_pylist()]
        [98, 99]
        """
        found = self._loop.run(
            self._table.tail(
                start, columns=columns, where=where, partitions=partitions, discovery_s=discovery_s
            )
        )
        return Tail(self._loop, found)

    def cursor(  # noqa: PLR0913 - one argument per choice
        self,
        name: str,
        *,
        start: Start = "earliest",
        auto_commit: bool = True,
        commit_interval_s: float = 1.0,
        lease_s: float = 10.0,
        idle_s: float = 300.0,
        columns: str | Sequence[str] | None = None,
        where: Where | None = None,
    ) -> Cursor:
        """Follow the table together with all users of this name, each with a share of the buckets.

        Positions are stored in the storage. A cursor that is used for the first time begins at
        `start`; a member that is not heard from for `lease_s` loses its buckets to the others.

        >>> with orders.cursor("billing", columns=["id"]) as cursor:
        ...     sum(batch.rows.num_rows for batch in cursor.poll(timeout_s=5.0))
        102
        """
        found = self._table.cursor(
            name,
            start=start,
            auto_commit=auto_commit,
            commit_interval_s=commit_interval_s,
            lease_s=lease_s,
            idle_s=idle_s,
            columns=columns,
            where=where,
        )
        return Cursor(self._loop, found)

    def offsets(self, at: Literal["earliest", "latest"] | datetime = "latest") -> Offsets:
        """The offset of each bucket: the first, the next to be written, or at a moment.

        >>> list(orders.offsets("latest").values())
        [102]
        """
        return self._loop.run(self._table.offsets(at))

    def count(self) -> int:
        """Count the rows.

        >>> customers.count()
        2
        """
        return self._loop.run(self._table.count())

    # ---- partitions

    def partitions(self) -> list[dict[str, str]]:
        """List the partitions, each with the value of every partition column."""
        return self._loop.run(self._table.partitions())

    def create_partition(self, spec: Mapping[str, str], *, exists_ok: bool = False) -> None:
        """Create a partition; writing rows also creates missing ones."""
        self._loop.run(self._table.create_partition(spec, exists_ok=exists_ok))

    def drop_partition(self, spec: Mapping[str, str], *, missing_ok: bool = False) -> None:
        """Drop a partition and its rows."""
        self._loop.run(self._table.drop_partition(spec, missing_ok=missing_ok))

    # ---- changing it

    def add_column(
        self, name: str, data_type: str | DataType, *, comment: str | None = None
    ) -> None:
        """Add a column, which is null in existing rows.

        >>> orders.add_column("tip", "DECIMAL(6, 2)")
        >>> orders.schema.names
        ['id', 'city', 'amount', 'tip']
        """
        self._loop.run(self._table.add_column(name, data_type, comment=comment))

    def drop_column(self, name: str) -> None:
        """Drop a column."""
        self._loop.run(self._table.drop_column(name))

    def rename_column(self, old: str, new: str) -> None:
        """Rename a column."""
        self._loop.run(self._table.rename_column(old, new))

    def set_options(self, options: Mapping[str, OptionValue]) -> None:
        """Set options.

        >>> orders.set_options({"table.log.ttl": "30 d"})
        """
        self._loop.run(self._table.set_options(options))

    def reset_options(self, keys: str | Sequence[str]) -> None:
        """Reset options to their defaults."""
        self._loop.run(self._table.reset_options(keys))

    def refresh(self) -> None:
        """Reload the table's schema and options, which others may have changed."""
        self._loop.run(self._table.refresh())
