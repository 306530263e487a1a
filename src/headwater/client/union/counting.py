"""How many rows a table has in lake and log, told from what they note of themselves."""

from contextlib import aclosing

from headwater.client.cluster import Cluster
from headwater.client.reading.offsets import count_rows
from headwater.client.reading.places import buckets_of
from headwater.client.reading.view import View
from headwater.client.union.looking import look_at
from headwater.client.union.positions import Wish
from headwater.client.union.split import ReadPlan, Tier, UnionSplit
from headwater.client.union.viewing import AsyncView
from headwater.model.table import TableInfo


async def count_union(cluster: Cluster, table: TableInfo) -> int:
    """Return the number of rows of a table that has a lake."""
    value = await look_at(cluster, table, Wish(), renews_columns=False)
    if value.snapshot is None:
        buckets = await buckets_of(cluster, table)
        return await count_rows(cluster, table, buckets=buckets)
    view = AsyncView.of(cluster, value)
    plan = await view.plan()
    return await (_by_key if table.is_keyed else _of_log)(cluster, view, plan)


async def _of_log(cluster: Cluster, view: AsyncView, plan: ReadPlan) -> int:  # noqa: ARG001 - as the other
    """Add up the rows of files, and the offsets of logs, in which every row has one."""
    counted = [split for split in plan.splits if _is_counted(split)]
    others = [split for split in plan.splits if not _is_counted(split)]
    return sum(map(_rows_of, counted)) + await _read(view, others)


async def _by_key(cluster: Cluster, view: AsyncView, plan: ReadPlan) -> int:
    """Add what servers hold by key to the rows of partitions that only the lake has."""
    table, live = view.value.table, frozenset(view.value.partitions.values())
    buckets = await buckets_of(cluster, table)
    dropped = [split for split in plan.splits if split.partition not in {None, *live}]
    return await count_rows(cluster, table, buckets=buckets) + await _read(view, dropped)


async def _read(view: AsyncView, splits: list[UnionSplit]) -> int:
    if not splits:
        return 0
    table, count = view.value.table, 0
    first = View.of(table).names[0]
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
    return split.log.end - split.log.start
