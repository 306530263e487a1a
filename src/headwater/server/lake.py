"""The lake behind the tables of a server: offsets files, checked reports, and how far it goes."""

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import UUID

from headwater import errors
from headwater.config.lake import SERVED_FORMATS, lake_config, local_catalog, told_properties
from headwater.config.options import DATALAKE_ENABLED, DATALAKE_FORMAT, LakeFormat
from headwater.config.server import ServerSettings
from headwater.lake.lakes import Opener, lake_format, lake_spec, open_lake
from headwater.lake.spi import LakeSnapshot
from headwater.model import LakeBucket, TableBucket, TableInfo
from headwater.model.boundary import BOUNDARY_PROPERTY, TableIdentity
from headwater.runtime.clock import Clock, random_bytes
from headwater.runtime.events import Events
from headwater.server.catalog import lake_entries
from headwater.server.catalog.catalog import ServerCatalog
from headwater.server.tablets import Tablets
from headwater.server.tiering import TieringRounds
from headwater.store.local import make_durably, sync_all, sync_names
from headwater.tablet.log_tablet import LogTablet


def tiered_end(bucket: TableBucket, ends: Mapping[LakeBucket, int]) -> int:
    """Return a bucket's first offset that is not in the lake; 0 if the lake has no rows."""
    return ends.get(LakeBucket(bucket.partition_id, bucket.bucket), 0)


# Offsets files: each says how far the lake goes once its round is committed.

SUFFIX = ".offsets"
_NAME = re.compile(r"[0-9a-f-]{36}\.offsets")
KEPT_UNUSED_MS = 24 * 3600 * 1000
_BYTES_MAX = 64 * 1024**2


class OffsetsFiles:
    """Write, read and delete the offsets files below one directory; every call blocks."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()

    def write(self, offsets: lake_entries.TieredOffsets) -> str:
        """Write offsets to a new file, durably, and return its path as a URL."""
        directory = self._directory / str(offsets.table_id)
        make_durably(directory)
        path = directory / f"{UUID(bytes=random_bytes(16), version=4)}{SUFFIX}"
        draft = path.with_suffix(".draft")
        with draft.open("w") as file:
            file.write(offsets.to_json())
            file.flush()
            sync_all(file.fileno())
        draft.rename(path)
        sync_names(directory)
        return path.as_uri()

    def read(self, url: str, *, table_id: int) -> lake_entries.TieredOffsets:
        """Read a file that was written for a table; no other file can be named."""
        path = self._place(url, table_id)
        try:
            text = path.read_bytes()[:_BYTES_MAX].decode()
        except FileNotFoundError:
            raise errors.RequestError(
                f"There is no offsets file {path.name}.", hint="Prepare the offsets again."
            ) from None
        except UnicodeDecodeError as fault:
            raise errors.CorruptFileError(f"The offsets file {path} is damaged.") from fault
        offsets = lake_entries.offsets_from_json(text)
        if offsets.table_id != table_id:
            raise errors.RequestError(
                f"The offsets file {path.name} does not belong to table {table_id}."
            )
        return offsets

    def clear(self, used: frozenset[str], *, table_ids: frozenset[int], now_ms: int) -> int:
        """Delete unused files that are a day old; return how many."""
        if not self._directory.is_dir():
            return 0
        cleared = 0
        for directory in [each for each in self._directory.iterdir() if each.name.isdigit()]:
            old = [
                file
                for file in directory.iterdir()
                if file.as_uri() not in used
                and file.stat().st_mtime * 1000 < now_ms - KEPT_UNUSED_MS
            ]
            for file in old:
                file.unlink()
            cleared += len(old)
            if int(directory.name) not in table_ids and not any(directory.iterdir()):
                shutil.rmtree(directory, ignore_errors=True)
        return cleared

    def _place(self, url: str, table_id: int) -> Path:
        try:
            parts = urlsplit(url)
        except ValueError:
            parts = urlsplit("")
        path = Path(unquote(parts.path))
        # A request must not make the server read files of its choice.
        if (
            parts.scheme not in ("", "file")
            or path.parent != self._directory / str(table_id)
            or not _NAME.fullmatch(path.name)
        ):
            raise errors.RequestError(
                "This server did not prepare that offsets file for the table.",
                hint="Prepare the offsets, and commit the path that is returned.",
            )
        return path


# Checked reports: retention deletes rows based on them. A report names a snapshot and how far it
# goes. The server opens the lake and reads the snapshot: ours carry a boundary, those of Apache
# Fluss's tiering service the name of the offsets file that this server prepared. What the snapshot
# does not confirm is not trusted. If the server cannot look (no package, no access) the report is
# kept for readers, and rows are kept until a later check.

LOOK_S_MAX = 10.0
"""Time that a report waits for a check of the lake."""
LOOK_AGAIN_S = 300.0
"""Time between two checks of a snapshot that could not be checked."""
EVERYBODY = "*"
_PARENTS_MAX = 16
_OFFSETS_PROPERTY = "fluss-offsets"
_HINT = (
    "Its rows stay in the log until the lake can be checked. Give the server the same lake as "
    "the tiering service (serve --lake), with its package and credentials; or trust the "
    "service's user with serve --trust-tierers."
)
_events = Events("lake")


class Standing(StrEnum):
    """How far a report is trusted."""

    CHECKED = "checked"
    UNSEEN = "unseen"
    """The lake could not be read."""
    ABSENT = "absent"
    """The lake does not have the snapshot."""


@dataclass(frozen=True, slots=True)
class LakeLook:
    """The result of a check of the lake."""

    standing: Standing
    ends: Mapping[LakeBucket, int]
    """How far the snapshot goes, according to itself."""
    reason: str = ""


class LakeChecks:
    """Check lakes for the snapshots that tiering services report, one at a time."""

    def __init__(
        self,
        configs: Mapping[LakeFormat, Mapping[str, str]],
        files: OffsetsFiles,
        *,
        storage_id: str,
        trusted: str,
        opener: Opener,
        clock: Clock,
    ) -> None:
        self._configs = configs
        self._files = files
        self._storage_id = storage_id
        self._trusted = frozenset(filter(None, (each.strip() for each in trusted.split(","))))
        self._opener = opener
        self._clock = clock
        self._looks = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lake-look")
        self._tried: dict[int, float] = {}

    def trusts(self, user: str | None) -> bool:
        """Tell whether the operator trusts the reports of a user without a check."""
        return EVERYBODY in self._trusted or user in self._trusted

    def is_due(self, table_id: int) -> bool:
        """Tell whether it is time to check again."""
        last = self._tried.get(table_id)
        return last is None or self._clock.monotonic() - last >= LOOK_AGAIN_S

    async def look(self, table: TableInfo, snapshot_id: int) -> LakeLook:
        """Look for a snapshot, in a thread and with a short timeout."""
        self._tried[table.table_id] = self._clock.monotonic()
        loop = asyncio.get_running_loop()
        looking = loop.run_in_executor(self._looks, self._found, table, snapshot_id)
        try:
            async with asyncio.timeout(LOOK_S_MAX):
                seen = await asyncio.shield(looking)
        except TimeoutError:
            seen = LakeLook(Standing.UNSEEN, {}, f"it did not respond within {LOOK_S_MAX:.0f} s")
        if seen.standing is not Standing.CHECKED:
            _events.warning(
                "lake snapshot not checked",
                table=str(table.path),
                snapshot=snapshot_id,
                reason=seen.reason,
                hint=_HINT,
            )
        return seen

    def close(self) -> None:
        """Start no more checks."""
        self._looks.shutdown(wait=False, cancel_futures=True)

    def _found(self, table: TableInfo, snapshot_id: int) -> LakeLook:
        """Look; whatever a library raises must not stop the server."""
        try:
            return self._looked(table, snapshot_id)
        except errors.LakeSnapshotMissingError as fault:
            return LakeLook(Standing.ABSENT, {}, fault.message)
        except errors.HeadwaterError as fault:
            return LakeLook(Standing.UNSEEN, {}, fault.message)
        except Exception as fault:  # noqa: BLE001 - as above; the report is not believed
            return LakeLook(Standing.UNSEEN, {}, f"{type(fault).__name__}: {fault}")

    def _looked(self, table: TableInfo, snapshot_id: int) -> LakeLook:
        name = lake_format(table)
        config = self._configs[LakeFormat(name)]
        place = local_catalog(LakeFormat(name), config)
        if place is not None and not Path(place).exists():
            # Opening it would create it.
            return LakeLook(Standing.ABSENT, {}, f"there is no lake at {place}")
        source = self._opener(name, config).source(lake_spec(table))
        found = source.snapshot(snapshot_id)
        if found is None:
            return LakeLook(Standing.ABSENT, {}, f"the lake has no snapshot {snapshot_id}")
        if found.taken:
            return LakeLook(Standing.UNSEEN, {}, f"others deleted rows: {found.taken}")
        for _ in range(_PARENTS_MAX):
            said = self._said(found, table)
            if said is not None:
                return LakeLook(Standing.CHECKED, said)
            # The tiering service of Apache Fluss compacts in a snapshot that need not repeat it.
            found = None if found.parent_id is None else source.snapshot(found.parent_id)
            if found is None:
                break
        return LakeLook(Standing.UNSEEN, {}, f"snapshot {snapshot_id} does not say how far it goes")

    def _said(self, found: LakeSnapshot, table: TableInfo) -> dict[LakeBucket, int] | None:
        """Return how far a snapshot goes according to itself, None if it does not say.

        That is nowhere if it belongs to another table.
        """
        text = found.properties.get(_OFFSETS_PROPERTY)
        if BOUNDARY_PROPERTY not in found.properties and text is not None:
            inline = text.lstrip().startswith("{")
            offsets = (
                lake_entries.offsets_from_json(text)
                if inline
                else self._files.read(text, table_id=table.table_id)
            )
            return dict(offsets.ends) if offsets.table_id == table.table_id else {}
        boundary = found.boundary
        if boundary is None:
            return None
        if boundary.table != TableIdentity(self._storage_id, table.table_id):
            return {}
        return {bucket: held.end for bucket, held in boundary.ranges.items()}


def check_said(
    told: Mapping[LakeBucket, int], said: Mapping[LakeBucket, int], *, snapshot_id: int
) -> None:
    """Reject a report that goes beyond what the snapshot says itself."""
    for bucket, end in sorted(told.items()):
        held = said.get(bucket, 0)
        if end > held:
            partition = (
                "" if bucket.partition_id is None else f" of partition {bucket.partition_id}"
            )
            raise errors.RequestError(
                f"Lake snapshot {snapshot_id} is reported to have bucket "
                f"{bucket.bucket}{partition} up to offset {end}, but according to itself it ends "
                f"at {held}.",
                hint="Report the offsets that the snapshot was committed with.",
            )


# The lake of a server: where it is, who tiers to it, and how far.

METADATA = Path("lake", "metadata")


class ServerLake:
    """What a server knows of the lake and of tiering services."""

    def __init__(
        self,
        directory: Path,
        catalog: ServerCatalog,
        tablets: Tablets,
        *,
        settings: ServerSettings,
        clock: Clock,
        opener: Opener = open_lake,
    ) -> None:
        self._catalog = catalog
        self._tablets = tablets
        self.files = OffsetsFiles(directory / METADATA)
        self.rounds = TieringRounds(catalog, clock=clock, lease_s=settings.lake_tiering_lease_s)
        configs = {
            each: lake_config(each, settings.lake_properties, directory=directory)
            for each in SERVED_FORMATS
        }
        self.checks = LakeChecks(
            configs,
            self.files,
            storage_id=catalog.storage_id,
            trusted=settings.lake_trusted_tierers,
            opener=opener,
            clock=clock,
        )
        self._told: dict[LakeFormat, dict[str, str]] = {
            each: told_properties(each, config) for each, config in configs.items()
        }

    def told_properties(self, table: TableInfo) -> dict[str, str]:
        """Return where the lake of a table is, as table properties."""
        properties = table.descriptor.properties
        lake = DATALAKE_FORMAT.of(properties)
        # Once tiered, a table can be read from the lake even if tiering is disabled.
        if lake is None or DATALAKE_ENABLED.name not in properties:
            return {}
        return self._told.get(lake, {})

    def untiered(self) -> Counter[int]:
        """Count the rows of each table that are not yet in the lake, by table id."""
        rows: Counter[int] = Counter()
        for bucket, tablet in self._tablets.all_open():
            ends = self._catalog.lake.ends(bucket.table_id)
            rows[bucket.table_id] += self._untiered(bucket, tablet, ends)
        return rows

    def untiered_of_partition(self, partition_id: int) -> int:
        """Count the rows of a partition that are not yet in the lake."""
        return sum(
            self._untiered(bucket, tablet, self._catalog.lake.held_ends(bucket.table_id))
            for bucket, tablet in self._tablets.all_open()
            if bucket.partition_id == partition_id
        )

    def unchecked(self) -> list[lake_entries.ReportedLakeSnapshot]:
        """List the newest snapshots that were reported and could not be checked."""
        found = [self._catalog.lake.latest(table.table_id) for table in self._catalog.tables.all()]
        return [each for each in found if each is not None and each.standing != Standing.CHECKED]

    async def check_reports(self) -> None:
        """Check again the snapshots that could not be checked when they were reported."""
        for told in self.unchecked():
            if not self.checks.is_due(told.table_id):
                continue
            table = self._catalog.tables.by_id(told.table_id)
            look = await self.checks.look(table, told.snapshot_id)
            if look.standing is Standing.CHECKED and all(
                end <= look.ends.get(bucket, 0) for bucket, end in told.tiered.ends.items()
            ):
                self._catalog.lake.settle(told.table_id, told.snapshot_id)

    def _untiered(
        self, bucket: TableBucket, tablet: LogTablet, ends: Mapping[LakeBucket, int]
    ) -> int:
        end = tiered_end(bucket, ends)
        return max(tablet.log.end_offset - max(tablet.start_offset, end), 0)
