"""A lake of Paimon tables on a directory of its own."""

import pytest

pytest.importorskip("pypaimon")

from pypaimon import CatalogFactory

from headwater.lake.paimon.catalog import PaimonTable
from tests.lake.formats import config_of, opened
from tests.lake.tables import Tables


@pytest.fixture(scope="session")
def config(tmp_path_factory):
    return config_of("paimon", tmp_path_factory.mktemp("paimon"))


@pytest.fixture(scope="session")
def tables(config) -> Tables:
    return Tables(opened("paimon", config))


@pytest.fixture(scope="session")
def foreign(config):
    """Return what opens a table as pypaimon itself has it."""
    return lambda table: CatalogFactory.create(dict(config)).get_table(str(table.spec.path))


@pytest.fixture(scope="session")
def own(config):
    """Return what opens the files of a table."""
    return lambda table: PaimonTable.open(config, table.spec)
