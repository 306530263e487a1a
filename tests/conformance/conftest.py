"""The unmodified Apache Fluss client, connected to a real server over a real socket."""

from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio

fluss = pytest.importorskip("fluss", reason="pyfluss has no wheel for this Python")

from tests.serving import ServerProcess, serving  # noqa: E402

_numbers = count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("conformance") / "data"
    with serving(directory) as running:
        yield running


@pytest_asyncio.fixture
async def connection(server: ServerProcess) -> AsyncIterator["fluss.FlussConnection"]:
    config = fluss.Config({"bootstrap.servers": server.address})
    config.writer_batch_timeout_ms = 1
    connection = await fluss.FlussConnection.create(config)
    yield connection
    await connection.close()


@pytest.fixture
def admin(connection: "fluss.FlussConnection") -> "fluss.FlussAdmin":
    return connection.get_admin()


@pytest.fixture
def path() -> "fluss.TablePath":
    return fluss.TablePath("fluss", f"table_{next(_numbers)}")
