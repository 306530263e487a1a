"""Rows that were not read yet and are gone: how that is told."""

from collections.abc import Mapping

from headwater.client.reading.log_batch import Place
from headwater.engines.spark.options import FAIL_ON_DATA_LOSS
from headwater.engines.spark.reading.names import place_text
from headwater.errors import OffsetOutOfRangeError, PartitionMissingError
from headwater.model.table import TableInfo

_GO_ON = f".option('{FAIL_ON_DATA_LOSS.name}', 'false')"


def lost_offsets(
    table: TableInfo, positions: Mapping[Place, int], earliest: Mapping[Place, int]
) -> OffsetOutOfRangeError:
    """Say which rows were removed by retention."""
    keys = table.descriptor.partition_keys
    told = [
        f"bucket {place_text(place, keys)}: offsets {at} to {earliest[place]}"
        for place, at in positions.items()
        if earliest[place] > at
    ]
    return OffsetOutOfRangeError(
        f"Rows of {table.path} that were not read yet are gone ({'; '.join(told)}): the log keeps"
        " them no longer.",
        hint=f"Use {_GO_ON} to go on with the rows that are left, or start a new query with a new"
        " checkpoint. 'table.log.ttl' says how long rows are kept.",
    )


def lost_partition(table: TableInfo, what: str) -> PartitionMissingError:
    """Say that a partition was dropped with rows that were not read."""
    return PartitionMissingError(
        f"A partition of {table.path} was dropped before its rows were read: {what}",
        hint=f"Use {_GO_ON} to go on without them.",
    )
