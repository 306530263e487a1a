"""The tables of a storage, a page at a time: names first, details only of those that are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.client.client import AsyncClient
from headwater.client.sync.client import Client
from headwater.client.table import AsyncTable
from headwater.config.options import DATALAKE_FORMAT
from headwater.console.facts.growth import Growth
from headwater.errors import HeadwaterError, MissingError
from headwater.model import TableInfo, TablePath
from headwater.read.offsets import buckets_of, list_offsets
from headwater.read.position import has_lake
from headwater.runtime.tasks import gathered

OWN_DATABASE = "headwater"
"""Where the storage keeps records of its own, such as positions of cursors."""
PER_PAGE = 50
PARTITIONS_MEASURED_MAX = 64
"""A table with more partitions has no row count in lists: asking all would take too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLine:
    """One table in a list."""

    database: str
    name: str
    kind: str = ""
    columns: int = 0
    buckets: int = 0
    partitions: int | None = None
    lake: str | None = None
    written: int | None = None
    """Rows ever written: where the logs end together. None where that would take too long."""
    held: int | None = None
    """Offsets that the logs still hold."""
    log_bytes: int | None = None
    rows_per_s: float | None = None
    comment: str = ""
    fault: str = ""
    """Why nothing is known of it."""

    @property
    def path(self) -> str:
        """Database and name."""
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLine:
    """One database, and how many of its tables match."""

    name: str
    tables: int
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesList:
    """A page of tables."""

    databases: tuple[DatabaseLine, ...]
    lines: tuple[TableLine, ...]
    query: str
    database: str
    page: int
    pages: int
    total: int


def names_of(client: Client) -> dict[str, list[str]]:
    """List the tables of every database that the caller sees."""

    async def names(awaiting: AsyncClient) -> dict[str, list[str]]:
        databases = await awaiting.list_databases()
        lists = await gathered(_names(awaiting, each) for each in databases)
        return dict(zip(databases, lists, strict=True))

    return client.run(names)


async def _names(client: AsyncClient, database: str) -> list[str]:
    try:
        return sorted(await client.list_tables(database))
    except MissingError:  # Dropped after it was listed.
        return []


def matching(
    names: Mapping[str, Sequence[str]], *, query: str, database: str
) -> list[tuple[str, str]]:
    """Return the tables whose names contain all words of a query; own ones only if asked for."""
    words = query.lower().split()
    return [
        (each, table)
        for each in sorted(names)
        if (each == database if database else each != OWN_DATABASE)
        for table in names[each]
        if all(word in f"{each}.{table}".lower() for word in words)
    ]


def tables_list(  # noqa: PLR0913 - what is asked for, and what is known already
    client: Client,
    *,
    query: str = "",
    database: str = "",
    page: int = 1,
    growth: Growth,
    caller: str,
    now_s: float,
    bytes_by_table: Mapping[int, int] | None = None,
) -> TablesList:
    """Collect a page of the tables that match."""
    names = names_of(client)
    found = matching(names, query=query, database=database)
    pages = max(1, -(-len(found) // PER_PAGE))
    page = min(max(page, 1), pages)
    shown = found[(page - 1) * PER_PAGE : page * PER_PAGE]
    sizes = bytes_by_table or {}
    lines = [
        replace(line, rows_per_s=growth.rate(caller, line.path, line.written, now_s=now_s))
        if line.written is not None
        else line
        for line in table_lines(client, shown, sizes=sizes)
    ]
    return TablesList(
        databases=tuple(
            DatabaseLine(name=each, tables=len(names[each]), is_own=each == OWN_DATABASE)
            for each in sorted(names)
        ),
        lines=tuple(lines),
        query=query,
        database=database,
        page=page,
        pages=pages,
        total=len(found),
    )


def table_lines(
    client: Client, paths: Sequence[tuple[str, str]], *, sizes: Mapping[int, int]
) -> list[TableLine]:
    """Collect what a list shows of some tables; those that were dropped meanwhile are left out."""

    async def lines(awaiting: AsyncClient) -> list[TableLine | None]:
        return list(await gathered(_line(awaiting, each, sizes) for each in paths))

    return [line for line in client.run(lines) if line is not None]


async def _line(
    client: AsyncClient, path: tuple[str, str], sizes: Mapping[int, int]
) -> TableLine | None:
    database, name = path
    try:
        table = await client.table(TablePath(database, name))
        written, held, partitions = await _amounts(table)
    except MissingError:
        return None
    except HeadwaterError as fault:
        return TableLine(database=database, name=name, fault=fault.message)
    info = table.info
    return TableLine(
        database=database,
        name=name,
        kind=kind_of(info),
        columns=len(info.schema.columns),
        buckets=info.bucket_count,
        partitions=partitions,
        lake=lake_of(info),
        written=written,
        held=held,
        log_bytes=sizes.get(info.table_id) if sizes else None,
        comment=info.descriptor.comment or "",
    )


async def _amounts(table: AsyncTable) -> tuple[int | None, int | None, int | None]:
    partitions = None
    if table.info.is_partitioned:
        partitions = len(await table.cluster.partitions(table.info))
        if partitions > PARTITIONS_MEASURED_MAX:
            return None, None, partitions
    buckets = await buckets_of(table.cluster, table.info)
    starts = await list_offsets(table.cluster, table.info, "earliest", buckets=buckets)
    ends = await list_offsets(table.cluster, table.info, "latest", buckets=buckets)
    written = sum(ends.values())
    return written, written - sum(starts.values()), partitions


def kind_of(info: TableInfo) -> str:
    """Name the kind of a table."""
    return "primary key" if info.is_keyed else "log"


def lake_of(info: TableInfo) -> str | None:
    """Name the format of a table's lake; None if it has none."""
    if not has_lake(info):
        return None
    found = DATALAKE_FORMAT.of(info.descriptor.properties)
    return "lake" if found is None else str(found)
