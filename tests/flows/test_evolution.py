"""Columns that change under a client which names them by position."""

import pyarrow as pa

from headwater.rows.log_batch import iterate, read_sections
from headwater.wire import fluss_pb2 as pb
from tests.flows.appending import TABLE, batch_of, fetch, produce

AMBIGUOUS = 34


async def describe(connection):
    await connection.call(pb.GetTableInfoRequest(table_path=TABLE), pb.GetTableInfoResponse)


async def drop_writer_column(connection):
    request = pb.AlterTableRequest(
        table_path=TABLE,
        ignore_if_not_exists=False,
        drop_columns=[pb.DropColumn(column_name="writer")],
    )
    await connection.call(request, pb.AlterTableResponse)


def values_of(answer, schema):
    header, _ = next(iterate(answer.records))
    start = read_sections(answer.records, header).changes_end
    batch = pa.ipc.read_record_batch(pa.py_buffer(answer.records[start : header.size]), schema)
    return batch.to_pydict()


async def test_a_position_means_what_the_client_has_seen_and_never_something_else(
    connection, table_id
):
    await connection.call(produce(table_id, 0, batch_of([(1, 10)])), pb.ProduceLogResponse)
    await describe(connection)
    await drop_writer_column(connection)
    old, new = pa.schema([("writer", pa.int32())]), pa.schema([("number", pa.int64())])

    seen_before = await fetch(connection, table_id, 0, 0, projected_fields=[0])
    named_by_schema = await fetch(
        connection, table_id, 0, 0, projected_fields=[0], filter_schema_id=2
    )
    await describe(connection)
    seen_both = await fetch(connection, table_id, 0, 0, projected_fields=[0])

    assert values_of(seen_before, old) == {"writer": [1]}
    assert values_of(named_by_schema, new) == {"number": [10]}
    assert seen_both.error_code == AMBIGUOUS
    assert "new connection" in seen_both.error_message
