"""An audit of an Apache Fluss cluster through the protocol, as far as that goes."""

from uuid import uuid4

import pyarrow as pa
import pytest
import pytest_asyncio

from headwater.aio import connect
from headwater.audit import Check, audit_storage
from tests.audit.planting import found, proof

COLUMNS = {"id": "BIGINT", "name": "STRING"}
DEPTHS = pytest.mark.parametrize("deep", [False, True], ids=["quick", "deep"])


@pytest_asyncio.fixture
async def client(fluss_bootstrap):
    async with await connect(fluss_bootstrap) as client:
        yield client


@pytest.fixture
def name() -> str:
    return f"table_{uuid4().hex}"


def rows(count: int, text: str = "a") -> pa.Table:
    return pa.table({"id": range(count), "name": [f"{text}{at}" for at in range(count)]})


@DEPTHS
async def test_a_log_table_is_clean(client, name, deep):
    table = await client.create_table(name, COLUMNS, buckets=3)
    for _ in range(5):
        await table.append(rows(200))

    report = await audit_storage(client, [name], deep=deep)

    assert report.findings == ()
    assert proof(report, Check.OFFSETS).amount == 1000


@DEPTHS
@pytest.mark.parametrize("image", ["full", "wal"])
async def test_a_primary_key_table_is_clean(client, name, deep, image):
    options = {"table.changelog.image": image}
    table = await client.create_table(name, COLUMNS, primary_key="id", buckets=2, options=options)
    await table.upsert(rows(300))
    await table.upsert(rows(100, "b"))
    await table.delete([{"id": 7}, {"id": 1000}])
    await table.upsert(rows(20, "c"))

    report = await audit_storage(client, [name], deep=deep)

    assert report.findings == ()
    state = proof(report, Check.STATE)
    assert state.amount == 300 or state.note


@DEPTHS
async def test_partitions_are_audited_one_by_one(client, name, deep):
    table = await client.create_table(
        name, COLUMNS, primary_key=["id", "name"], partition_by="name", buckets=1
    )
    await table.upsert([{"id": at, "name": f"p{at % 3}"} for at in range(30)])

    report = await audit_storage(client, [name], deep=deep)

    assert report.findings == ()
    assert proof(report, Check.OFFSETS).amount == 30


async def test_cursors_of_a_cluster_are_within_their_logs(client, name):
    table = await client.create_table(name, COLUMNS, buckets=2)
    await table.append(rows(10))
    await client.cursors.reset(name, table.path, to="latest")

    report = await audit_storage(client, [name])

    assert found(report, Check.CURSORS) == []
    cursors = proof(report, Check.CURSORS)
    assert cursors.amount == 2 or "cannot" in cursors.note
