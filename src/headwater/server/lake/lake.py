"""The lake behind the tables of a server: where it is, who tiers to it, and how far."""

from collections import Counter
from pathlib import Path

from headwater.config.choices import LakeFormat
from headwater.config.lake import SERVED_FORMATS, lake_config, told_properties
from headwater.config.options import DATALAKE_ENABLED, DATALAKE_FORMAT
from headwater.config.server import ServerSettings
from headwater.model.bucket import TableBucket
from headwater.model.table import TableInfo
from headwater.runtime.clock import Clock
from headwater.server.catalog.catalog import Catalog
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
    ) -> None:
        self._catalog = catalog
        self._tablets = tablets
        self.files = OffsetsFiles(directory / METADATA)
        self.rounds = Rounds(catalog, clock=clock, lease_s=settings.lake_tiering_lease_s)
        self._told: dict[LakeFormat, dict[str, str]] = {
            each: told_properties(
                each, lake_config(each, settings.lake_properties, directory=directory)
            )
            for each in SERVED_FORMATS
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
            rows[bucket.table_id] += self._untiered(bucket, tablet)
        return rows

    def untiered_of_partition(self, partition_id: int) -> int:
        """Return how many rows of a partition the lake does not hold yet."""
        return sum(
            self._untiered(bucket, tablet)
            for bucket, tablet in self._tablets.all_open()
            if bucket.partition_id == partition_id
        )

    def _untiered(self, bucket: TableBucket, tablet: LogTablet) -> int:
        end = tiered_end(bucket, self._catalog.lake.ends(bucket.table_id))
        return max(tablet.log.end_offset - max(tablet.start_offset, end), 0)
