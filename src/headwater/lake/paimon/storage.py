"""One lake of Paimon tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.lake.paimon.catalog import PaimonCatalog
from headwater.lake.paimon.committer import PaimonCommitter
from headwater.lake.paimon.keeper import PaimonKeeper
from headwater.lake.paimon.source import PaimonSource
from headwater.lake.paimon.table import PaimonTable
from headwater.lake.paimon.writer import open_writer
from headwater.lake.spi import LakeWriter, WriteTask
from headwater.lake.table import LakeTableSpec
from headwater.runtime.clock import SystemClock


@dataclass(frozen=True, slots=True)
class PaimonStorage:
    """Open what reads, writes and keeps the tables of a lake; holds only its configuration."""

    config: Mapping[str, str] = field(repr=False)

    @property
    def format(self) -> str:
        """Return the name of the format."""
        return "paimon"

    def catalog(self) -> PaimonCatalog:
        """Return the catalog."""
        return PaimonCatalog(self.config)

    def committer(self, spec: LakeTableSpec) -> PaimonCommitter:
        """Return what commits to a lake table."""
        return PaimonCommitter(PaimonTable.open(self.config, spec), SystemClock())

    def writer(self, spec: LakeTableSpec, task: WriteTask) -> LakeWriter:
        """Return what writes one bucket."""
        return open_writer(PaimonTable.open(self.config, spec), task, SystemClock())

    def source(self, spec: LakeTableSpec) -> PaimonSource:
        """Return what reads a lake table."""
        return PaimonSource(PaimonTable.open(self.config, spec))

    def keeper(self, spec: LakeTableSpec) -> PaimonKeeper:
        """Return what keeps a lake table in order."""
        return PaimonKeeper(PaimonTable.open(self.config, spec), SystemClock())
