"""Databases, tables and partitions through the Fluss client."""

import fluss
import pyarrow as pa
import pytest

from tests.conformance.client import create

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string())])
EVENTS = pa.schema([("id", pa.int32()), ("region", pa.string()), ("day", pa.string())])
CODES = fluss.ErrorCode


async def test_a_database_is_created_listed_described_and_dropped(admin):
    descriptor = fluss.DatabaseDescriptor(comment="sales", custom_properties={"owner": "ada"})

    await admin.create_database("sales", descriptor)

    assert await admin.database_exists("sales")
    assert "sales" in await admin.list_databases()
    described = (await admin.get_database_info("sales")).get_database_descriptor()
    assert described.comment == "sales"
    assert described.get_custom_properties() == {"owner": "ada"}
    await admin.drop_database("sales")
    assert not await admin.database_exists("sales")


async def test_the_default_database_is_there_from_the_start(admin):
    assert "fluss" in await admin.list_databases()


@pytest.mark.parametrize("name", ["../x", "a/b", "", "dot.dot", "ünïcode", "x" * 201, "__system"])
async def test_a_hostile_database_name_is_refused(admin, name):
    before = await admin.list_databases()

    with pytest.raises(fluss.FlussError) as error:
        await admin.create_database(name)

    assert error.value.error_code == CODES.INVALID_DATABASE_EXCEPTION
    assert await admin.list_databases() == before


async def test_a_database_that_exists_is_refused_unless_told_to_ignore_it(admin):
    await admin.create_database("twice", ignore_if_exists=True)

    with pytest.raises(fluss.FlussError) as error:
        await admin.create_database("twice")

    assert error.value.error_code == CODES.DATABASE_ALREADY_EXIST
    await admin.create_database("twice", ignore_if_exists=True)


async def test_a_database_with_tables_is_dropped_only_with_cascade(admin):
    await admin.create_database("full")
    path = fluss.TablePath("full", "events")
    await create(admin, path, SCHEMA)

    with pytest.raises(fluss.FlussError) as error:
        await admin.drop_database("full", cascade=False)

    assert error.value.error_code == CODES.DATABASE_NOT_EMPTY
    await admin.drop_database("full", cascade=True)
    assert not await admin.table_exists(path)


async def test_a_missing_database_is_told_by_its_code(admin):
    with pytest.raises(fluss.FlussError) as dropping:
        await admin.drop_database("nowhere")
    with pytest.raises(fluss.FlussError) as listing:
        await admin.list_tables("nowhere")

    assert dropping.value.error_code == CODES.DATABASE_NOT_EXIST
    assert listing.value.error_code == CODES.DATABASE_NOT_EXIST
    await admin.drop_database("nowhere", ignore_if_not_exists=True)


async def test_a_table_is_described_as_it_was_created(admin, path):
    await create(
        admin,
        path,
        SCHEMA,
        bucket_count=3,
        bucket_keys=["id"],
        comment="things",
        properties={"table.log.ttl": "3 d"},
        custom_properties={"team": "blue"},
    )

    info = await admin.get_table_info(path)

    assert info.num_buckets == 3
    assert info.get_bucket_keys() == ["id"]
    assert info.comment == "things"
    assert info.get_properties()["table.log.ttl"] == "3 d"
    assert info.get_properties()["table.replication.factor"] == "1"
    assert info.get_custom_properties() == {"team": "blue"}
    assert info.get_column_names() == ["id", "name"]
    assert not info.has_primary_key()


async def test_tables_are_listed_and_dropped(admin, path):
    await create(admin, path, SCHEMA)
    assert path.table_name in await admin.list_tables("fluss")

    await admin.drop_table(path)

    assert not await admin.table_exists(path)
    with pytest.raises(fluss.FlussError) as error:
        await admin.drop_table(path)
    assert error.value.error_code == CODES.TABLE_NOT_EXIST


async def test_a_table_that_exists_is_refused_unless_told_to_ignore_it(admin, path):
    await create(admin, path, SCHEMA)

    with pytest.raises(fluss.FlussError) as error:
        await create(admin, path, SCHEMA)

    assert error.value.error_code == CODES.TABLE_ALREADY_EXIST
    descriptor = fluss.TableDescriptor(fluss.Schema(SCHEMA))
    await admin.create_table(path, descriptor, ignore_if_exists=True)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"table.log.tttl": "1 d"}, "table.log.tttl"),
        ({"table.log.ttl": "soon"}, "table.log.ttl"),
        ({"color": "blue"}, "color"),
        ({"table.statistics.columns": "nothing"}, "nothing"),
    ],
)
async def test_a_wrong_option_is_named_in_the_error(admin, path, options, named):
    with pytest.raises(fluss.FlussError, match=named):
        await create(admin, path, SCHEMA, properties=options)

    assert not await admin.table_exists(path)


async def test_a_table_with_too_many_buckets_is_refused(admin, path):
    with pytest.raises(fluss.FlussError) as error:
        await create(admin, path, SCHEMA, bucket_count=5000)

    assert error.value.error_code == CODES.BUCKET_MAX_NUM_EXCEPTION


async def test_partitions_are_created_listed_and_dropped(admin, path):
    await create(admin, path, EVENTS, partition_keys=["region", "day"])

    await admin.create_partition(path, {"day": "1", "region": "EU"})
    await admin.create_partition(path, {"region": "US", "day": "1"})

    names = {each.partition_name for each in await admin.list_partition_infos(path)}
    assert names == {"EU$1", "US$1"}
    found = await admin.list_partition_infos(path, {"region": "EU"})
    assert [each.partition_name for each in found] == ["EU$1"]
    await admin.drop_partition(path, {"region": "EU", "day": "1"})
    left = await admin.list_partition_infos(path)
    assert [each.partition_name for each in left] == ["US$1"]


async def test_a_partition_that_does_not_fit_its_table_is_refused(admin, path):
    await create(admin, path, EVENTS, partition_keys=["region", "day"])
    await admin.create_partition(path, {"region": "EU", "day": "1"})

    async def code_of(spec):
        with pytest.raises(fluss.FlussError) as error:
            await admin.create_partition(path, spec)
        return error.value.error_code

    assert await code_of({"region": "EU"}) == CODES.PARTITION_SPEC_INVALID_EXCEPTION
    assert await code_of({"region": "../x", "day": "1"}) == CODES.PARTITION_SPEC_INVALID_EXCEPTION
    assert await code_of({"region": "EU", "day": "1"}) == CODES.PARTITION_ALREADY_EXISTS


async def test_a_table_without_partitions_has_none_to_list(admin, path):
    await create(admin, path, SCHEMA)

    with pytest.raises(fluss.FlussError) as error:
        await admin.list_partition_infos(path)

    assert error.value.error_code == CODES.TABLE_NOT_PARTITIONED_EXCEPTION


async def test_automatic_partitions_are_created_ahead(admin, path):
    options = {"table.auto-partition.enabled": "true", "table.auto-partition.num-precreate": "3"}
    await create(admin, path, EVENTS, partition_keys=["day"], properties=options)

    partitions = []
    while len(partitions) < 3:
        partitions = await admin.list_partition_infos(path)

    assert all(len(each.partition_name) == len("20260131") for each in partitions)


async def test_the_server_shows_itself_as_coordinator_and_tablet_server(admin):
    nodes = await admin.get_server_nodes()

    assert {node.server_type for node in nodes} == {"CoordinatorServer", "TabletServer"}


async def test_a_table_has_no_lake_snapshot_before_tiering(admin, path):
    await create(admin, path, SCHEMA)

    with pytest.raises(fluss.FlussError) as error:
        await admin.get_latest_lake_snapshot(path)

    assert error.value.error_code == CODES.LAKE_STORAGE_NOT_CONFIGURED_EXCEPTION
