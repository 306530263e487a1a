"""Entry point of the Paimon format: opens a lake and hands out its roles."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.lake.paimon.catalog import PaimonCatalog, PaimonTable
from headwater.lake.paimon.commit import PaimonCommitter
from headwater.lake.paimon.read import PaimonSource
from headwater.lake.paimon.upkeep import PaimonKeeper
from headwater.lake.paimon.write import open_writer
from headwater.lake.spi import LakeTableSpec, LakeWriter, WriteTask
from headwater.runtime.clock import SystemClock


@dataclass(frozen=True, slots=True)
class PaimonStorage:
    """One catalog, named by its options; opens what reads, writes and maintains its tables."""

    config: Mapping[str, str] = field(repr=False)

    @property
    def format(self) -> str:
        """Name of the format."""
        return "paimon"

    def catalog(self) -> PaimonCatalog:
        """Catalog of the lake."""
        return PaimonCatalog(self.config)

    def committer(self, spec: LakeTableSpec) -> PaimonCommitter:
        """Committer for a table."""
        return PaimonCommitter(PaimonTable.open(self.config, spec), SystemClock())

    def writer(self, spec: LakeTableSpec, task: WriteTask) -> LakeWriter:
        """Writer of one bucket."""
        return open_writer(PaimonTable.open(self.config, spec), task, SystemClock())

    def source(self, spec: LakeTableSpec) -> PaimonSource:
        """Reader of an existing table."""
        return PaimonSource(PaimonTable.open(self.config, spec))

    def keeper(self, spec: LakeTableSpec) -> PaimonKeeper:
        """Maintenance of a table."""
        return PaimonKeeper(PaimonTable.open(self.config, spec), SystemClock())


def open_lake(config: Mapping[str, str]) -> PaimonStorage:
    """Open the lake that options of a Paimon catalog describe."""
    return PaimonStorage(dict(config))
