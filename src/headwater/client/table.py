"""A table, for those who await: write its rows, look them up, scan them, follow them."""

from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import datetime

import pyarrow as pa

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.column_names import chosen, names
from headwater.client.cursors.cursor import AsyncCursor
from headwater.client.cursors.opening import open_cursor
from headwater.client.cursors.options import CursorOptions
from headwater.client.cursors.source import TableSource
from headwater.client.descriptors import OptionValue, option_text
from headwater.client.epochs.epoch import Epoch
from headwater.client.epochs.epoch_writer import EpochWriter
from headwater.client.epochs.intake import Meaning
from headwater.client.epochs.receipts import EpochReceipt
from headwater.client.keys_in import KeyLike, KeysLike, key_in, keys_in
from headwater.client.reading.filters import Where
from headwater.client.reading.log_batch import Offsets
from headwater.client.reading.log_scan import LogScan
from headwater.client.reading.lookup import Lookups
from headwater.client.reading.offsets import When, count_rows, list_offsets
from headwater.client.reading.places import buckets_of
from headwater.client.reading.starts import Start
from headwater.client.reading.tail import DISCOVERY_S, Tail
from headwater.client.rows_in import RowsLike, Wanted
from headwater.client.scan import AsyncScan
from headwater.client.showing import shown
from headwater.client.taking import batch_of, batches_of, columns_in, is_whole
from headwater.client.union.counting import count_union
from headwater.client.union.looking import has_lake, look_at
from headwater.client.union.positions import NamedOffsets, Wish
from headwater.client.union.scans import Asked, scan_of
from headwater.client.union.viewing import AsyncView
from headwater.client.virtual import VirtualKind, check_shape, read_only, virtual_schema
from headwater.client.virtual_reading import Shape, VirtualScan, VirtualTail
from headwater.client.writer import AsyncWriter
from headwater.client.writing.appender import Appender
from headwater.client.writing.receipts import Receipt
from headwater.client.writing.upserter import Upserter
from headwater.client.writing.writers import Writers
from headwater.errors import (
    LeaderMissingError,
    NotPartitionedError,
    NotPrimaryKeyTableError,
    RequestError,
)
from headwater.model.arrow import arrow_schema
from headwater.model.lineage import LogPosition
from headwater.model.partition import complete_spec, name_of_spec, spec_of_name
from headwater.model.path import TablePath
from headwater.model.table import TableInfo
from headwater.model.type_text import parse_type
from headwater.model.types import DataType

# How long other servers may take to hear of a change.
CHANGED_WITHIN_S = 30.0


class AsyncTable:
    """One table; got from `AsyncClient.table` and `AsyncClient.create_table`."""

    def __init__(
        self,
        info: TableInfo,
        cluster: Cluster,
        writers: Writers,
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
        self._rows = arrow_schema(info.schema)
        self._wanted = Wanted.of(self._rows)
        self._wanted_keys = Wanted.of(self._rows, columns=info.schema.primary_key)
        self._appender: Appender | None = None
        self._upserter: Upserter | None = None
        self._epochs: EpochWriter | None = None
        self._lookups: Lookups | None = None

    # ---- what it is

    @property
    def path(self) -> TablePath:
        """Return database and name."""
        return self.info.path

    @property
    def name(self) -> str:
        """Return the name with its database, and with its suffix if the table is virtual."""
        return str(self.path) if self._virtual is None else f"{self.path}${self._virtual}"

    def __repr__(self) -> str:
        return shown(self, self.name)

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the rows."""
        return self._rows if self._virtual is None else virtual_schema(self._rows, self._virtual)

    @property
    def is_keyed(self) -> bool:
        """Tell whether the table has a primary key."""
        return self.info.is_keyed and self._virtual is None

    @property
    def cluster(self) -> Cluster:
        """Return the servers behind the table, for what is built on top of it."""
        return self._cluster

    async def refresh(self) -> None:
        """Learn of changes that others made to the table."""
        self._know(await self._cluster.table(self.path))

    def _check_real(self, wanted: str) -> None:
        if self._virtual is not None:
            raise read_only(str(self.path), self._virtual, wanted=wanted)

    # ---- writing

    async def append(self, rows: RowsLike) -> Receipt:
        """Append rows to a log table; when this returns, they are on disk.

        Each call waits for the disk: for rows that come one by one there is `writer`.
        """
        self._check_real("append")
        if not is_whole(rows):
            async with self.writer() as writer:
                await writer.write(rows)
                return await writer.flush()
        appender = self._get_appender()
        return await appender.append([each async for each in batches_of(rows, self._wanted)])

    async def upsert(
        self, rows: RowsLike, *, columns: str | Sequence[str] | None = None
    ) -> Receipt:
        """Insert rows, or replace those that have the same key; of `columns` only, if given.

        Each call waits for the disk: for rows that come one by one there is `writer`.
        """
        self._check_real("upsert")
        upserter, targets = self._get_upserter(), chosen(columns)
        wanted = self._wanted if targets is None else Wanted.of(self._rows, columns=targets)
        if not is_whole(rows):
            upserter = Upserter(self._cluster, self.info, self._writers)
            async for batch in batches_of(rows, wanted):
                await upserter.submit(batch, columns=targets)
            return await upserter.flush()
        batches = [each async for each in batches_of(rows, wanted)]
        return await upserter.upsert(batches, columns=targets)

    async def upsert_if(self, rows: pa.RecordBatch, only_if: Sequence[LogPosition]) -> Receipt:
        """Upsert rows, unless the storage was restored and lacks one of these logs; for cursors."""
        return await self._get_upserter().upsert([rows], only_if=only_if)

    async def delete(self, keys: KeysLike) -> Receipt:
        """Delete the rows with these keys; a key that is not there is no fault."""
        self._check_real("delete")
        upserter, key = self._get_upserter(), self.info.schema.primary_key
        batches = batches_of(keys_in(keys, key), self._wanted_keys)
        return await upserter.delete([each async for each in batches])

    def writer(self) -> AsyncWriter:
        """Return a writer that takes single rows and small pieces without waiting for each."""
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
        """Write the rows of an epoch once, however often and by however many it is tried.

        A sink writes epochs in order, each after the one before is written; its lanes write side
        by side. The same rows must come for a sink, epoch and lane in every attempt, in any
        order; by key, the rows of one key keep theirs. `deletes` names a BOOLEAN column of the
        rows that tells which of them delete their key. With `begins`, the offsets that
        `offsets()` gave before the first attempt, nothing is noted in the table
        `headwater.sinks`: for a sink that has one epoch only.
        """
        self._check_real("write_epoch")
        wanted = Epoch(sink=sink, number=epoch, lane=lane, begins=begins)
        if self._epochs is None:
            self._epochs = EpochWriter(self._cluster, self.info, self._writers)
        return await self._epochs.write(rows, wanted, Meaning(chosen(columns), deletes))

    def _get_appender(self) -> Appender:
        if self.info.is_keyed:
            raise RequestError(
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
        """Return the row with a key, or None."""
        self._get_lookups()
        keys = key_in(key, self.info.schema.primary_key)
        rows: list[dict[str, object]] = (await self.lookup(keys)).to_pylist()
        return rows[0] if rows else None

    async def lookup(
        self,
        keys: KeysLike,
        *,
        columns: str | Sequence[str] | None = None,
        keep_missing: bool = False,
        insert_missing: bool = False,
    ) -> pa.Table:
        """Return the rows with these keys, in the order of the keys."""
        lookups, key = self._get_lookups(), self.info.schema.primary_key
        batch = await batch_of(keys_in(keys, key), self._wanted_keys)
        return await lookups.lookup(
            batch, columns=chosen(columns), keep_missing=keep_missing, insert_missing=insert_missing
        )

    async def prefix_lookup(
        self, prefixes: KeysLike, *, columns: str | Sequence[str] | None = None
    ) -> pa.Table:
        """Return all rows whose keys begin with these values of the bucket key."""
        lookups = self._get_lookups()
        descriptor = self.info.descriptor
        usual = (*descriptor.partition_keys, *descriptor.bucket_keys)
        given = keys_in(prefixes, usual)
        wanted = Wanted.of(self._rows, columns=columns_in(given) or usual)
        batch = await batch_of(given, wanted)
        return await lookups.prefix_lookup(batch, columns=chosen(columns))

    def _get_lookups(self) -> Lookups:
        self._check_real("lookup")
        if not self.info.is_keyed:
            raise NotPrimaryKeyTableError(
                f"{self.path} has no primary key, so rows cannot be looked up in it.",
                hint="Scan it, with a filter.",
            )
        if self._lookups is None:
            self._lookups = Lookups(self._cluster, self.info)
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
        """Return the table at one position, by default the newest, to be read however often."""
        self._check_real("view")
        wish = Wish(token=token, snapshot_id=snapshot_id, as_of=as_of, offsets=offsets, mode=mode)
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
        """Return the rows as they are now: of a log table all, by key the last of each."""
        wish = Wish(token=token, snapshot_id=snapshot_id, as_of=as_of, offsets=offsets, mode=mode)
        asked = Asked(
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

    def _virtual_scan(self, asked: Asked, virtual: VirtualKind) -> VirtualScan:
        log = LogScan(
            self._cluster,
            self.info,
            start=asked.start or "earliest",
            end=asked.end or "latest",
            partitions=self._partition_names(asked.partitions),
        )
        shape = Shape(self._rows, virtual, columns=asked.columns, where=asked.where)
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
        tail = Tail(
            self._cluster,
            self.info,
            start=start,
            columns=wanted if is_real else None,
            where=where if is_real else None,
            partitions=self._partition_names(partitions),
            discovery_s=discovery_s,
        )
        await tail.start()
        if self._virtual is None:
            return tail
        return VirtualTail(tail, Shape(self._rows, self._virtual, columns=wanted, where=where))

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
        """Follow the table together with all who use this name, each a share of the buckets."""
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
        """Return the offset of each bucket: the first, the next to be written, or at a moment."""
        buckets = await buckets_of(self._cluster, self.info)
        return await list_offsets(self._cluster, self.info, at, buckets=buckets)

    async def count(self) -> int:
        """Return the number of rows."""
        self._check_real("count")
        if has_lake(self.info):
            return await count_union(self._cluster, self.info)
        buckets = await buckets_of(self._cluster, self.info)
        return await count_rows(self._cluster, self.info, buckets=buckets)

    # ---- partitions

    async def partitions(self) -> list[dict[str, str]]:
        """Return the partitions, each with the value of every partition column."""
        self._check_partitioned()
        keys = self.info.descriptor.partition_keys
        names = await self._cluster.partitions(self.info)
        return [dict(spec_of_name(name, keys)) for name in sorted(names)]

    async def create_partition(self, spec: Mapping[str, str], *, exists_ok: bool = False) -> None:
        """Create a partition; writing rows creates those that are missing by itself."""
        self._check_partitioned()
        await Admin(self._cluster).create_partition(self.info, spec, exists_ok=exists_ok)

    async def drop_partition(self, spec: Mapping[str, str], *, missing_ok: bool = False) -> None:
        """Drop a partition and its rows."""
        self._check_partitioned()
        await Admin(self._cluster).drop_partition(self.info, spec, missing_ok=missing_ok)

    def _check_partitioned(self) -> None:
        if not self.info.is_partitioned:
            raise NotPartitionedError(f"{self.path} has no partitions.")

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
        """Add a column, which is null in the rows that are there."""
        kind = parse_type(data_type) if isinstance(data_type, str) else data_type
        await self._change(
            lambda admin: admin.add_column(self.path, name, data_type=kind, comment=comment)
        )

    async def drop_column(self, name: str) -> None:
        """Drop a column."""
        await self._change(lambda admin: admin.drop_column(self.path, name))

    async def rename_column(self, old: str, new: str) -> None:
        """Give a column another name."""
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
            raise LeaderMissingError(f"Not every server knows the new columns of {self.path} yet.")

    async def set_options(self, options: Mapping[str, OptionValue]) -> None:
        """Give options new values."""
        self._check_real("a change of options")
        texts = {key: option_text(value) for key, value in options.items()}
        await Admin(self._cluster).set_options(self.path, texts)
        await self.refresh()

    async def reset_options(self, keys: str | Sequence[str]) -> None:
        """Take options back to their defaults."""
        self._check_real("a change of options")
        await Admin(self._cluster).reset_options(self.path, names(keys))
        await self.refresh()
