"""A real Apache Fluss cluster, and the official client connected to it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio

from tests.interop.cluster import running_cluster
from tests.interop.lake_cluster import LAKES, LakeCluster, running_lake_cluster

fluss = pytest.importorskip("fluss", reason="pyfluss has no wheel for this Python")

from tests.interop.official import connected  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("interop")


@pytest.fixture(scope="session")
def fluss_bootstrap() -> Iterator[str]:
    with running_cluster() as bootstrap:
        yield bootstrap


@pytest.fixture(scope="session", params=LAKES)
def lake_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LakeCluster]:
    """Give a cluster with a lake, for each format that it can have."""
    with running_lake_cluster(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest_asyncio.fixture
async def connection(fluss_bootstrap: str) -> AsyncIterator["fluss.FlussConnection"]:
    async with connected(fluss_bootstrap) as connection:
        yield connection


@pytest.fixture
def admin(connection: "fluss.FlussConnection") -> "fluss.FlussAdmin":
    return connection.get_admin()


@pytest.fixture
def path() -> "fluss.TablePath":
    # The cluster may outlive the run, so a number would meet the table of an earlier one.
    return fluss.TablePath("fluss", f"table_{uuid4().hex}")
