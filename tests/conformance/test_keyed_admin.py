"""Primary-key tables are created and described through the Fluss client."""

import json

import fluss
import pyarrow as pa
import pytest

from headwater.cluster.links import TcpConnection
from headwater.wire import fluss_pb2 as pb

SCHEMA = pa.schema(
    [("day", pa.string()), ("id", pa.int64()), ("n", pa.int64()), ("tags", pa.string())]
)
FOLDING = {"table.merge-engine": "aggregation"}


async def create_keyed(admin, path, *, numbered=None, key=("day", "id"), **options):
    schema = fluss.Schema(SCHEMA, primary_keys=list(key), auto_increment_column=numbered)
    await admin.create_table(path, fluss.TableDescriptor(schema, **options))


async def test_a_primary_key_table_is_described_as_it_was_created(admin, path):
    await create_keyed(admin, path, numbered="n", partition_keys=["day"], bucket_count=3)

    info = await admin.get_table_info(path)

    assert info.has_primary_key()
    assert info.get_primary_keys() == ["day", "id"]
    assert info.get_bucket_keys() == ["id"]
    assert info.num_buckets == 3
    assert info.get_properties()["table.kv.format-version"] == "2"
    assert info.get_schema().get_auto_increment_columns() == ["n"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"kv_format": "indexed"}, fluss.ErrorCode.INVALID_CONFIG_EXCEPTION),
        ({"properties": {"table.kv.ttl": "0 ms"}}, fluss.ErrorCode.INVALID_CONFIG_EXCEPTION),
        (
            {"properties": FOLDING, "custom_properties": {"fields.tags.agg": "sum"}},
            fluss.ErrorCode.INVALID_TABLE_EXCEPTION,
        ),
    ],
)
async def test_a_primary_key_table_that_breaks_a_rule_is_refused(admin, path, options, code):
    with pytest.raises(fluss.FlussError) as error:
        await create_keyed(admin, path, **options)

    assert error.value.error_code == code


async def test_columns_that_are_folded_are_described_to_other_clients(admin, server, path):
    functions = {"fields.n.agg": "sum", "fields.tags.agg": "listagg"}
    await create_keyed(admin, path, properties=FOLDING, custom_properties=functions)
    table_path = pb.TablePath(database_name=path.database_name, table_name=path.table_name)
    added = pb.AddColumn(
        column_name="best",
        data_type_json=b'{"type": "BIGINT"}',
        column_position_type=0,
        agg_function_type="max",
    )

    wire = await TcpConnection.open("127.0.0.1", server.port)
    alter = pb.AlterTableRequest(
        table_path=table_path, ignore_if_not_exists=False, add_columns=[added]
    )
    await wire.call(alter, pb.AlterTableResponse)
    described = await wire.call(
        pb.GetTableSchemaRequest(table_path=table_path), pb.GetTableSchemaResponse
    )
    await wire.close()

    columns = json.loads(described.schema_json)["columns"]
    given = [column.get("agg_function", {}).get("type") for column in columns]
    assert given == [None, None, "sum", "listagg", "max"]
