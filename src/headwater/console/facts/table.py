"""Everything about one table: columns, options, buckets a page at a time, and its lake."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwater.client.client import AsyncClient
from headwater.client.sync.client import Client
from headwater.client.table import AsyncTable
from headwater.console.facts.picture import Strip, TierBar, log_strip
from headwater.errors import HeadwaterError
from headwater.lake.spi import LakeSnapshot
from headwater.model import LakeBucket, TableInfo, TablePath
from headwater.model.type_text import type_text
from headwater.read.lake import LakePlans
from headwater.read.offsets import Offsets, Place, buckets_of, list_offsets
from headwater.read.position import has_lake
from headwater.tiering.status import TableLakeStatus, lake_status

BUCKETS_PER_PAGE = 100
SNAPSHOTS_SHOWN_MAX = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLine:
    """One column."""

    name: str
    type: str
    is_nullable: bool
    roles: str
    comment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLine:
    """One bucket: where its log begins and ends, and up to where the lake has it."""

    place: Place
    earliest: int
    latest: int
    tiered: int | None
    strip: Strip


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketsPage:
    """Some buckets of a table."""

    lines: tuple[BucketLine, ...]
    page: int
    pages: int
    partition_count: int
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What a server knows of a table."""

    info: TableInfo
    columns: tuple[ColumnLine, ...]
    options: tuple[tuple[str, str], ...]
    custom: tuple[tuple[str, str], ...]
    buckets: BucketsPage
    has_lake: bool

    @property
    def database(self) -> str:
        """The database of the table."""
        return self.info.path.database

    @property
    def name(self) -> str:
        """The name of the table in its database."""
        return self.info.path.table


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFacts:
    """How the lake of a table stands."""

    status: TableLakeStatus | None
    fault: str
    timeline: Strip | None
    snapshots: tuple[LakeSnapshot, ...]
    history: tuple[TierBar, ...]


def table_facts(client: Client, path: TablePath, *, query: str = "", page: int = 1) -> TableFacts:
    """Collect what the page of a table shows."""

    async def collect(awaiting: AsyncClient) -> TableFacts:
        table = await awaiting.table(path)
        await table.refresh()
        info = table.info
        return TableFacts(
            info=info,
            columns=tuple(_columns(info)),
            options=tuple(sorted(info.descriptor.properties.items())),
            custom=tuple(sorted(info.descriptor.custom_properties.items())),
            buckets=await _buckets(awaiting, table, query=query, page=page),
            has_lake=has_lake(info),
        )

    return client.run(collect)


def _columns(info: TableInfo) -> Iterable[ColumnLine]:
    descriptor = info.descriptor
    for column in info.schema.columns:
        roles = [
            role
            for role, names in (
                ("primary key", info.schema.primary_key),
                ("partition", descriptor.partition_keys),
                ("bucket", descriptor.bucket_keys),
            )
            if column.name in names
        ]
        yield ColumnLine(
            name=column.name,
            type=type_text(column.type),
            is_nullable=column.type.nullable,
            roles=", ".join(roles),
            comment=column.comment or "",
        )


async def _buckets(client: AsyncClient, table: AsyncTable, *, query: str, page: int) -> BucketsPage:
    info, cluster = table.info, client.cluster
    names: list[str] = []
    if info.is_partitioned:
        known = await cluster.partitions(info)
        names = sorted((name for name in known if query.lower() in name.lower()), reverse=True)
        per_page = max(1, BUCKETS_PER_PAGE // info.bucket_count)
        pages = max(1, -(-len(names) // per_page))
        page = min(max(page, 1), pages)
        shown = names[(page - 1) * per_page : page * per_page]
        buckets = await buckets_of(cluster, info, partitions=shown) if shown else {}
    else:
        everything = await buckets_of(cluster, info)
        pages = max(1, -(-len(everything) // BUCKETS_PER_PAGE))
        page = min(max(page, 1), pages)
        begin = (page - 1) * BUCKETS_PER_PAGE
        buckets = dict(list(everything.items())[begin : begin + BUCKETS_PER_PAGE])
    starts = await list_offsets(cluster, info, "earliest", buckets=buckets) if buckets else {}
    ends = await list_offsets(cluster, info, "latest", buckets=buckets) if buckets else {}
    tiered = await _tiered(client, info)
    lakes = {
        place: tiered.get(LakeBucket(bucket.partition_id, bucket.bucket))
        for place, bucket in buckets.items()
    }
    return BucketsPage(
        lines=tuple(bucket_lines(starts, ends, lakes, shows_lake=has_lake(info))),
        page=page,
        pages=pages,
        partition_count=len(names),
        query=query,
    )


async def _tiered(client: AsyncClient, info: TableInfo) -> Mapping[LakeBucket, int]:
    """Return up to where the lake has each bucket, as the server was told."""
    if not has_lake(info):
        return {}
    try:
        known = await client.lake.snapshot(info.path)
    except HeadwaterError:
        return {}
    return {} if known is None or known.table_id != info.table_id else known.ends


def bucket_lines(
    starts: Offsets, ends: Offsets, lakes: Mapping[Place, int | None], *, shows_lake: bool
) -> Iterable[BucketLine]:
    """Lay out buckets on one scale, in order."""
    most = max(ends.values(), default=0)
    for place in sorted(ends, key=lambda each: (each.partition or "", each.bucket)):
        tiered = lakes.get(place)
        held = (tiered or 0) if shows_lake else None
        yield BucketLine(
            place=place,
            earliest=starts.get(place, 0),
            latest=ends[place],
            tiered=tiered,
            strip=log_strip(starts.get(place, 0), held, ends[place], scale=most),
        )


# The lake.


def lake_facts(client: Client, path: TablePath) -> LakeFacts:
    """Ask the lake of a table; one that is out of reach is told."""

    async def collect(awaiting: AsyncClient) -> LakeFacts:
        try:
            (status,) = await lake_status(awaiting, [path], lakes=awaiting.cluster.lakes)
        except HeadwaterError as fault:
            return LakeFacts(status=None, fault=str(fault), timeline=None, snapshots=(), history=())
        info = (await awaiting.table(path)).info
        buckets = await buckets_of(awaiting.cluster, info)
        starts = await list_offsets(awaiting.cluster, info, "earliest", buckets=buckets)
        ends = await list_offsets(awaiting.cluster, info, "latest", buckets=buckets)
        snapshots: Sequence[LakeSnapshot] = ()
        if status.snapshot is not None and status.fault is None:
            snapshots = await LakePlans.of(awaiting.cluster).kept(info)
        newest = tuple(sorted(snapshots, key=lambda each: -each.committed_ms))
        return LakeFacts(
            status=status,
            fault="" if status.fault is None else str(status.fault),
            timeline=_timeline(starts, ends, status),
            snapshots=newest[:SNAPSHOTS_SHOWN_MAX],
            history=tuple(_history(newest[:SNAPSHOTS_SHOWN_MAX])),
        )

    return client.run(collect)


def _timeline(starts: Offsets, ends: Offsets, status: TableLakeStatus) -> Strip | None:
    """Draw log and lake of all buckets together: what only one of them has, and what both have."""
    end = sum(ends.values())
    if status.lag_rows is None or not end:
        return None
    return log_strip(sum(starts.values()), end - status.lag_rows, end, scale=end)


def _history(newest: Sequence[LakeSnapshot]) -> Iterable[TierBar]:
    """Draw snapshots along time, as high as the rows that they hold."""
    if not newest:
        return
    most = max(1, *(each.row_count for each in newest))
    wide = 100 / len(newest)
    for at, each in enumerate(reversed(newest)):
        high = 4 + 36 * each.row_count / most
        yield TierBar(
            kind="lake",
            x=round(at * wide, 3),
            y=round(40 - high, 3),
            width=round(wide * 0.8, 3),
            height=round(high, 3),
            label=f"snapshot {each.snapshot_id}: {each.row_count:,} rows, {each.file_count} files",
        )
