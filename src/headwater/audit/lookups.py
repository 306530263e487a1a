"""Look-ups by key: they must give the rows that a state holds, or that its changelog makes."""

import numpy as np
import pyarrow as pa

from headwater.audit.bucket import AuditedBucket
from headwater.audit.changes import NO_CHANGES, Changes, lookup
from headwater.audit.contents import ChangeContents
from headwater.audit.finding import Check
from headwater.audit.logs import LogWalk
from headwater.audit.prints import Prints
from headwater.client.reading.lookup import Lookups
from headwater.rows.log_batch import ChangeType
from headwater.rows.row_bytes import Longs, Mask, Words


async def prove_by_key(
    audited: AuditedBucket,
    walk: LogWalk,
    contents: ChangeContents,
    *,
    wanted: pa.RecordBatch,
    at: int,
) -> int:
    """Look up rows that a scan gave at an offset, and return how many did not change since."""
    prints = contents.prints
    keys, rows = prints.keys(wanted), prints.rows(wanted)
    types = np.full(len(keys), ChangeType.INSERT, np.uint8)
    expected = Changes(types, keys, rows, np.full(len(keys), at))
    found = await _found(audited, prints, wanted)
    await walk.go_to(await audited.offset("latest"))
    held = contents.fold.held()
    places = lookup(held, keys)
    # What is not among whole changes any more was deleted since.
    is_same = np.full(len(keys), not contents.fold.is_whole)
    known = places >= 0
    is_same[known] = held.offsets[places[known]] < at
    return _judge(audited, prints, wanted, is_same=is_same, is_bad=_differ(expected, found))


async def prove_fold_by_key(audited: AuditedBucket, walk: LogWalk, contents: ChangeContents) -> int:
    """Look up keys that the changelog names, and return how many did not change meanwhile."""
    prints, sampled = contents.prints, contents.sample.rows()
    if sampled is None:
        return 0
    _, first = np.unique(prints.keys(sampled), return_index=True)
    wanted = sampled.take(pa.array(first))
    keys, before = prints.keys(wanted), contents.fold.held()
    expected = _placed(before, keys)
    found = await _found(audited, prints, wanted)
    await walk.go_to(await audited.offset("latest"))
    after = _placed(contents.fold.held(), keys)
    is_same = (expected.offsets == after.offsets) & (expected.types == after.types)
    if not contents.fold.is_whole:
        is_same &= lookup(before, keys) >= 0
    return _judge(audited, prints, wanted, is_same=is_same, is_bad=_differ(expected, found))


async def _found(audited: AuditedBucket, prints: Prints, wanted: pa.RecordBatch) -> Changes:
    """Return the rows that are found for keys, in the order of their prints."""
    lookups = Lookups(audited.cluster, audited.table)
    table = await lookups.lookup(wanted.select(list(prints.key)))
    batches = table.combine_chunks().to_batches()
    if not batches:
        return NO_CHANGES
    keys, rows = prints.keys(batches[0]), prints.rows(batches[0])
    order = np.argsort(keys, kind="stable")
    types = np.full(len(keys), ChangeType.INSERT, np.uint8)
    return Changes(types, keys[order], rows[order], order)


def _placed(held: Changes, keys: Words) -> Changes:
    """Return the change of each key; a delete where there is none."""
    places = lookup(held, keys)
    types = np.full(len(keys), ChangeType.DELETE, np.uint8)
    rows, offsets = np.zeros(len(keys), np.uint64), np.full(len(keys), -1, np.int64)
    known = places >= 0
    types[known], rows[known] = held.types[places[known]], held.rows[places[known]]
    offsets[known] = held.offsets[places[known]]
    return Changes(types, keys, rows, offsets)


def _differ(expected: Changes, found: Changes) -> Mask:
    """Tell of each key whether a look-up gave another row than expected, none, or one too many."""
    places: Longs = lookup(found, expected.keys)
    is_found = places >= 0
    is_wanted = expected.types != ChangeType.DELETE
    is_other = np.zeros(len(places), np.bool_)
    is_other[is_found] = found.rows[places[is_found]] != expected.rows[is_found]
    # Rows come in the order of their keys, each once: else one was given for another key.
    order = found.offsets[places[is_found]]
    is_late = np.append([False], order[1:] < np.maximum.accumulate(order)[:-1])[: len(order)]
    is_other[is_found] |= is_late
    is_other |= np.isin(expected.keys, found.keys[1:][found.keys[1:] == found.keys[:-1]])
    mask: Mask = (is_found != is_wanted) | is_other
    return mask


def _judge(
    audited: AuditedBucket,
    prints: Prints,
    wanted: pa.RecordBatch,
    *,
    is_same: Mask,
    is_bad: Mask,
) -> int:
    count, bad = int(is_same.sum()), np.flatnonzero(is_bad & is_same)
    if len(bad):
        key = prints.shown(wanted, int(bad[0]))
        audited.bad(
            Check.LOOKUPS,
            f"{len(bad):,} of {count:,} look-ups do not give the row that there should be, the"
            f" first for the key {key}.",
            remedy=f"Stop the server, then: {audited.rebuild}",
        )
    return count
