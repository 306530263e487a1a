"""Upkeep of the plain lake: many files into one, old snapshots out, lost files removed."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import LakeMovedError, LakeRewrittenError
from headwater.lake.spi import (
    Cleaned,
    LakeInventory,
    LakeSnapshot,
    LakeTableSpec,
    LostFile,
    Retention,
    Rewrite,
    StrayFile,
    WriteResult,
)
from headwater.runtime.clock import SystemClock
from tests.lake.plain_source import PlainSource
from tests.lake.plain_table import DataFile, PlainTable, reaching

FILES_MIN = 5
_MIN = "history.expire.min-snapshots-to-keep"
_AGE = "history.expire.max-snapshot-age-ms"
DEFAULT = {_MIN: "1", _AGE: "3600000"}


@dataclass(frozen=True, slots=True)
class PlainKeeper:
    table: PlainTable
    spec: LakeTableSpec

    def plan_rewrites(self, *, on: LakeSnapshot) -> list[Rewrite]:
        stored = self.table.stored(on.snapshot_id)
        if stored is None:
            raise LakeMovedError(f"Snapshot {on.snapshot_id} of {self.spec.path} is gone.")
        groups = PlainSource(self.table, self.spec)._by_bucket(stored.files)
        return [
            Rewrite(
                partition=group[0].partition,
                bucket=group[0].bucket,
                file_count=len(group),
                byte_count=sum(file.byte_count for file in group),
                payload=json.dumps([asdict(file) for file in group]).encode(),
            )
            for group in groups
            if len(group) >= FILES_MIN
        ]

    def rewrite(self, work: Rewrite) -> WriteResult:
        old = [DataFile.of(node) for node in json.loads(work.payload)]
        rows = self.table.current_rows(old, self.spec.schema)
        place = {"partition": work.partition, "bucket": work.bucket}
        new = [self.table.file_of(rows, self.spec, **place)] if rows.num_rows else []
        swap = {"old": [file.path for file in old], "new": [asdict(file) for file in new]}
        return WriteResult(
            **place,
            row_count=rows.num_rows,
            file_count=len(new),
            byte_count=sum(file.byte_count for file in new),
            payload=json.dumps(swap).encode(),
        )

    def commit_rewrites(self, results: Sequence[WriteResult], *, on: LakeSnapshot) -> LakeSnapshot:
        stored = self.table.stored(on.snapshot_id)
        swaps = [json.loads(result.payload) for result in results]
        gone = {path for swap in swaps for path in swap["old"]}
        if stored is None or not gone <= {file.path for file in stored.files}:
            raise LakeRewrittenError(f"Files of {self.spec.path} were rewritten by others.")
        new = [DataFile.of(node) for swap in swaps for node in swap["new"]]
        kept = [file for file in stored.files if file.path not in gone]
        return self.table.put_snapshot(
            [*new, *kept], on=on, boundary=stored.boundary, properties={"operation": "compact"}
        )

    def merge_manifests(self, *, on: LakeSnapshot) -> LakeSnapshot | None:
        return None

    def retention(self) -> Retention:
        options = {**DEFAULT, **self.spec.properties}
        return Retention(snapshots_min=int(options[_MIN]), age_ms=int(options[_AGE]))

    def expire(self, retention: Retention, *, now_ms: int) -> Cleaned:
        ids = self.table.snapshot_ids()
        stored = [each for each in map(self.table.stored, ids) if each is not None]
        older = stored[: max(0, len(stored) - max(1, retention.snapshots_min))]
        gone = [each for each in older if each.committed_ms < now_ms - retention.age_ms]
        kept = {file.path for each in stored if each not in gone for file in each.files}
        lost = {file.path for each in gone for file in each.files} - kept
        for each in gone:
            self.table.drop_snapshot(each.snapshot_id)
        data_files, byte_count = _removed(map(Path, lost))
        return Cleaned(
            snapshots=len(gone),
            data_files=data_files,
            metadata_files=len(gone),
            byte_count=byte_count,
        )

    def remove_orphans(self, *, older_than_ms: int) -> Cleaned:
        ids = self.table.snapshot_ids()
        stored = [each for each in map(self.table.stored, ids) if each is not None]
        held = {file.path for each in stored for file in each.files}
        with reaching(self.table.place):
            found = [file for file in self.table.data.glob("*") if str(file) not in held]
            old = [file for file in found if file.stat().st_mtime_ns < older_than_ms * 1_000_000]
        data_files, byte_count = _removed(old)
        return Cleaned(data_files=data_files, byte_count=byte_count)

    def inventory(self, *, opens_files: bool = False) -> LakeInventory:
        with reaching(self.table.place):
            there = {str(file): file.stat() for file in self.table.data.glob("*")}
        stored = [each for each in map(self.table.stored, self.table.snapshot_ids()) if each]
        named: dict[str, tuple[DataFile, int]] = {}
        for each in stored:
            for file in each.files:
                named.setdefault(file.path, (file, each.snapshot_id))
        faults = {path: _fault(file, opens_files) for path, (file, _) in named.items()}
        kept = set(self.table.snapshot_ids())
        now_ms = SystemClock().now_ms()
        return LakeInventory(
            named=len(named),
            missing=tuple(
                LostFile(path, named[path][1], fault)
                for path, fault in faults.items()
                if fault is not None and named[path][1] in kept
            ),
            orphans=tuple(
                StrayFile(path, now_ms - stat.st_mtime_ns // 1_000_000, stat.st_size)
                for path, stat in there.items()
                if path not in named
            ),
            duplicates=tuple(
                LostFile(path, each.snapshot_id, f"is listed {count} times")
                for each in stored
                for path, count in Counter(file.path for file in each.files).items()
                if count > 1
            ),
        )


def _fault(file: DataFile, opens_files: bool) -> str | None:
    path = Path(file.path)
    if not path.exists():
        return "is missing"
    if path.stat().st_size != file.byte_count:
        return f"has {path.stat().st_size} bytes, but the metadata says {file.byte_count}"
    if not opens_files:
        return None
    try:
        count = pq.read_metadata(path).num_rows
    except (pa.ArrowException, OSError) as fault:
        return f"cannot be read: {fault}"
    if count == file.row_count:
        return None
    return f"holds {count} rows, but the metadata says {file.row_count}"


def _removed(files: Iterable[Path]) -> tuple[int, int]:
    """Remove files, and return how many and how large they were."""
    present = [file for file in files if file.exists()]
    byte_count = sum(file.stat().st_size for file in present)
    for file in present:
        file.unlink(missing_ok=True)
    return len(present), byte_count
