"""The lake formats, each opened on a directory of its own."""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from headwater.lake.lakes import open_lake
from headwater.lake.spi import LakeStorage
from tests.lake import plain_lake

# Set to run the tests on lakes in an object store: a place there, and options as KEY=VALUE.
PLACE = os.environ.get("HEADWATER_LAKE_AT")
OPTIONS = os.environ.get("HEADWATER_LAKE_OPTIONS", "").split()
# Set to run them with catalogs in a database: its address, as SQLAlchemy takes it.
DATABASE = os.environ.get("HEADWATER_LAKE_DATABASE")
FORMATS = ("iceberg", "paimon") if PLACE or DATABASE else ("plain", "iceberg", "paimon")
NEEDS = {"iceberg": "pyiceberg", "paimon": "pypaimon"}


def config_of(name: str, directory: Path) -> Mapping[str, str]:
    """Return the configuration of a lake of a format in a directory."""
    options = dict(each.split("=", 1) for each in OPTIONS)
    warehouse = str(directory / "warehouse")
    if PLACE:
        warehouse = f"{PLACE}/{directory.parent.name}-{directory.name}"
    if DATABASE:
        options |= in_database(name, DATABASE, catalog=str(directory))
    if name == "iceberg":
        return {
            "type": "sql",
            "uri": f"sqlite:///{directory}/catalog.sqlite",
            "warehouse": warehouse if PLACE else f"file://{warehouse}",
            **options,
        }
    return options | {"warehouse": warehouse}


def in_database(name: str, address: str, *, catalog: str) -> dict[str, str]:
    """Return the options of a catalog of a format that lies in a database beside others."""
    if name == "iceberg":
        driver = address.replace("postgresql:", "postgresql+psycopg2:")
        return {"type": "sql", "uri": driver, "name": catalog}
    parts = urlsplit(address)
    return {
        "metastore": "jdbc",
        "uri": f"jdbc:{parts.scheme}://{parts.hostname}:{parts.port}{parts.path}",
        "jdbc.user": parts.username or "",
        "jdbc.password": parts.password or "",
        "catalog-key": catalog,
    }


def opened(name: str, config: Mapping[str, str]) -> LakeStorage:
    """Open a lake, or skip the test if the packages of its format are not installed."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
        return open_lake(name, config)
    return plain_lake.open_lake(config)
