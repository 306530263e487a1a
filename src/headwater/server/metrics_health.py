"""Whether a server is well, and if not, why."""

from collections.abc import Iterator, Mapping

from headwater.metrics.tallies import AuditTally
from headwater.model.bucket import TableBucket
from headwater.model.path import TablePath
from headwater.server.context import Services
from headwater.server.tablets import Tablets

# Reasons are for people, who look at the first ones.
REASONS_SHOWN_MAX = 20


def reasons_unwell(services: Services) -> list[str]:
    """Return what is wrong, one sentence each; nothing if the server is well."""
    tablets = services.tablets
    paths = {table.table_id: table.path for table in services.catalog.tables.all()}
    reasons = [
        *([f"Read-only: {services.space.read_only}."] if services.space.read_only else []),
        *(["The disk is full: no rows are taken."] if services.space.is_full_now() else []),
        *(f"{_named(each, paths)} is fenced." for each in fenced(tablets)),
        *(f"{_named(each, paths)} cannot be opened." for each in unopenable(tablets)),
        *(f"Rows of {_named(each, paths)} are damaged." for each in damaged(tablets)),
        *_audit_reasons(services.tallies.audit),
    ]
    left = len(reasons) - REASONS_SHOWN_MAX
    return [*reasons[:REASONS_SHOWN_MAX], *([f"There are {left} more."] if left > 0 else [])]


def _audit_reasons(audit: AuditTally) -> Iterator[str]:
    if audit.failure:
        yield f"The last audit failed: {audit.failure}"


def fenced(tablets: Tablets) -> list[TableBucket]:
    """Return the buckets that take no writes since a disk error, or whose state is behind."""
    logs = {bucket for bucket, tablet in tablets.all_open() if tablet.is_fenced}
    states = {bucket for bucket, keyed in tablets.keyed.all_open() if keyed.tablet.is_failed}
    return sorted(logs | states, key=str)


def damaged(tablets: Tablets) -> list[TableBucket]:
    """Return the buckets whose logs hold bytes that cannot be trusted."""
    return [bucket for bucket, tablet in tablets.all_open() if tablet.log.faults]


def unopenable(tablets: Tablets) -> list[TableBucket]:
    """Return the buckets whose log or state is not served at all."""
    return sorted({*tablets.unopenable, *tablets.keyed.failed()}, key=str)


def _named(bucket: TableBucket, paths: Mapping[int, TablePath]) -> str:
    partition = "" if bucket.partition_id is None else f" of partition {bucket.partition_id}"
    path = paths.get(bucket.table_id, f"table {bucket.table_id}")
    return f"Bucket {bucket.bucket}{partition} of {path}"
