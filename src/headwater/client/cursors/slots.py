"""How the slots of a group are written: buckets, members, and the group itself.

A bucket is written with the ids of its table and partition and not their names, so that a table
or partition that is dropped and made anew begins anew.
"""

import re

from headwater.model.bucket import TableBucket

GROUP = "group"
_MEMBER = "member/"
_BUCKET = re.compile(r"bucket/(\d+)(?:/(\d+))?/(\d+)\Z")


def bucket_slot(bucket: TableBucket) -> str:
    """Write a bucket as a slot."""
    partition = "" if bucket.partition_id is None else f"{bucket.partition_id}/"
    return f"bucket/{bucket.table_id}/{partition}{bucket.bucket}"


def bucket_of(slot: str) -> TableBucket | None:
    """Return the bucket of a slot; members and the group have none."""
    found = _BUCKET.match(slot)
    if found is None:
        return None
    table_id, partition_id, bucket = found.groups()
    partition = None if partition_id is None else int(partition_id)
    return TableBucket(int(table_id), int(bucket), partition)


def member_slot(name: str) -> str:
    """Write a member as a slot."""
    return f"{_MEMBER}{name}"


def member_of(slot: str) -> str | None:
    """Return the member of a slot, or None."""
    return slot.removeprefix(_MEMBER) if slot.startswith(_MEMBER) else None


def bucket_order(bucket: TableBucket) -> tuple[int, int, int]:
    """Sort buckets by table, partition and number."""
    partition = -1 if bucket.partition_id is None else bucket.partition_id
    return bucket.table_id, partition, bucket.bucket
