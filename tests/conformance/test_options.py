"""Options of other systems, sent by the official client as Flink and Java send them."""

import fluss
import pyarrow as pa
import pytest

from tests.conformance.client import create
from tests.conformance.test_keyed_admin import create_keyed

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string())])
# What the connector of Fluss stores for a table of Flink.
OF_FLINK = {
    "connector": "fluss",
    "bootstrap.servers": "localhost:9123",
    "scan.startup.mode": "earliest",
    "lookup.async": "true",
    "sink.ignore-delete": "true",
    "client.writer.acks": "all",
    "schema.watermark.0.rowtime": "ts",
    "schema.3.expr": "PROCTIME()",
    "materialized-table.refresh-mode": "CONTINUOUS",
    "paimon.file.format": "parquet",
}


async def test_custom_properties_that_say_something_are_options(admin, path):
    given = {"log.retention.hours": "24", "log.segment.bytes": "1048576", "bucket.num": "2"}

    await create(admin, path, SCHEMA, custom_properties=given)

    info = await admin.get_table_info(path)
    assert info.get_properties()["table.log.ttl"] == "24 h"
    assert info.get_properties()["table.log.segment.bytes"] == "1048576 b"
    assert info.num_buckets == 2
    assert info.get_custom_properties() == {}


async def test_what_the_connector_of_flink_stores_comes_back(admin, path):
    await create(admin, path, SCHEMA, custom_properties=OF_FLINK)

    assert (await admin.get_table_info(path)).get_custom_properties() == OF_FLINK


async def test_a_custom_property_that_nobody_knows_is_refused(admin, path):
    with pytest.raises(fluss.FlussError, match=r"Did you mean 'log.roll.hours'") as error:
        await create(admin, path, SCHEMA, custom_properties={"log.roll.hour": "1"})

    assert error.value.error_code == fluss.ErrorCode.INVALID_CONFIG_EXCEPTION


@pytest.mark.parametrize("name", ["table.kv.ttl", "table.kv.row.ttl", "table.row.ttl"])
async def test_rows_expire_under_every_name_that_the_option_has_had(admin, path, name):
    await create_keyed(admin, path, properties={name: "1 h"})

    assert (await admin.get_table_info(path)).get_properties()["table.kv.ttl"] == "1 h"
