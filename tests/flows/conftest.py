"""One real server for the stories of this folder."""

import pytest
import pytest_asyncio

from headwater.cluster.links import TcpConnection
from tests.flows.appending import with_table
from tests.serving import serving


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("flows") / "data") as running:
        yield running


@pytest_asyncio.fixture
async def connection(server):
    connection = await TcpConnection.open("127.0.0.1", server.port)
    yield connection
    await connection.close()


@pytest_asyncio.fixture
async def table_id(server):
    return await with_table(server.port)
