"""A storage and its lake that are audited, and ways to break them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.aio import AsyncTable
from headwater.audit.lakes.lake_audit import audit_lake
from headwater.audit.report import Check, Finding, Notes, Proof, Severity
from headwater.lake.lakes import lake_spec
from headwater.lake.spi import LakeKeeper, LakeSnapshot, Retention
from headwater.model.arrow import arrow_schema
from headwater.model.bucket import OffsetRange
from headwater.tiering.progress import LakeTarget
from headwater.tiering.target import report_snapshot
from headwater.tiering.task import LocalRunner
from headwater.tiering.upkeep import compact
from tests.tiering.world import World


@dataclass
class Audited:
    """What an audit said."""

    findings: tuple[Finding, ...]
    proofs: tuple[Proof, ...]

    @property
    def errors(self) -> list[Finding]:
        return [each for each in self.findings if each.severity is Severity.ERROR]

    @property
    def checks(self) -> set[Check]:
        return {each.check for each in self.errors}

    def about(self, check: Check) -> list[Finding]:
        return [each for each in self.findings if each.check is check]

    def proof(self, check: Check, unit: str | None = None) -> Proof:
        return next(p for p in self.proofs if p.check is check and unit in (None, p.unit))


async def audited(table: AsyncTable, *, deep: bool = False) -> Audited:
    notes = Notes()
    await audit_lake(table, notes, deep=deep)
    return Audited(notes.findings, notes.proofs)


@dataclass
class LakeWorld(World):
    """A world whose tierers know the storage by its real name."""

    storage: str = ""

    def turn(self, table: AsyncTable, number: int, *, coordinator=1, storage=None):
        return super().turn(table, number, coordinator=coordinator, storage=storage or self.storage)

    async def rounds(self, table: AsyncTable, *writes: Sequence[dict[str, object]]) -> None:
        """Write and tier, one round after the other."""
        for number, rows in enumerate(writes, start=1):
            await (table.upsert if table.info.is_keyed else table.append)(list(rows))
            await self.tier(table, number)

    def keeper(self, table: AsyncTable) -> LakeKeeper:
        return self.lakes.of(table.info).keeper(lake_spec(table.info))

    async def compact(self, table: AsyncTable, *, number: int = 50) -> LakeSnapshot:
        """Compact as a tierer does, and tell the server."""
        target = LakeTarget(table.info, self.lakes.of(table.info), lake_spec(table.info))
        head = self.head(table)
        assert head is not None
        made, _ = await compact(target, head, runner=LocalRunner(self.hw))
        await report_snapshot(self.hw, self.turn(table, number).assignment, made)
        return made

    def expire(self, table: AsyncTable, *, keep: int) -> None:
        head = self.head(table)
        assert head is not None
        retention = Retention(snapshots_min=keep, age_ms=0)
        self.keeper(table).expire(retention, now_ms=head.committed_ms + 1_000_000)

    def iceberg(self, table: AsyncTable):
        """Return the lake table as others see it."""
        return self.committer(table).catalog.load_table((table.path.database, table.path.table))

    # ---- breaking it

    def commit_more(
        self, table: AsyncTable, rows: Sequence[dict[str, object]], *, offsets: int = 0
    ) -> LakeSnapshot:
        """Commit rows to the first bucket, and a boundary with as many more offsets as is said."""
        spec, lake, head = lake_spec(table.info), self.lakes.of(table.info), self.head(table)
        committer = lake.committer(spec)
        (first, *_) = head.boundary.ranges
        partition = tuple((key, str(rows[0][key])) for key in spec.partition_keys)
        (task,) = committer.write_tasks([(partition, 0)], on=head)
        writer = lake.writer(spec, task)
        batch = pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(spec.schema))
        writer.write(batch, deleted=pa.array([False] * len(rows)) if spec.is_keyed else None)
        held = head.boundary.ranges[first]
        further = {first: OffsetRange(held.start, held.end + offsets)}
        boundary = replace(head.boundary, round_id="another", ranges=further)
        return committer.commit([writer.finish()], boundary=boundary, on=head, properties={})

    def list_twice(self, table: AsyncTable) -> None:
        """Have a data file listed once more in the newest snapshot."""
        lake = self.lakes.of(table.info)
        if lake.format == "iceberg":
            committer = lake.committer(lake_spec(table.info))
            append_again(committer.catalog.load_table((table.path.database, table.path.table)))
            return
        newest = max(self.metadata_files(), key=lambda path: path.stat().st_mtime_ns)
        node = json.loads(newest.read_text())
        if lake.format == "plain":
            node["files"].append(node["files"][0])
        else:
            node["baseManifestList"] = node["deltaManifestList"]
        newest.write_text(json.dumps(node))

    def data_files(self, table: AsyncTable) -> list[Path]:
        """Return the data files of the newest snapshot."""
        head = self.head(table)
        assert head is not None
        found = self.files(table, head)
        return [Path(each.removeprefix("file://").removeprefix("file:")) for each in found]

    def metadata_files(self) -> list[Path]:
        """Return the files that carry boundaries."""
        found = [path for path in self.directory.rglob("*") if path.is_file()]
        return [path for path in found if b"headwater.boundary" in path.read_bytes()] or [
            path for path in found if path.suffix == ".json"
        ]

    def edit_metadata(self, old: str, new: str) -> None:
        """Change the text of everything that tells of snapshots."""
        for path in self.metadata_files():
            if path.suffix != ".sqlite":
                path.write_text(path.read_text().replace(old, new))


def append_again(table) -> None:
    """Append a file to an Iceberg table that it has already."""
    manifest = table.current_snapshot().manifests(table.io)[0]
    file = manifest.fetch_manifest_entry(table.io)[0].data_file
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(file)


def damage_rows(file: Path) -> None:
    """Spoil the rows of a data file, and none of what stands at its end."""
    content = file.read_bytes()
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    file.write_bytes(content[:4] + b"\xff" * (end - 4) + content[end:])


def rewrite(file: Path, change) -> None:
    """Write a data file anew with other rows, and with the metadata that it has."""
    rows = pq.ParquetFile(file).read()
    pq.write_table(change(rows), file, compression="zstd")


def without_a_row(rows: pa.Table) -> pa.Table:
    return rows.slice(1)


def with_a_row_twice(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows, rows.slice(0, 1)])


def with_another_text(rows: pa.Table, *, at: int = 0) -> pa.Table:
    place, texts = rows.schema.get_field_index("text"), rows["text"].to_pylist()
    texts[at] = "changed"
    return rows.set_column(place, rows.schema.field(place), pa.array(texts))
