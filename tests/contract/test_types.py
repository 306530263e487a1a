"""Every type, there and back, in log and primary-key tables."""

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest

TYPES = {
    "flag": "BOOLEAN",
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "whole": "INT",
    "long": "BIGINT",
    "single": "FLOAT",
    "double": "DOUBLE",
    "letters": "CHAR(3)",
    "text": "STRING",
    "price": "DECIMAL(10, 2)",
    "huge": "DECIMAL(38, 10)",
    "day": "DATE",
    "at": "TIME(3)",
    "moment": "TIMESTAMP(6)",
    "exact": "TIMESTAMP(3)",
    "zoned": "TIMESTAMP_LTZ(6)",
    "blob": "BYTES",
    "four": "BINARY(4)",
    "many": "ARRAY<INT>",
    "named": "MAP<STRING, DOUBLE>",
    "nested": "ROW<a INT, b ARRAY<STRING>>",
}
FULL = {
    "flag": True,
    "tiny": -128,
    "small": 32767,
    "whole": -(2**31),
    "long": 2**63 - 1,
    "single": 0.5,
    "double": -1e300,
    "letters": "abc",
    "text": "straße",
    "price": Decimal("12345678.90"),
    "huge": Decimal("-1234567890123456789012345678.0123456789"),
    "day": date(2026, 2, 28),
    "at": time(23, 59, 59, 999000),
    "moment": datetime(1969, 12, 31, 23, 59, 59, 999999),
    "exact": datetime(2026, 1, 1, 12, 0, 0, 123000),
    "zoned": datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC),
    "blob": b"\x00\xff",
    "four": b"1234",
    "many": [1, None, -3],
    "named": [("x", 1.5), ("y", None)],
    "nested": {"a": 7, "b": ["p", None]},
}
EMPTY = dict.fromkeys(TYPES)


def test_a_log_table_keeps_every_type(client, name):
    table = client.create_table(name, {"id": "INT", **TYPES})

    table.append([{"id": 1, **FULL}, {"id": 2, **EMPTY}])

    assert table.scan().to_pylist() == [{"id": 1, **FULL}, {"id": 2, **EMPTY}]


def test_a_primary_key_table_keeps_every_type(client, name):
    table = client.create_table(name, {"id": "INT", **TYPES}, primary_key="id")

    table.upsert([{"id": 1, **FULL}, {"id": 2, **EMPTY}])

    rows = sorted(table.scan().to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": 1, **FULL}, {"id": 2, **EMPTY}]
    assert table.get({"id": 1}) == {"id": 1, **FULL}
    with table.tail("earliest") as tail:
        tailed = [row for batch in tail.poll(30.0) for row in batch.rows.to_pylist()]
    assert sorted(tailed, key=lambda row: row["id"]) == rows


@pytest.mark.parametrize(
    "column",
    [name for name in TYPES if name not in ("many", "named", "nested", "single", "double")],
)
def test_a_key_may_be_of_any_plain_type(client, name, column):
    table = client.create_table(
        name, {"key": TYPES[column], "id": "INT"}, primary_key="key", buckets=3
    )

    table.upsert({"key": FULL[column], "id": 1})

    assert table.get({"key": FULL[column]}) == {"key": FULL[column], "id": 1}
