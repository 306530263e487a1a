"""The state of a primary-key table against lake and log together, where the log alone is cut."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headwater.audit.changes import Changes
from headwater.audit.comparing import StateCompare, Wrong
from headwater.audit.finding import Check, Finding
from headwater.audit.prints import Prints
from headwater.audit.report import Notes
from headwater.client.table import AsyncTable
from headwater.client.union.viewing import AsyncView
from headwater.errors import HeadwaterError
from headwater.rows.log_batch import ChangeType
from headwater.runtime.aside import aside

_SAID = {
    Wrong.OTHER: "differ between the state and what lake and log make of them",
    Wrong.EXTRA: "are in the state and in neither lake nor log",
    Wrong.MISSING: "are in lake and log and not in the state",
    Wrong.TWICE: "are in the state more than once",
    Wrong.DELETED: "are in the state though they were deleted",
}


async def prove_with_lake(table: AsyncTable, notes: Notes) -> tuple[int, str]:
    """Compare all rows of the state with those of a union read of the same position.

    Return how many were compared, and why not, if they were not.
    """
    try:
        union = await table.view()
        state = await table.view(offsets=union.offsets, mode="log")
        # The lake keeps the rows of partitions that the storage has dropped.
        partitions = await table.partitions() if table.info.is_partitioned else None
        prints = Prints(union.value.table, through_lake=True)
        held = await _held(union, prints, partitions)
        compare = StateCompare(prints, held, is_whole=True)
        async for rows in state.scan(partitions=partitions):
            await aside(compare.take, rows)
    except HeadwaterError as fault:
        return 0, f"lake and log cannot be read together: {fault.message}"
    compare.finish()
    for wrong, tally in compare.tallies.items():
        key = f", the first with the key {tally.key}" if tally.key else ""
        notes.bad(
            Finding(
                check=Check.STATE,
                table=str(table.path),
                message=f"{tally.count:,} rows {_SAID[wrong]}{key}.",
                remedy="Look at 'headwater audit --deep' of the lake first: if that is clean, the"
                " state is wrong, and its files have to be restored from a copy.",
            )
        )
    return compare.row_count, ""


async def _held(
    view: AsyncView, prints: Prints, partitions: Sequence[dict[str, str]] | None
) -> Changes:
    """Return the prints of all rows of a view, in the order of their keys."""
    keys, rows = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]

    def take(batch: pa.RecordBatch) -> None:
        keys.append(prints.keys(batch))
        rows.append(prints.rows(batch))

    async for batch in view.scan(partitions=partitions):
        await aside(take, batch)
    all_keys, all_rows = np.concatenate(keys), np.concatenate(rows)
    order = np.argsort(all_keys)
    types = np.full(len(order), ChangeType.INSERT, np.uint8)
    return Changes(types, all_keys[order], all_rows[order], np.zeros(len(order), np.int64))
