"""Views of lake and log: when a read takes one, at which position, and what tasks read of it."""

from collections.abc import Mapping
from dataclasses import replace

from headwater.client.client import AsyncClient
from headwater.client.reading.log_batch import Place
from headwater.client.union.view import TableView
from headwater.client.union.viewing import AsyncView
from headwater.config.options import DATALAKE_ENABLED
from headwater.engines.spark.options import ScanMode
from headwater.engines.spark.reading.names import partition_of, place_of
from headwater.engines.spark.reading.planned import Planned, planned_of
from headwater.engines.spark.reading.reading import Reading
from headwater.engines.spark.source_options import Position, SourceOptions
from headwater.model.partition import spec_of_name
from headwater.model.table import TableInfo


def reads_view(reading: Reading, options: SourceOptions) -> bool:
    """Tell whether lake and log are read as one; else servers are asked alone, as ever."""
    if reading.virtual is not None:
        return False
    is_union = options.position.mode is ScanMode.UNION and has_lake(reading.table)
    return is_union or options.position.needs_view


def has_lake(table: TableInfo) -> bool:
    """Tell whether the rows of a table go to a lake."""
    return DATALAKE_ENABLED.required(table.descriptor.properties)


def viewed(options: SourceOptions) -> tuple[Reading, TableView | None]:
    """Find a table, and take a view of it if the read needs one, whose columns count then."""
    whole = Reading.whole(options)
    if options.planned is not None:
        return _planned(whole, planned_of(options.planned))
    if not reads_view(whole, options):
        return whole, None
    link = whole.link()
    view = link.loop.run(look(link.awaiting, whole.table, options.position)).value
    return replace(whole, table=view.table), view


def _planned(whole: Reading, planned: Planned) -> tuple[Reading, TableView]:
    """Return as much of a view as is needed to read splits that are known."""
    link, table = whole.link(), whole.table
    schema = link.loop.run(link.awaiting.cluster.schema(table, planned.schema_id))
    known = replace(
        table,
        schema_id=planned.schema_id,
        descriptor=replace(table.descriptor, schema=schema),
    )
    return replace(whole, table=known), TableView(table=known, snapshot=None, logs={})


async def look(client: AsyncClient, table: TableInfo, position: Position) -> AsyncView:
    """Return a table at a position."""
    found = await client.table(str(table.path))
    return await found.view(
        token=position.token,
        snapshot_id=position.snapshot_id,
        as_of=position.as_of_ms,
        offsets=_ends(position, table),
        mode=str(position.mode),
    )


def _ends(position: Position, table: TableInfo) -> Mapping[Place | int, int] | None:
    if position.ends is None:
        return None
    keys = table.descriptor.partition_keys
    return {place_of(text, keys): offset for text, offset in position.ends.items()}


def named_partitions(options: SourceOptions, table: TableInfo) -> list[Mapping[str, str]] | None:
    """Return the partitions that are asked for, by the value of each of their keys."""
    if options.partitions is None:
        return None
    keys = table.descriptor.partition_keys
    return [dict(spec_of_name(partition_of(each, keys), keys)) for each in options.partitions]
