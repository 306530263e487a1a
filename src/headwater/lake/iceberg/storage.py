"""A lake of Iceberg tables: hands out its roles."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.lake.iceberg.catalog import IcebergCatalog
from headwater.lake.iceberg.committer import IcebergCommitter
from headwater.lake.iceberg.keeper import IcebergKeeper
from headwater.lake.iceberg.keyed_writer import KeyedWriter
from headwater.lake.iceberg.opening import load_table, open_catalog
from headwater.lake.iceberg.source import FORMAT, IcebergSource
from headwater.lake.iceberg.writer import LogWriter
from headwater.lake.spi import LakeWriter, WriteTask
from headwater.lake.table import LakeTableSpec
from headwater.runtime.clock import SystemClock


@dataclass(frozen=True, slots=True)
class IcebergStorage:
    """Name one catalog by its properties. Workers that write or read do not connect to it."""

    config: Mapping[str, str] = field(repr=False)

    @property
    def format(self) -> str:
        """Return the name of the format."""
        return FORMAT

    def catalog(self) -> IcebergCatalog:
        """Return the catalog."""
        return IcebergCatalog(open_catalog(self.config))

    def committer(self, spec: LakeTableSpec) -> IcebergCommitter:
        """Return what commits to a table."""
        return IcebergCommitter(open_catalog(self.config), spec, self.config, SystemClock())

    def writer(self, spec: LakeTableSpec, task: WriteTask) -> LakeWriter:
        """Return what writes one bucket."""
        if spec.is_keyed:
            return KeyedWriter.of(spec, task, config=self.config)
        return LogWriter.of(spec, task, config=self.config)

    def keeper(self, spec: LakeTableSpec) -> IcebergKeeper:
        """Return what keeps a table in order."""
        return IcebergKeeper(open_catalog(self.config), spec, self.config, SystemClock())

    def source(self, spec: LakeTableSpec) -> IcebergSource:
        """Return what reads a table, which has to be there."""
        load_table(open_catalog(self.config), spec.path)
        return IcebergSource(spec, self.config)
