"""Check the positions of cursors: each must lie between the start and the end of its log."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headwater import errors
from headwater.audit.report import Check, Finding, Notes, Proof, Severity
from headwater.client.client import AsyncClient
from headwater.client.cursors.ledger import all_groups, find_cursors
from headwater.client.cursors.rows import GroupKey, GroupView, view_of
from headwater.cluster.lake import LakeCoordinator
from headwater.cluster.paths import table_path
from headwater.model import LakeBucket, OffsetRange, TableBucket, TablePath
from headwater.read.offsets import Place, buckets_of, list_offsets
from headwater.read.position import has_lake

ATTEMPTS_MAX = 3
"""Attempts at a table whose partitions are being dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far the log of one bucket reaches, and the lake before it."""

    place: Place
    log: OffsetRange
    tiered_end: int


async def audit_cursors(
    client: AsyncClient, notes: Notes, *, tables: Collection[TablePath] | None
) -> None:
    """Check the cursors of some tables, or all.

    1. Read the positions. 2. Read how far the logs reach, which by then can only be further. 3.
       Compare.
    """
    count = 0
    try:
        info = await find_cursors(client.cluster)
        if info is None:
            return
        groups = await all_groups(await client.table(info.path))
    except errors.UnsupportedError:
        note = "the servers cannot list all cursors"
        notes.proven(Proof(check=Check.CURSORS, unit="positions", note=note))
        return
    except errors.HeadwaterError as fault:
        notes.bad(
            Finding(
                check=Check.READABLE,
                table="headwater.cursors",
                message=f"The cursors cannot be read: {fault.message}",
                remedy=fault.hint,
            )
        )
        return
    for group in sorted(groups, key=lambda each: (each.cursor, each.table_path)):
        path = table_path(group.table_path)
        if tables is None or path in tables:
            count += await _audit_group(client, group, view_of(groups[group]), notes)
    notes.proven(Proof(check=Check.CURSORS, amount=count, unit="positions"))


async def _audit_group(client: AsyncClient, group: GroupKey, view: GroupView, notes: Notes) -> int:
    try:
        reaches = await _reaches_of_now(client, table_path(group.table_path))
    except (errors.TableMissingError, errors.DatabaseMissingError):
        finding = Finding(
            check=Check.CURSORS,
            severity=Severity.WARNING,
            table=group.table_path,
            message=f"The cursor '{group.cursor}' reads a table that no longer exists.",
            remedy=f"headwater cursor delete {group.cursor} {group.table_path}",
        )
        notes.bad(finding)
        return 0
    except errors.HeadwaterError as fault:
        finding = Finding(
            check=Check.CURSORS,
            table=group.table_path,
            message=f"The cursor '{group.cursor}' cannot be checked: {fault.message}",
            remedy=fault.hint,
        )
        notes.bad(finding)
        return 0
    known = {bucket: slot for bucket, slot in view.slots.items() if bucket in reaches}
    for bucket, slot in known.items():
        if slot.position is not None:
            for finding in judged(group, slot.position, reaches[bucket]):
                notes.bad(finding)
    return len(known)


async def _reaches_of_now(client: AsyncClient, path: TablePath) -> Mapping[TableBucket, Reach]:
    """Try again if partitions are dropped meanwhile."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return await _reaches(client, path)
        except (errors.BucketMissingError, errors.PartitionMissingError):
            continue
    return await _reaches(client, path)


async def _reaches(client: AsyncClient, path: TablePath) -> Mapping[TableBucket, Reach]:
    """How far each bucket of a table reaches."""
    cluster = client.cluster
    info = await cluster.table(path)
    buckets = await buckets_of(cluster, info)
    starts = await list_offsets(cluster, info, "earliest", buckets=buckets)
    ends = await list_offsets(cluster, info, "latest", buckets=buckets)
    told = await LakeCoordinator(cluster).snapshot(path) if has_lake(info) else None
    tiered = {} if told is None or told.table_id != info.table_id else told.ends
    return {
        bucket: Reach(
            place=place,
            log=OffsetRange(starts[place], ends[place]),
            tiered_end=tiered.get(LakeBucket(bucket.partition_id, bucket.bucket), 0),
        )
        for place, bucket in buckets.items()
    }


def judged(group: GroupKey, position: int, reach: Reach) -> list[Finding]:
    """Say what is wrong with a position."""
    of = f"The cursor '{group.cursor}' is at offset {position}"
    reset = f"headwater cursor reset {group.cursor} {group.table_path} --to"
    if position > reach.log.end:
        severity = Severity.ERROR
        message = f"{of}, but the log ends at {reach.log.end}: the rows it read there are lost."
        remedy = f"Tell its readers, then continue at the end of the log: {reset} latest"
    elif position < reach.log.start and reach.tiered_end < reach.log.start:
        severity = Severity.WARNING
        message = f"{of}, but the log begins at {reach.log.start}: the rows between have expired."
        remedy = f"Continue from there: {reset} earliest; or set a longer 'table.log.ttl'."
    else:
        return []
    return [
        Finding(
            check=Check.CURSORS,
            severity=severity,
            table=group.table_path,
            partition=reach.place.partition,
            bucket=reach.place.bucket,
            offset=position,
            message=message,
            remedy=remedy,
        )
    ]
