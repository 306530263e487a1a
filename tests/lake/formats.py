"""The lake formats, each opened on a directory of its own."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from headwater.lake.registry import open_lake
from headwater.lake.spi import LakeStorage
from tests.lake import plain_lake

FORMATS = ("plain", "iceberg", "paimon")
NEEDS = {"iceberg": "pyiceberg", "paimon": "pypaimon"}


def config_of(name: str, directory: Path) -> Mapping[str, str]:
    """Return the configuration of a lake of a format in a directory."""
    if name == "iceberg":
        return {
            "type": "sql",
            "uri": f"sqlite:///{directory}/catalog.sqlite",
            "warehouse": f"file://{directory}/warehouse",
        }
    return {"warehouse": str(directory / "warehouse")}


def opened(name: str, config: Mapping[str, str]) -> LakeStorage:
    """Open a lake, or skip the test if the packages of its format are not installed."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
        return open_lake(name, config)
    return plain_lake.open_lake(config)
