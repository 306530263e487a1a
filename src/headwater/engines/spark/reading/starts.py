"""Where a stream begins, by what was asked for."""

from collections.abc import Mapping
from typing import assert_never

from headwater.client.client import AsyncClient
from headwater.client.reading.log_batch import Place
from headwater.client.reading.offsets import list_offsets
from headwater.client.reading.places import Buckets
from headwater.client.reading.starts import Start, start_offsets
from headwater.engines.spark.options import StartupMode
from headwater.engines.spark.reading.batch_plan import moment
from headwater.engines.spark.reading.names import place_of, place_text
from headwater.engines.spark.reading.reading import Reading
from headwater.engines.spark.reading.selection import selected
from headwater.engines.spark.reading.stream_offset import Position, StreamOffset
from headwater.engines.spark.source_options import SourceOptions
from headwater.errors import MissingError, RequestError


async def first_offset(
    client: AsyncClient, reading: Reading, options: SourceOptions
) -> StreamOffset:
    """Return where to begin in every bucket that there is."""
    buckets = await selected(client.cluster, reading, options)
    positions: Mapping[Place, Position]
    if options.mode is StartupMode.FULL and reading.table.is_keyed:
        ends = await list_offsets(client.cluster, reading.table, "latest", buckets=buckets)
        # Where nothing was written there is nothing to read but changes to come.
        positions = {place: None if end else 0 for place, end in ends.items()}
    else:
        start = await _start(client, reading, options, buckets=buckets)
        positions = await start_offsets(client.cluster, reading.table, start, buckets=buckets)
    return StreamOffset(positions=positions, partition_ids=partition_ids(buckets))


def partition_ids(buckets: Buckets) -> dict[str, int]:
    """Return the ids of the partitions to which buckets belong."""
    return {
        place.partition: bucket.partition_id
        for place, bucket in buckets.items()
        if place.partition is not None and bucket.partition_id is not None
    }


async def _start(
    client: AsyncClient, reading: Reading, options: SourceOptions, *, buckets: Buckets
) -> Start:
    match options.mode:
        case StartupMode.FULL | StartupMode.EARLIEST:
            return "earliest"
        case StartupMode.LATEST:
            return "latest"
        case StartupMode.TIMESTAMP:
            assert options.timestamp_ms is not None
            return moment(options.timestamp_ms)
        case StartupMode.OFFSETS:
            return _named(reading, options.offsets or {}, buckets=buckets)
        case StartupMode.CURSOR:
            assert options.cursor is not None
            return await _of_cursor(client, reading, options.cursor, buckets=buckets)
        case _:
            assert_never(options.mode)


def _named(reading: Reading, offsets: Mapping[str, int], *, buckets: Buckets) -> dict[Place, int]:
    keys = reading.table.descriptor.partition_keys
    named = {place_of(text, keys): offset for text, offset in offsets.items()}
    if unknown := [place for place in named if place not in buckets]:
        known = ", ".join(place_text(place, keys) for place in list(buckets)[:8])
        raise RequestError(
            f"{reading.table.path} has no bucket {place_text(unknown[0], keys)} to start in.",
            hint=f"Its buckets are {known}{', …' if len(buckets) > 8 else ''}.",  # noqa: PLR2004
        )
    return named


async def _of_cursor(
    client: AsyncClient, reading: Reading, name: str, *, buckets: Buckets
) -> dict[Place, int]:
    try:
        state = await client.cursors.describe(name, reading.table.path)
    except MissingError as fault:
        raise MissingError(
            fault.message,
            hint="Set it to where to begin with `headwater cursor reset`, or choose another"
            " 'scan.startup.mode'.",
        ) from fault
    return {place: offset for place, offset in state.positions.items() if place in buckets}
