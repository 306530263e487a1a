"""A table for callers that do not await."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal

import pyarrow as pa

from headwater.client.descriptors import OptionValue
from headwater.client.epochs.receipts import EpochReceipt
from headwater.client.keys_in import KeyLike, KeysLike
from headwater.client.reading.filters import Where
from headwater.client.reading.log_batch import Offsets
from headwater.client.reading.starts import Start
from headwater.client.rows_in import RowsLike
from headwater.client.showing import shown
from headwater.client.sync.cursor import Cursor
from headwater.client.sync.scan import Scan
from headwater.client.sync.tail import Tail
from headwater.client.sync.view import View
from headwater.client.sync.writer import Writer
from headwater.client.table import AsyncTable
from headwater.client.union.positions import NamedOffsets, Wish
from headwater.client.union.view import TableView
from headwater.client.union.viewing import AsyncView
from headwater.client.writing.receipts import Receipt
from headwater.model.path import TablePath
from headwater.model.table import TableInfo
from headwater.model.types import DataType
from headwater.runtime.loops import LoopThread


class Table:
    """One table: write its rows, look them up, scan them, follow them.

    Rows are given as Arrow (a table, batch or reader), pandas or Polars frames, dictionaries or
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
        """Return database and name."""
        return self._table.path

    @property
    def name(self) -> str:
        """Return the name with its database, and with its suffix if the table is virtual."""
        return self._table.name

    @property
    def info(self) -> TableInfo:
        """Return what the storage tells of the table: ids, keys, buckets, options."""
        return self._table.info

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the rows."""
        return self._table.schema

    @property
    def is_keyed(self) -> bool:
        """Tell whether the table has a primary key."""
        return self._table.is_keyed

    def __repr__(self) -> str:
        return shown(self, self.name)

    # ---- writing

    def append(self, rows: RowsLike) -> Receipt:
        """Append rows to a log table; when this returns, they are on disk.

        Each call waits for the disk, and stores a batch of its own: for rows that come one by
        one there is `writer`.

        >>> orders.append([{"id": 1, "city": "Ulm", "amount": 9.5}, {"id": 2, "city": "Bonn"}]).rows
        2
        """
        return self._loop.run(self._table.append(rows))

    def upsert(self, rows: RowsLike, *, columns: str | Sequence[str] | None = None) -> Receipt:
        """Insert rows into a primary-key table, or replace those that have the same key.

        With `columns` only these are written and the others stay as they are; the key is part
        of them. Each call waits for the disk: for rows that come one by one there is `writer`.

        >>> customers.upsert({"id": 1, "name": "Ada", "visits": 1}).rows
        1
        >>> customers.upsert({"id": 1, "visits": 2}, columns=["id", "visits"]).rows
        1
        >>> customers.get({"id": 1})
        {'id': 1, 'name': 'Ada', 'visits': 2}
        """
        return self._loop.run(self._table.upsert(rows, columns=columns))

    def delete(self, keys: KeysLike) -> Receipt:
        """Delete the rows with these keys; a key that is not there is no fault.

        >>> customers.delete([{"id": 1}]).rows
        1
        """
        return self._loop.run(self._table.delete(keys))

    def writer(self) -> Writer:
        """Return a writer that takes single rows and small pieces without waiting for each.

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
        """Write the rows of an epoch once, however often and by however many it is tried.

        A sink writes epochs in order, each after the one before is written; its lanes write side
        by side. The same rows must come for a sink, epoch and lane in every attempt, in any
        order; by key, the rows of one key keep theirs. `deletes` names a BOOLEAN column of the
        rows that tells which of them delete their key. With `begins`, the offsets that
        `offsets()` gave before the first attempt, nothing is noted in the table
        `headwater.sinks`: for a sink that has one epoch only.

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
        """Return the row with a key, or None; a key of one column is given by its value.

        >>> customers.upsert({"id": 2, "name": "Alan"}).rows
        1
        >>> customers.get(2) == customers.get({"id": 2})
        True
        >>> customers.get(2)
        {'id': 2, 'name': 'Alan', 'visits': None}
        """
        return self._loop.run(self._table.get(key))

    def lookup(
        self,
        keys: KeysLike,
        *,
        columns: str | Sequence[str] | None = None,
        keep_missing: bool = False,
        insert_missing: bool = False,
    ) -> pa.Table:
        """Return the rows with these keys, in the order of the keys.

        Keys that are not there are left out, or with `keep_missing` give a row that holds nothing
        but the key. With `insert_missing` a row is made for them, with numbers in an
        auto-increment column.

        >>> customers.lookup([2, 3], columns=["name"]).to_pylist()
        [{'name': 'Alan'}]
        """
        return self._loop.run(
            self._table.lookup(
                keys, columns=columns, keep_missing=keep_missing, insert_missing=insert_missing
            )
        )

    def prefix_lookup(
        self, prefixes: KeysLike, *, columns: str | Sequence[str] | None = None
    ) -> pa.Table:
        """Return all rows whose keys begin with these values of the bucket key.

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
        """Return the table at one position, by default the newest, to be read however often.

        A position is that of a `token`, the end of a lake snapshot, the moment `as_of`, or an
        offset for each bucket. With a lake, rows come from a snapshot and from the log behind it;
        `mode` leaves one of them out ("lake", "log").

        >>> view = orders.view()
        >>> view.scan(limit=3).to_arrow().num_rows
        3
        >>> orders.view(token=view.token()).offsets == view.offsets
        True
        """
        view = self._table.view(
            token=token, snapshot_id=snapshot_id, as_of=as_of, offsets=offsets, mode=mode
        )
        return View(self._loop, self._loop.run(view))

    def view_of(self, value: TableView) -> View:
        """Return the view of a value, which another process may have taken.

        >>> orders.view_of(view.value).token() == view.token()
        True
        """
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
        """Return the rows as they are now: of a log table all, by key the last of each.

        Rows of the lake are part of them. With `token`, `snapshot_id`, `as_of` or `offsets` they
        come as they were then; see `view`.

        >>> orders.scan(columns=["id", "city"], where=[("city", "==", "Ulm")]).to_pylist()
        [{'id': 1, 'city': 'Ulm'}]
        """
        wish = Wish(token=token, snapshot_id=snapshot_id, as_of=as_of, offsets=offsets, mode=mode)
        if wish.token is not None and start is None and end is None:
            # The columns are those of the token, so the position is looked for before.
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
        tail = self._loop.run(
            self._table.tail(
                start,
                columns=columns,
                where=where,
                partitions=partitions,
                discovery_s=discovery_s,
            )
        )
        return Tail(self._loop, tail)

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
        """Follow the table together with all who use this name, each a share of the buckets.

        Positions are kept in the storage. A cursor that is used for the first time begins at
        `start`; a member that is not heard of for `lease_s` loses its buckets to the others.

        >>> with orders.cursor("billing", columns=["id"]) as cursor:
        ...     sum(batch.rows.num_rows for batch in cursor.poll(timeout_s=5.0))
        102
        """
        return Cursor(
            self._loop,
            self._table.cursor(
                name,
                start=start,
                auto_commit=auto_commit,
                commit_interval_s=commit_interval_s,
                lease_s=lease_s,
                idle_s=idle_s,
                columns=columns,
                where=where,
            ),
        )

    def offsets(self, at: "Literal['earliest', 'latest'] | datetime" = "latest") -> Offsets:
        """Return the offset of each bucket: the first, the next to be written, or at a moment.

        >>> list(orders.offsets("latest").values())
        [102]
        """
        return self._loop.run(self._table.offsets(at))

    def count(self) -> int:
        """Return the number of rows.

        >>> customers.count()
        2
        """
        return self._loop.run(self._table.count())

    # ---- partitions

    def partitions(self) -> list[dict[str, str]]:
        """Return the partitions, each with the value of every partition column."""
        return self._loop.run(self._table.partitions())

    def create_partition(self, spec: Mapping[str, str], *, exists_ok: bool = False) -> None:
        """Create a partition; writing rows creates those that are missing by itself."""
        self._loop.run(self._table.create_partition(spec, exists_ok=exists_ok))

    def drop_partition(self, spec: Mapping[str, str], *, missing_ok: bool = False) -> None:
        """Drop a partition and its rows."""
        self._loop.run(self._table.drop_partition(spec, missing_ok=missing_ok))

    # ---- changing it

    def add_column(
        self, name: str, data_type: str | DataType, *, comment: str | None = None
    ) -> None:
        """Add a column, which is null in the rows that are there.

        >>> orders.add_column("tip", "DECIMAL(6, 2)")
        >>> orders.schema.names
        ['id', 'city', 'amount', 'tip']
        """
        self._loop.run(self._table.add_column(name, data_type, comment=comment))

    def drop_column(self, name: str) -> None:
        """Drop a column."""
        self._loop.run(self._table.drop_column(name))

    def rename_column(self, old: str, new: str) -> None:
        """Give a column another name."""
        self._loop.run(self._table.rename_column(old, new))

    def set_options(self, options: Mapping[str, OptionValue]) -> None:
        """Give options new values.

        >>> orders.set_options({"table.log.ttl": "30 d"})
        """
        self._loop.run(self._table.set_options(options))

    def reset_options(self, keys: str | Sequence[str]) -> None:
        """Take options back to their defaults."""
        self._loop.run(self._table.reset_options(keys))

    def refresh(self) -> None:
        """Learn of changes that others made to the table."""
        self._loop.run(self._table.refresh())
