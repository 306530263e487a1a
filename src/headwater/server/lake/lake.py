"""The lake behind the tables of a server: where it is, who tiers to it, and how far."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from headwater.config.choices import LakeFormat
from headwater.config.lake import SERVED_FORMATS, lake_config, told_properties
from headwater.config.options import DATALAKE_ENABLED, DATALAKE_FORMAT
from headwater.config.server import ServerSettings
from headwater.lake.lakes import Opener
from headwater.lake.registry import open_lake
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo
from headwater.runtime.clock import Clock
from headwater.server.catalog.catalog import Catalog
from headwater.server.catalog.lake_entries import ReportedLakeSnapshot
from headwater.server.lake.checks import LakeChecks, Standing
from headwater.server.lake.offsets_files import OffsetsFiles
from headwater.server.lake.rounds import Rounds
from headwater.server.lake.tiered import tiered_end
from headwater.server.tablets import Tablets
from headwater.tablet.log_tablet import LogTablet

METADATA = Path("lake", "metadata")


class ServerLake:
    """Hold what a server knows of the lake and of those who tier to it."""

    def __init__(
        self,
        directory: Path,
        catalog: Catalog,
        tablets: Tablets,
        *,
        settings: ServerSettings,
        clock: Clock,
        opener: Opener = open_lake,
    ) -> None:
        self._catalog = catalog
        self._tablets = tablets
        self.files = OffsetsFiles(directory / METADATA)
        self.rounds = Rounds(catalog, clock=clock, lease_s=settings.lake_tiering_lease_s)
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
        """Return where the lake of a table is, in the words of its properties."""
        properties = table.descriptor.properties
        lake = DATALAKE_FORMAT.of(properties)
        # Once tiered, a table can be read from the lake although it is tiered no further.
        if lake is None or DATALAKE_ENABLED.name not in properties:
            return {}
        return self._told.get(lake, {})

    def untiered(self) -> Counter[int]:
        """Return how many rows of each table the lake does not hold yet, by the table's id."""
        rows: Counter[int] = Counter()
        for bucket, tablet in self._tablets.all_open():
            ends = self._catalog.lake.ends(bucket.table_id)
            rows[bucket.table_id] += self._untiered(bucket, tablet, ends)
        return rows

    def untiered_of_partition(self, partition_id: int) -> int:
        """Return how many rows of a partition the lake does not hold yet."""
        return sum(
            self._untiered(bucket, tablet, self._catalog.lake.held_ends(bucket.table_id))
            for bucket, tablet in self._tablets.all_open()
            if bucket.partition_id == partition_id
        )

    def unchecked(self) -> list[ReportedLakeSnapshot]:
        """Return the newest snapshots that were told of and could not be checked."""
        found = [self._catalog.lake.latest(table.table_id) for table in self._catalog.tables.all()]
        return [each for each in found if each is not None and each.standing != Standing.CHECKED]

    async def check_reports(self) -> None:
        """Look again for snapshots that could not be checked when they were told of."""
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
