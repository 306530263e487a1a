"""How many rows a table has in lake and log, told from what they note of themselves."""

from contextlib import aclosing

from headwater.client.cluster import Cluster
from headwater.client.reading.offsets import count_rows
from headwater.client.reading.places import buckets_of
from headwater.client.union.looking import look_at
from headwater.client.union.positions import Wish
from headwater.client.union.split import Tier, UnionSplit
from headwater.client.union.viewing import AsyncView
from headwater.model.table import TableInfo


async def count_union(cluster: Cluster, table: TableInfo) -> int:
    """Return the number of rows of a table that has a lake."""
    if table.is_keyed and not table.is_partitioned:
        return await _by_servers(cluster, table)
    value = await look_at(cluster, table, Wish(), renews_columns=False)
    if value.snapshot is None:
        return await _by_servers(cluster, table)
    view = AsyncView.of(cluster, value)
    counted: list[UnionSplit] = []
    others: list[UnionSplit] = []
    for split in (await view.plan()).splits:
        # By key, the lake may show rows of partitions that were dropped, whoever has their names.
        (others if table.is_keyed or not _is_counted(split) else counted).append(split)
    return sum(map(_rows_of, counted)) + await _read(view, others)


async def _by_servers(cluster: Cluster, table: TableInfo) -> int:
    buckets = await buckets_of(cluster, table)
    return await count_rows(cluster, table, buckets=buckets)


async def _read(view: AsyncView, splits: list[UnionSplit]) -> int:
    if not splits:
        return 0
    table, count = view.value.table, 0
    first = (*table.schema.primary_key, *table.schema.names)[0]
    async with aclosing(view.read(splits, columns=[first])) as batches:
        async for batch in batches:
            count += batch.num_rows
    return count


def _is_counted(split: UnionSplit) -> bool:
    if split.lake is None:
        return True
    return all(file.stands_alone and not file.deletes for file in split.lake.files)


def _rows_of(split: UnionSplit) -> int:
    if split.tier is Tier.LAKE_ONLY:
        assert split.lake is not None
        return split.lake.row_count
    assert split.log is not None
    # Every offset of the log of a log table has a row.
    return split.log.end - split.log.start
