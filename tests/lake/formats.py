"""The lake formats, each opened on a directory of its own."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from headwater.lake.registry import open_lake
from headwater.lake.spi import LakeStorage
from tests.lake import plain_lake

# Set to run the tests on lakes in an object store: a place there, and options as KEY=VALUE.
PLACE = os.environ.get("HEADWATER_LAKE_AT")
OPTIONS = os.environ.get("HEADWATER_LAKE_OPTIONS", "").split()
FORMATS = ("iceberg", "paimon") if PLACE else ("plain", "iceberg", "paimon")
NEEDS = {"iceberg": "pyiceberg", "paimon": "pypaimon"}


def config_of(name: str, directory: Path) -> Mapping[str, str]:
    """Return the configuration of a lake of a format in a directory."""
    options = dict(each.split("=", 1) for each in OPTIONS)
    warehouse = str(directory / "warehouse")
    if PLACE:
        warehouse = f"{PLACE}/{directory.parent.name}-{directory.name}"
    if name == "iceberg":
        return options | {
            "type": "sql",
            "uri": f"sqlite:///{directory}/catalog.sqlite",
            "warehouse": warehouse if PLACE else f"file://{warehouse}",
        }
    return options | {"warehouse": warehouse}


def opened(name: str, config: Mapping[str, str]) -> LakeStorage:
    """Open a lake, or skip the test if the packages of its format are not installed."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
        return open_lake(name, config)
    return plain_lake.open_lake(config)
