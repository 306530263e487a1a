"""The lake behind the tables of a server: where it is, who tiers to it, and how far."""

from pathlib import Path

from headwater.config.choices import LakeFormat
from headwater.config.lake import SERVED_FORMATS, lake_config, told_properties
from headwater.config.options import DATALAKE_ENABLED, DATALAKE_FORMAT
from headwater.config.server import ServerSettings
from headwater.model.table import TableInfo
from headwater.runtime.clock import Clock
from headwater.server.catalog.catalog import Catalog
from headwater.server.lake.offsets_files import OffsetsFiles
from headwater.server.lake.rounds import Rounds
from headwater.server.lake.untiered import untiered_rows
from headwater.server.tablets import Tablets

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

    def untiered(self, table_id: int) -> int:
        """Return how many rows of a table the lake does not hold yet."""
        return self._untiered(table_id, partition_id=None)

    def untiered_of_partition(self, table_id: int, partition_id: int) -> int:
        """Return how many rows of a partition the lake does not hold yet."""
        return self._untiered(table_id, partition_id=partition_id)

    def _untiered(self, table_id: int, *, partition_id: int | None) -> int:
        logs = (
            (bucket, tablet.start_offset, tablet.log.end_offset)
            for bucket, tablet in self._tablets.all_open()
            if bucket.table_id == table_id and partition_id in (None, bucket.partition_id)
        )
        return untiered_rows(logs, self._catalog.lake.ends(table_id))
