"""Servers that keep catalogs: PostgreSQL for both formats, and a REST catalog of Iceberg."""

from collections.abc import AsyncIterator, Iterator, Mapping
from uuid import uuid4

import pytest
from scripts.postgres import Postgres, PostgresMissingError, find_programs, running_postgres
from scripts.rest_catalog import RestCatalog, running_rest_catalog

from headwater import aio
from headwater.config.client import ClientSettings
from headwater.lake.lakes import Lakes, open_lake
from tests.lake.formats import in_database
from tests.tiering.world import World

CATALOGS = (("iceberg", "postgres"), ("paimon", "postgres"), ("iceberg", "rest"))
OTHER_FORMATS = {"iceberg": "paimon", "paimon": "iceberg"}


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    pytest.importorskip("psycopg2", reason="`make interop` brings the driver of PostgreSQL")
    try:
        find_programs()
    except PostgresMissingError as missing:
        pytest.skip(str(missing))
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def rest() -> Iterator[RestCatalog]:
    with running_rest_catalog() as server:
        yield server


@pytest.fixture(params=CATALOGS, ids="-".join)
def catalog(request) -> tuple[str, str]:
    return request.param


@pytest.fixture
def lake_format(catalog) -> str:
    return catalog[0]


@pytest.fixture
def server(catalog, request) -> Iterator[Postgres | RestCatalog]:
    """Return the server of the catalog, which is up again after the test."""
    server = request.getfixturevalue(catalog[1])
    yield server
    if server.process is None:
        server.start()


@pytest.fixture
def config(server, lake_format, tmp_path) -> Mapping[str, str]:
    if isinstance(server, RestCatalog):
        return server.options
    places = {"iceberg": f"file://{tmp_path}/warehouse", "paimon": f"{tmp_path}/warehouse"}
    options = in_database(lake_format, server.address, catalog=str(tmp_path))
    return {**options, "warehouse": places[lake_format]}


@pytest.fixture
async def hw(tmp_path) -> AsyncIterator[aio.AsyncClient]:
    async with await aio.open(
        tmp_path / "data", settings=ClientSettings(deadline_s=30.0)
    ) as client:
        yield client


@pytest.fixture
def world(hw, config, lake_format, tmp_path) -> World:
    """Return a storage whose tables of one format go to the server, and of the other to files."""

    def opened(name: str, told: Mapping[str, str]):
        return open_lake(name, config if name == lake_format else told)

    return World(hw, Lakes(opener=opened), lake_format, tmp_path / "warehouse")


@pytest.fixture
def name() -> str:
    # The catalog knows the tables of other tests too.
    return f"t_{uuid4().hex}"
