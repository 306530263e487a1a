"""Entry point of the Iceberg format: opens a lake and hands out its roles."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.lake.iceberg.catalog import IcebergCatalog, load_table, open_catalog
from headwater.lake.iceberg.commit import IcebergCommitter
from headwater.lake.iceberg.read import FORMAT, IcebergSource
from headwater.lake.iceberg.upkeep import IcebergKeeper
from headwater.lake.iceberg.write import IcebergKeyedWriter, IcebergLogWriter
from headwater.lake.spi import LakeTableSpec, LakeWriter, WriteTask
from headwater.runtime.clock import SystemClock


@dataclass(frozen=True, slots=True)
class IcebergStorage:
    """One catalog, named by its properties. Workers that write or read do not connect to it."""

    config: Mapping[str, str] = field(repr=False)

    @property
    def format(self) -> str:
        """Name of the format."""
        return FORMAT

    def catalog(self) -> IcebergCatalog:
        """Catalog of the lake."""
        return IcebergCatalog(open_catalog(self.config))

    def committer(self, spec: LakeTableSpec) -> IcebergCommitter:
        """Committer for a table."""
        return IcebergCommitter(open_catalog(self.config), spec, self.config, SystemClock())

    def writer(self, spec: LakeTableSpec, task: WriteTask) -> LakeWriter:
        """Writer of one bucket."""
        if spec.is_keyed:
            return IcebergKeyedWriter.of(spec, task, config=self.config)
        return IcebergLogWriter.of(spec, task, config=self.config)

    def keeper(self, spec: LakeTableSpec) -> IcebergKeeper:
        """Maintenance of a table."""
        return IcebergKeeper(open_catalog(self.config), spec, self.config, SystemClock())

    def source(self, spec: LakeTableSpec) -> IcebergSource:
        """Reader of an existing table."""
        load_table(open_catalog(self.config), spec.path)
        return IcebergSource(spec, self.config)


def open_lake(config: Mapping[str, str]) -> IcebergStorage:
    """Open the lake that properties of a pyiceberg catalog describe; connects when used."""
    return IcebergStorage(dict(config))
