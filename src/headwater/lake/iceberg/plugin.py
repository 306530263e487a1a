"""Where the registry enters: opens a lake of Iceberg tables."""

from collections.abc import Mapping

from headwater.lake.iceberg.storage import IcebergStorage


def open_lake(config: Mapping[str, str]) -> IcebergStorage:
    """Open the lake that properties of a pyiceberg catalog describe; connects when used."""
    return IcebergStorage(dict(config))
