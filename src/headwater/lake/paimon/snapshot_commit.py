"""One attempt to put a snapshot directly after another one."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pypaimon.common.json_util import JSON
from pypaimon.snapshot.snapshot import Snapshot

from headwater.errors import (
    HeadwaterError,
    LakeCommitUnknownError,
    LakeMovedError,
    LakeUnreachableError,
)
from headwater.lake.paimon.files import local_path, reaching
from headwater.lake.paimon.manifests import ADD, Entry, Manifest, live_entries
from headwater.lake.paimon.options import manifest_bytes, manifest_merge_count
from headwater.lake.paimon.snapshot import (
    BYTES_PROPERTY,
    FILES_PROPERTY,
    PARENT_PROPERTY,
    Draft,
    SnapshotFile,
    next_snapshot,
)
from headwater.lake.paimon.table import PaimonTable
from headwater.runtime.ids import random_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Say what a snapshot brings."""

    entries: Sequence[Entry]
    user: str
    kind: str
    properties: Mapping[str, str]
    base: Sequence[Manifest] | None = None
    """What takes the place of all manifests before it; None keeps them."""


def commit_snapshot(
    table: PaimonTable, commit: Commit, *, on: SnapshotFile | None, now_ms: int
) -> SnapshotFile:
    """Commit directly after `on`.

    1. See that `on` is the newest. 2. Write manifests. 3. Create the file of the snapshot, which
    fails if there is one. 4. See that it really became the newest.

    Raises `LakeMovedError` if another one is newer, and `LakeCommitUnknownError` if it cannot tell.
    """
    _check_newest(table, on)
    written: list[str] = []
    try:
        snapshot = _drafted(table, commit, on=on, now_ms=now_ms, written=written)
        if not _created(table, snapshot, on=on):
            raise _moved(table, on)
    except LakeCommitUnknownError:
        raise
    except HeadwaterError:
        for name in written:
            with suppress(HeadwaterError):
                table.files.delete(table.manifests.path(name))
        raise
    _check_linked(table, snapshot, commit)
    _hint(table, snapshot, is_first=on is None)
    return snapshot


def _check_newest(table: PaimonTable, on: SnapshotFile | None) -> None:
    head = table.head()
    if head is None or on is None:
        if head is not on:
            raise _moved(table, on)
    elif (head.snapshot_id, head.uuid) != (on.snapshot_id, on.uuid):
        raise _moved(table, on)


def _moved(table: PaimonTable, on: SnapshotFile | None) -> LakeMovedError:
    place = "no snapshot" if on is None else f"snapshot {on.snapshot_id}"
    return LakeMovedError(
        f"The newest of the lake table {table.spec.path} is not {place} any more."
    )


def _drafted(
    table: PaimonTable,
    commit: Commit,
    *,
    on: SnapshotFile | None,
    now_ms: int,
    written: list[str],
) -> SnapshotFile:
    """Write the manifests of a snapshot; return it, and the names of what was written."""
    schema_id = table.schema.schema_id
    base = list(commit.base) if commit.base is not None else _base(table, on, written)
    delta: list[Manifest] = []
    if commit.entries:
        delta.append(table.manifests.write(commit.entries, schema_id=schema_id))
        written.append(delta[0].name)
    base_list, delta_list = table.manifests.write_list(base), table.manifests.write_list(delta)
    written += [base_list[0], delta_list[0]]
    signs = [1 if entry.kind == ADD else -1 for entry in commit.entries]
    draft = Draft(
        schema_id=schema_id if on is None else max(schema_id, on.schema_id),
        base_list=base_list,
        delta_list=delta_list,
        row_count_added=sum(
            sign * entry.file.row_count for sign, entry in zip(signs, commit.entries, strict=True)
        ),
        user=commit.user,
        kind=commit.kind,
        # Time never goes back from one snapshot to the next, whatever clocks say.
        committed_ms=now_ms if on is None else max(now_ms, on.committed_ms),
        properties={**commit.properties, **_counts(table, commit, on, signs)},
        uuid=random_bytes(16).hex(),
    )
    return next_snapshot(on, draft)


def _counts(
    table: PaimonTable, commit: Commit, on: SnapshotFile | None, signs: Sequence[int]
) -> dict[str, str]:
    files, size = (0, 0) if on is None else table.counts(on)
    sizes = [entry.file.byte_count for entry in commit.entries]
    return {
        FILES_PROPERTY: str(files + sum(signs)),
        BYTES_PROPERTY: str(size + sum(a * b for a, b in zip(signs, sizes, strict=True))),
        **({} if on is None or on.uuid is None else {PARENT_PROPERTY: on.uuid}),
    }


def _base(table: PaimonTable, on: SnapshotFile | None, written: list[str]) -> list[Manifest]:
    """Return the manifests before the snapshot, small ones merged if there are many."""
    held = [] if on is None else table.all_manifests(on)
    options = table.schema.options
    small = [each for each in held if each.byte_count < manifest_bytes(options)]
    if len(small) < manifest_merge_count(options):
        return held
    names = {each.name for each in small}
    merged = merged_manifests(table, small)
    written += [each.name for each in merged]
    return [*(each for each in held if each.name not in names), *merged]


def merged_manifests(table: PaimonTable, manifests: Sequence[Manifest]) -> list[Manifest]:
    """Write what is left of manifests into as few as possible."""
    left = live_entries(entry for each in manifests for entry in table.manifests.read(each))
    return table.manifests.write_all(left, schema_id=table.schema.schema_id)


def _created(table: PaimonTable, snapshot: SnapshotFile, *, on: SnapshotFile | None) -> bool:
    path = table.snapshot_path(snapshot.snapshot_id)
    # What the snapshot names has to last as long as the snapshot itself.
    table.files.sync_names(table.manifests.directory)
    environment = table.handle.catalog_environment
    try:
        if not environment.supports_version_management:
            return table.files.create(path, snapshot.to_json())
        with reaching(path):
            commit = environment.snapshot_commit(table.handle.snapshot_manager())
            node = JSON.from_json(snapshot.to_json().decode(), Snapshot)
            return bool(commit.commit(None if on is None else on.uuid, node, []))
    except LakeUnreachableError as fault:
        return _outcome(table, snapshot, fault)


def _outcome(table: PaimonTable, snapshot: SnapshotFile, fault: LakeUnreachableError) -> bool:
    """Find out whether a snapshot whose creation failed is there nevertheless."""
    try:
        there = table.snapshot(snapshot.snapshot_id)
    except HeadwaterError:
        there = None
    else:
        if there is not None:
            return there.uuid == snapshot.uuid
        is_served = table.handle.catalog_environment.supports_version_management
        if local_path(table.root) is not None and not is_served:
            # What a server or store did not do yet, it may still do; this machine does not.
            raise fault
    raise LakeCommitUnknownError(
        f"Whether snapshot {snapshot.snapshot_id} of the lake table {table.spec.path} was"
        f" committed is not known: {fault.message}"
    ) from fault


def _check_linked(table: PaimonTable, snapshot: SnapshotFile, commit: Commit) -> None:
    """Take the snapshot back if it fills the gap of an expired one.

    A committer that slept between looking and creating may find the next id free again, because
    the snapshot that had it was expired meanwhile. Then newer ones are there which do not know
    this one.
    """
    newer = [each for each in table.snapshot_ids() if each > snapshot.snapshot_id]
    if not newer or table.handle.catalog_environment.supports_version_management:
        return
    child = table.snapshot(snapshot.snapshot_id + 1)
    if child is not None and _is_child(table, child, snapshot, commit):
        return
    table.files.delete(table.snapshot_path(snapshot.snapshot_id))
    raise _moved(table, snapshot)


def _is_child(
    table: PaimonTable, child: SnapshotFile, snapshot: SnapshotFile, commit: Commit
) -> bool:
    if PARENT_PROPERTY in child.properties:
        return child.properties[PARENT_PROPERTY] == snapshot.uuid
    own = {each.name for each in table.manifests.read_list(snapshot.lists[1])}
    base = {each.name for each in table.manifests.read_list(child.lists[0])}
    if own & base:
        return True
    files = {entry.identity for entry in commit.entries if entry.kind == ADD}
    return bool(files & {entry.identity for entry in table.live(child)})


def _hint(table: PaimonTable, snapshot: SnapshotFile, *, is_first: bool) -> None:
    """Leave the marks by which other readers find the newest snapshot sooner."""
    if table.handle.catalog_environment.supports_version_management:
        return
    with suppress(HeadwaterError):
        number = str(snapshot.snapshot_id).encode()
        table.files.replace(f"{table.root}/snapshot/LATEST", number)
        if is_first:
            table.files.replace(f"{table.root}/snapshot/EARLIEST", number)
