"""What Spark SQL shows of a table."""

import pytest

import headwater
from headwater.engines.spark.catalog.definition import properties_of, read_schema, table_schema


@pytest.fixture
def table(tmp_path):
    with headwater.open(tmp_path) as hw:
        yield hw.create_table(
            "t",
            {"a": "INT", "b": "STRING", "v": "ARRAY<INT NOT NULL>"},
            primary_key=["a", "b"],
            bucket_by="a",
            buckets=3,
            options={"table.log.ttl": "7 d", "team": "red"},
            comment="all of them",
        )


def test_keys_buckets_and_options_are_properties(table):
    shown = properties_of(table.info.descriptor)

    assert shown["primary.key"] == "a,b"
    assert (shown["bucket.key"], shown["bucket.num"]) == ("a", "3")
    assert (shown["table.log.ttl"], shown["team"]) == ("7 d", "red")
    assert (shown["comment"], shown["provider"]) == ("all of them", "headwater")


def test_a_table_declares_which_columns_take_no_nulls_and_its_readers_do_not(table):
    declared = table_schema(table.info.schema, name="t")
    read = read_schema(table.schema, name="t")

    assert [field.nullable for field in declared] == [False, False, True]
    assert [field.nullable for field in read] == [True, True, True]


def test_comments_of_columns_are_shown(table):
    table.add_column("c", "INT", comment="count")

    assert table_schema(table.info.schema, name="t")["c"].metadata == {"comment": "count"}
