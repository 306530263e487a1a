"""A lake of Iceberg tables in a directory, and the same tables as pyiceberg sees them."""

from collections.abc import Callable, Mapping

import pytest

pytest.importorskip("pyiceberg")

from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from headwater.config.lake import ICEBERG_CATALOG_NAME
from headwater.lake.iceberg.plugin import IcebergStorage
from headwater.lake.spi import LakeTableSpec
from tests.lake.formats import config_of
from tests.lake.tables import Tables


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Mapping[str, str]:
    return config_of("iceberg", tmp_path_factory.mktemp("iceberg"))


@pytest.fixture(scope="module")
def lake(config) -> IcebergStorage:
    return IcebergStorage(config)


@pytest.fixture(scope="module")
def tables(lake) -> Tables:
    return Tables(lake)


@pytest.fixture
def foreign(config) -> Callable[[LakeTableSpec], Table]:
    """Return a table as someone sees it who knows nothing of Headwater."""

    def load(spec: LakeTableSpec) -> Table:
        catalog = load_catalog(ICEBERG_CATALOG_NAME, **config)
        return catalog.load_table((spec.path.database, spec.path.table))

    return load
