"""What a server refuses or cannot do in time, and how soon it says so."""

import pyarrow as pa
import pytest

from headwater.errors import PartitionMissingError
from headwater.model.schema import Column, Schema
from headwater.model.types import BigIntType, IntType
from headwater.rows.log_batch import build_batch
from headwater.rows.statistics import encode_statistics
from headwater.runtime.clock import SystemClock
from headwater.server.context import FAULT_DELAY_S
from headwater.wire import fluss_pb2 as pb
from tests.flows.appending import SCHEMA, TABLE, batch_of, fetch, produce
from tests.server.support import (
    HeldSyncs,
    connected,
    create_table,
    disk_with,
    partitioned_json,
    running,
)

TIMED_OUT, INVALID_TIMESTAMP, OUT_OF_RANGE = 25, 38, 19
GREATER_THAN, BIGINT, NUMBER = 4, 4, 1


class NotedSleeps(SystemClock):
    """Note how long is waited, and wait no longer than that."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(seconds)


def counted_batch() -> bytes:
    schema = Schema(
        columns=(
            Column(name="writer", type=IntType(), column_id=0),
            Column(name="number", type=BigIntType(), column_id=NUMBER),
        )
    )
    rows = pa.record_batch([[1, 1], [10, 20]], schema=SCHEMA)
    statistics = encode_statistics(rows, schema, [NUMBER])
    return build_batch(
        memoryview(rows.serialize()), schema_id=1, record_count=2, statistics=statistics
    )


def above(number: int) -> pb.Predicate:
    literal = pb.LiteralValue(literal_type=BIGINT, is_null=False, bigint_value=number)
    leaf = pb.LeafPredicate(function=GREATER_THAN, field_id=NUMBER, literals=[literal])
    return pb.Predicate(type=0, leaf=leaf)


async def test_a_fetch_that_prunes_everything_says_how_far_it_came(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        await connection.call(produce(table_id, 0, counted_batch()), pb.ProduceLogResponse)

        pruned = await fetch(
            connection, table_id, 0, 0, filter_predicate=above(20), filter_schema_id=1
        )
        kept = await fetch(
            connection, table_id, 0, 0, filter_predicate=above(19), filter_schema_id=1
        )

        assert (pruned.records, pruned.filtered_end_offset) == (b"", 2)
        assert kept.records
        assert not kept.HasField("filtered_end_offset")


async def test_rows_that_are_not_durable_in_time_are_told_by_their_code(tmp_path):
    syncs = HeldSyncs("1/0/")
    disk = disk_with(syncs, tmp_path)
    async with running(tmp_path, disk=disk) as server, connected(server) as connection:
        table_id = await create_table(connection)
        await connection.call(produce(table_id, 0, batch_of([(1, 1)])), pb.ProduceLogResponse)
        syncs.hold()
        request = produce(table_id, 0, batch_of([(1, 2)]))
        request.timeout_ms = 20

        answer = await connection.call(request, pb.ProduceLogResponse)

        assert answer.buckets_resp[0].error_code == TIMED_OUT
        syncs.release()


async def test_a_timestamp_that_lies_ahead_is_refused(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        request = pb.ListOffsetsRequest(
            follower_server_id=-1,
            offset_type=2,
            table_id=table_id,
            bucket_id=[0],
            start_timestamp=SystemClock().now_ms() + 3_600_000,
        )

        answer = await connection.call(request, pb.ListOffsetsResponse)

        assert answer.buckets_resp[0].error_code == INVALID_TIMESTAMP


async def test_a_client_that_fetches_in_vain_cannot_do_so_at_full_speed(tmp_path):
    clock = NotedSleeps()
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        table_id = await create_table(connection)

        answer = await fetch(connection, table_id, 0, 10**9, wait_ms=20_000)

        assert answer.error_code == OUT_OF_RANGE
        assert FAULT_DELAY_S in clock.slept


async def test_a_client_that_asks_for_a_missing_partition_waits_for_the_refusal(tmp_path):
    clock = NotedSleeps()
    async with running(tmp_path, clock=clock) as server, connected(server) as connection:
        await create_table(connection, partitioned_json())
        path = pb.PhysicalTablePath(
            database_name=TABLE.database_name, table_name=TABLE.table_name, partition_name="none"
        )

        with pytest.raises(PartitionMissingError):
            await connection.call(pb.MetadataRequest(partitions_path=[path]), pb.MetadataResponse)

        assert FAULT_DELAY_S in clock.slept
