"""A table, for those who await: write its rows, look them up, scan them, follow them."""

from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import datetime
from itertools import count

import pyarrow as pa

from headwater import errors
from headwater.client.cursors.cursor import AsyncCursor, open_cursor
from headwater.client.cursors.source import CursorOptions, TableSource
from headwater.client.scan import AsyncScan
from headwater.client.union_scan import ScanQuery, count_union, scan_of
from headwater.client.view import AsyncView
from headwater.client.writer import AsyncWriter
from headwater.cluster.admin import Admin
from headwater.cluster.cluster import Cluster
from headwater.cluster.schema_in import OptionValue, option_text
from headwater.epochs.epoch_writer import EpochWriter
from headwater.epochs.intake import Epoch, EpochReceipt, Meaning
from headwater.model import DataType, LogPosition, TableInfo, TablePath
from headwater.model.arrow import arrow_schema
from headwater.model.path import complete_spec, name_of_spec, spec_of_name
from headwater.model.type_text import parse_type
from headwater.read.filters import Where
from headwater.read.log_scan import LogScan
from headwater.read.lookup import TableLookups
from headwater.read.offsets import Offsets, Start, When, buckets_of, count_rows, list_offsets
from headwater.read.position import has_lake, look_at
from headwater.read.short import SHORT_KEYS_MAX
from headwater.read.tail import DISCOVERY_S, Tail
from headwater.read.view import NamedOffsets, PositionQuery
from headwater.read.virtual import (
    VirtualKind,
    VirtualScan,
    VirtualShape,
    VirtualTail,
    check_shape,
    columns_behind,
    read_only,
    virtual_schema,
)
from headwater.rows.columns import chosen, names, shown
from headwater.runtime.tasks import CALLS_PER_TURN
from headwater.write import rows_in
from headwater.write.pipeline import Appender, Upserter
from headwater.write.receipts import Receipt
from headwater.write.rows_in import KeyLike, KeysLike, RowsLike
from headwater.write.short import Caller, ShortWriter
from headwater.write.target import WriteContext

# How long other servers may take to hear of a change.
CHANGED_WITHIN_S = 30.0


class AsyncTable:
    """One table; got from `AsyncClient.table` and `AsyncClient.create_table`."""

    def __init__(
        self,
        info: TableInfo,
        cluster: Cluster,
        writers: WriteContext,
        *,
        virtual: VirtualKind | None = None,
    ) -> None:
        check_shape(str(info.path), virtual, is_keyed=info.is_keyed)
        self._cluster = cluster
        self._writers = writers
        self._virtual = virtual
        self._know(info)

    def _know(self, info: TableInfo) -> None:
        self.info = info
        self.is_keyed = info.is_keyed and self._virtual is None
        """Whether the table has a primary key."""
        self._rows = arrow_schema(info.schema)
        self._wanted = rows_in.WantedSchema.of(self._rows)
        self._wanted_keys = rows_in.WantedSchema.of(self._rows, columns=info.schema.primary_key)
        self._appender: Appender | None = None
        self._upserter: Upserter | None = None
        self._epochs: EpochWriter | None = None
        self.short: ShortWriter | None = None
        self._lookups: TableLookups | None = None
        self._short_gets = count(1)

    # ---- what it is

    @property
    def path(self) -> TablePath:
        """Database and name."""
        return self.info.path

    @property
    def name(self) -> str:
        """Name with its database, and with its suffix if the table is virtual."""
        return str(self.path) if self._virtual is None else f"{self.path}${self._virtual}"

    def __repr__(self) -> str:
        return shown(self, self.name)

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows."""
        return self._rows if self._virtual is None else virtual_schema(self._rows, self._virtual)

    @property
    def cluster(self) -> Cluster:
        """Return the servers behind the table, for what is built on top of it."""
        return self._cluster

    async def refresh(self) -> None:
        """Reload the table's schema and options, which others may have changed."""
        self._know(await self._cluster.table(self.path))

    def _check_real(self, wanted: str) -> None:
        if self._virtual is not None:
            raise read_only(str(self.path), self._virtual, wanted=wanted)

    # ---- writing

    async def append(self, rows: RowsLike) -> Receipt:
        """Append rows to a log table; when this returns, they are on disk.

        Each call waits for the disk, and stores its own batch: for rows that arrive one by
        one, use `writer`.
        """
        self._check_real("append")
        if not rows_in.is_whole(rows):
            async with self.writer() as writer:
                await writer.write(rows)
                return await writer.flush()
        appender = self._get_appender()
        return await appender.append(
            [each async for each in rows_in.batches_of(rows, self._wanted)]
        )

    async def upsert(
        self, rows: RowsLike, *, columns: str | Sequence[str] | None = None
    ) -> Receipt:
        """Insert rows into a primary-key table, or replace those with the same key.

        With `columns` only these are written and the others keep their values; the key is part
        of them. Each call waits for the disk: for rows that arrive one by one, use `writer`.
        """
        self._check_real("upsert")
        upserter, targets = self._get_upserter(), chosen(columns)
        wanted = (
            self._wanted
            if targets is None
            else rows_in.WantedSchema.of(self._rows, columns=targets)
        )
        if not rows_in.is_whole(rows):
            upserter = Upserter(self._cluster, self.info, self._writers)
            async for batch in rows_in.batches_of(rows, wanted):
                await upserter.submit(batch, columns=targets)
            return await upserter.flush()
        batches = [each async for each in rows_in.batches_of(rows, wanted)]
        return await upserter.upsert(batches, columns=targets)

    async def upsert_if(self, rows: pa.RecordBatch, only_if: Sequence[LogPosition]) -> Receipt:
        """Upsert rows, unless the storage was restored and lacks one of these logs; for cursors."""
        return await self._get_upserter().upsert([rows], only_if=only_if)

    async def delete(self, keys: KeysLike) -> Receipt:
        """Delete the rows with these keys; missing keys are ignored."""
        self._check_real("delete")
        upserter, key = self._get_upserter(), self.info.schema.primary_key
        batches = rows_in.batches_of(rows_in.keys_in(keys, key), self._wanted_keys)
        return await upserter.delete([each async for each in batches])

    def short_writer(self, caller: Caller) -> ShortWriter | None:
        """Return what writes few rows from the threads of callers that do not await."""
        cluster = self._cluster
        is_reachable = cluster.writes is not None or cluster.blocking is not None
        if self.short is None and self._virtual is None and is_reachable:
            writer = self._get_upserter() if self.is_keyed else self._get_appender()
            self.short = ShortWriter(
                self.info, writer.planner, writers=self._writers, caller=caller
            )
        return self.short

    def writer(self) -> AsyncWriter:
        """Open a writer that accepts single rows and small batches without waiting for each."""
        self._check_real("write")
        kind = Upserter if self.info.is_keyed else Appender
        writer = kind(self._cluster, self.info, self._writers)
        key = self.info.schema.primary_key
        return AsyncWriter(writer, self._writers, self._rows, key=key, name=self.name)

    async def write_epoch(  # noqa: PLR0913 - one argument per choice
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
        """
        self._check_real("write_epoch")
        wanted = Epoch(sink=sink, number=epoch, lane=lane, begins=begins)
        if self._epochs is None:
            self._epochs = EpochWriter(self._cluster, self.info, self._writers)
        return await self._epochs.write(rows, wanted, Meaning(chosen(columns), deletes))

    def _get_appender(self) -> Appender:
        if self.info.is_keyed:
            raise errors.RequestError(
                f"{self.path} has a primary key, so rows cannot be appended to it.",
                hint="Use upsert.",
            )
        if self._appender is None:
            self._appender = Appender(self._cluster, self.info, self._writers)
        return self._appender

    def _get_upserter(self) -> Upserter:
        if self._upserter is None:
            self._upserter = Upserter(self._cluster, self.info, self._writers)
        return self._upserter

    # ---- reading by key

    async def get(self, key: KeyLike) -> dict[str, object] | None:
        """Get the row with a key, or None; pass a key of one column as its value."""
        found = self.get_now(key, may_wait=False)
        if found is None:
            keys = rows_in.key_in(key, self.info.schema.primary_key)
            found = (await self.lookup(keys)).to_pylist()
        elif next(self._short_gets) % CALLS_PER_TURN == 0:
            # Others have their turn as well, though nothing was waited for.
            await self._cluster.clock.sleep(0)
        return found[0] if found else None

    def get_now(self, key: KeyLike, *, may_wait: bool) -> list[dict[str, object]] | None:
        """Return the row with a key, if any, from the caller's thread; None leaves it to `get`.

        A server in another process is asked only if the caller `may_wait`, so not on a loop.
        """
        lookups = self._get_lookups()
        if lookups.one is not None:
            return lookups.one.find(key, may_wait=may_wait)
        if not may_wait:
            return None
        rows = self.lookup_now(rows_in.key_in(key, self.info.schema.primary_key))
        return None if rows is None else rows.to_pylist()

    def lookup_now(
        self,
        keys: KeysLike,
        *,
        columns: str | Sequence[str] | None = None,
        keep_missing: bool = False,
    ) -> pa.Table | None:
        """Return the rows with a few keys from the caller's thread; None leaves it to `lookup`."""
        lookups = self._get_lookups()
        if not rows_in.are_few(keys, SHORT_KEYS_MAX):
            return None
        if lookups.one is not None and columns is None and not keep_missing and type(keys) is list:
            found = lookups.one.find_all(keys)
            if found is not None:
                return found
        rows = rows_in.keys_in(keys, self.info.schema.primary_key)
        batch = rows_in.joined(rows_in.wanted_batches(rows, self._wanted_keys), self._wanted_keys)
        return lookups.lookup_now(batch, columns=chosen(columns), keep_missing=keep_missing)

    async def lookup(
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
        """
        lookups, key = self._get_lookups(), self.info.schema.primary_key
        batch = await rows_in.batch_of(rows_in.keys_in(keys, key), self._wanted_keys)
        return await lookups.lookup(
            batch, columns=chosen(columns), keep_missing=keep_missing, insert_missing=insert_missing
        )

    async def prefix_lookup(
        self, prefixes: KeysLike, *, columns: str | Sequence[str] | None = None
    ) -> pa.Table:
        """Look up all rows whose keys begin with these values of the bucket key."""
        lookups = self._get_lookups()
        descriptor = self.info.descriptor
        usual = (*descriptor.partition_keys, *descriptor.bucket_keys)
        given = rows_in.keys_in(prefixes, usual)
        wanted = rows_in.WantedSchema.of(self._rows, columns=rows_in.columns_in(given) or usual)
        batch = await rows_in.batch_of(given, wanted)
        return await lookups.prefix_lookup(batch, columns=chosen(columns))

    def _get_lookups(self) -> TableLookups:
        self._check_real("lookup")
        if not self.info.is_keyed:
            raise errors.NotPrimaryKeyTableError(
                f"{self.path} has no primary key, so rows cannot be looked up in it.",
                hint="Scan it, with a filter.",
            )
        if self._lookups is None:
            self._lookups = TableLookups(self._cluster, self.info)
        return self._lookups

    # ---- reading it all

    async def view(
        self,
        *,
        token: str | None = None,
        snapshot_id: int | None = None,
        as_of: datetime | int | None = None,
        offsets: NamedOffsets | None = None,
        mode: str = "union",
    ) -> AsyncView:
        """The table at one position, by default the newest, to be read any number of times.

        A position is that of a `token`, the end of a lake snapshot, the moment `as_of`, or an
        offset for each bucket. With a lake, rows come from a snapshot and from the log after it;
        `mode` leaves one of them out ("lake", "log").
        """
        self._check_real("view")
        wish = PositionQuery(
            token=token, snapshot_id=snapshot_id, as_of=as_of, offsets=offsets, mode=mode
        )
        value = await look_at(self._cluster, self.info, wish, renews_columns=True)
        return AsyncView.of(self._cluster, value)

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
    ) -> AsyncScan:
        """Scan the current rows: all rows of a log table, the last of each key otherwise.

        This includes rows in the lake. With `token`, `snapshot_id`, `as_of` or `offsets` rows
        are read as they were then; see `view`.
        """
        wish = PositionQuery(
            token=token, snapshot_id=snapshot_id, as_of=as_of, offsets=offsets, mode=mode
        )
        asked = ScanQuery(
            columns=chosen(columns),
            where=where,
            limit=limit,
            partitions=None if partitions is None else tuple(partitions),
            start=start,
            end=end,
            wish=wish,
        )
        if self._virtual is None:
            return scan_of(self._cluster, self.info, asked)
        if not wish.is_newest:
            self._check_real("another position than offsets or moments of the log")
        return AsyncScan(self._virtual_scan(asked, self._virtual), name=self.name)

    def _virtual_scan(self, asked: ScanQuery, virtual: VirtualKind) -> VirtualScan:
        behind = columns_behind(self._rows, virtual, columns=asked.columns, where=asked.where)
        log = LogScan(
            self._cluster,
            self.info,
            start=asked.start or "earliest",
            end=asked.end or "latest",
            columns=behind,
            partitions=self._partition_names(asked.partitions),
        )
        shape = VirtualShape(log.schema, virtual, columns=asked.columns, where=asked.where)
        return VirtualScan(log, shape, limit=asked.limit)

    async def tail(
        self,
        start: Start = "earliest",
        *,
        columns: str | Sequence[str] | None = None,
        where: Where | None = None,
        partitions: Iterable[Mapping[str, str]] | None = None,
        discovery_s: float = DISCOVERY_S,
    ) -> Tail | VirtualTail:
        """Follow the table from the start, the end ("latest"), offsets, or a moment."""
        is_real, wanted = self._virtual is None, chosen(columns)
        behind = None
        if self._virtual is not None:
            behind = columns_behind(self._rows, self._virtual, columns=wanted, where=where)
        tail = Tail(
            self._cluster,
            self.info,
            start=start,
            columns=wanted if is_real else behind,
            where=where if is_real else None,
            partitions=self._partition_names(partitions),
            discovery_s=discovery_s,
        )
        await tail.start()
        if self._virtual is None:
            return tail
        return VirtualTail(
            tail, VirtualShape(tail.view.schema, self._virtual, columns=wanted, where=where)
        )

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
    ) -> AsyncCursor:
        """Follow the table together with all users of this name, each with a share of the buckets.

        Positions are stored in the storage. A cursor that is used for the first time begins at
        `start`; a member that is not heard from for `lease_s` loses its buckets to the others.
        """
        self._check_real("cursor")
        options = CursorOptions(
            start=start,
            auto_commit=auto_commit,
            commit_interval_s=commit_interval_s,
            lease_s=lease_s,
            idle_s=idle_s,
        )
        return open_cursor(
            name,
            TableSource(self._cluster, self.info, columns=chosen(columns), where=where),
            table=self.info,
            cluster=self._cluster,
            make_table=lambda info: AsyncTable(info, self._cluster, self._writers),
            options=options,
        )

    async def offsets(self, at: When = "latest") -> Offsets:
        """The offset of each bucket: the first, the next to be written, or at a moment."""
        buckets = await buckets_of(self._cluster, self.info)
        return await list_offsets(self._cluster, self.info, at, buckets=buckets)

    async def count(self) -> int:
        """Count the rows."""
        self._check_real("count")
        if has_lake(self.info):
            return await count_union(self._cluster, self.info)
        buckets = await buckets_of(self._cluster, self.info)
        return await count_rows(self._cluster, self.info, buckets=buckets)

    # ---- partitions

    async def partitions(self) -> list[dict[str, str]]:
        """List the partitions, each with the value of every partition column."""
        self._check_partitioned()
        keys = self.info.descriptor.partition_keys
        names = await self._cluster.partitions(self.info)
        return [dict(spec_of_name(name, keys)) for name in sorted(names)]

    async def create_partition(self, spec: Mapping[str, str], *, exists_ok: bool = False) -> None:
        """Create a partition; writing rows also creates missing ones."""
        self._check_partitioned()
        await Admin(self._cluster).create_partition(self.info, spec, exists_ok=exists_ok)

    async def drop_partition(self, spec: Mapping[str, str], *, missing_ok: bool = False) -> None:
        """Drop a partition and its rows."""
        self._check_partitioned()
        await Admin(self._cluster).drop_partition(self.info, spec, missing_ok=missing_ok)

    def _check_partitioned(self) -> None:
        if not self.info.is_partitioned:
            raise errors.NotPartitionedError(f"{self.path} has no partitions.")

    def _partition_names(
        self, partitions: Iterable[Mapping[str, str]] | None
    ) -> tuple[str, ...] | None:
        if partitions is None:
            return None
        keys = self.info.descriptor.partition_keys
        return tuple(name_of_spec(complete_spec(spec, keys)) for spec in partitions)

    # ---- changing it

    async def add_column(
        self, name: str, data_type: str | DataType, *, comment: str | None = None
    ) -> None:
        """Add a column, which is null in existing rows."""
        kind = parse_type(data_type) if isinstance(data_type, str) else data_type
        await self._change(
            lambda admin: admin.add_column(self.path, name, data_type=kind, comment=comment)
        )

    async def drop_column(self, name: str) -> None:
        """Drop a column."""
        await self._change(lambda admin: admin.drop_column(self.path, name))

    async def rename_column(self, old: str, new: str) -> None:
        """Rename a column."""
        await self._change(lambda admin: admin.rename_column(self.path, old, new=new))

    async def _change(self, change: Callable[[Admin], Awaitable[None]]) -> None:
        """Change columns, and wait until whoever is asked knows of it."""
        self._check_real("a change of columns")
        before = self.info.schema_id
        await change(Admin(self._cluster))
        await self._cluster.retries.run(
            lambda: self._refresh_from(before),
            what=f"Waiting for the new columns of {self.path}",
            timeout_s=min(CHANGED_WITHIN_S, self._cluster.settings.deadline_s),
        )

    async def _refresh_from(self, schema_id: int) -> None:
        await self.refresh()
        if self.info.schema_id == schema_id:
            raise errors.LeaderMissingError(
                f"Not every server knows the new columns of {self.path} yet."
            )

    async def set_options(self, options: Mapping[str, OptionValue]) -> None:
        """Set options."""
        self._check_real("a change of options")
        texts = {key: option_text(value) for key, value in options.items()}
        await Admin(self._cluster).set_options(self.path, texts)
        await self.refresh()

    async def reset_options(self, keys: str | Sequence[str]) -> None:
        """Reset options to their defaults."""
        self._check_real("a change of options")
        await Admin(self._cluster).reset_options(self.path, names(keys))
        await self.refresh()
