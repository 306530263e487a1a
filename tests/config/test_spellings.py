"""Options under the names of other systems: taken, refused with the name to use, or free."""

import pytest

from headwater.config.options import TABLE_OPTIONS
from headwater.config.spellings import (
    FREE_NAMES,
    FREE_PREFIXES,
    NO_EFFECT,
    REFUSED,
    SPELLINGS,
    as_declared,
    as_option,
    is_free,
    without_effect,
)
from headwater.errors import InvalidOptionError
from headwater.model.schema import Column, Schema
from headwater.model.table import TableDescriptor
from headwater.model.types import BigIntType
from tests.cases import cases

SCHEMA = Schema(columns=(Column(name="id", type=BigIntType(), column_id=0),))


def declared(**given) -> TableDescriptor:
    return as_declared(TableDescriptor(schema=SCHEMA, **given))


@cases(
    ("name", "text", "option", "value"),
    [
        ("log.retention.hours", "24", "table.log.ttl", "24 h"),
        ("log.retention.hours", "0", "table.log.ttl", "1 ms"),
        ("log.retention.hours", "-1", "table.log.ttl", "0 ms"),
        ("log.retention.minutes", "90", "table.log.ttl", "90 min"),
        ("retention.ms", " 1000 ", "table.log.ttl", "1000 ms"),
        ("log.retention.ms", "2 d", "table.log.ttl", "2 d"),
        ("log.retention.bytes", "1048576", "table.log.retention.bytes", "1048576 b"),
        ("retention.bytes", "-1", "table.log.retention.bytes", None),
        ("log.segment.bytes", "104857600", "table.log.segment.bytes", "104857600 b"),
        ("log.segment.file-size", "64 mb", "table.log.segment.bytes", "64 mb"),
        ("log.roll.hours", "1", "table.log.roll", "1 h"),
        ("segment.ms", "5000", "table.log.roll", "5000 ms"),
        ("log.segment.delete.delay.ms", "60000", "table.log.delete-delay", "60000 ms"),
        ("log.compaction.enabled", "true", "table.kv.compaction.enabled", "true"),
        ("log.compaction.interval.ms", "60000", "table.kv.compaction.interval", "60000 ms"),
        ("log.compaction.min.cleanable.ratio", "0.3", "table.kv.compaction.dirty-ratio", "0.3"),
        ("log.tiering.interval.ms", "300000", "table.datalake.freshness", "300000 ms"),
        ("table.replication-factor", "1", "table.replication.factor", "1"),
        ("table.row.ttl", "1 h", "table.kv.ttl", "1 h"),
        ("table.kv.row.ttl.time-column", "seen", "table.kv.ttl.time-column", "seen"),
    ],
)
def test_a_foreign_name_becomes_ours_with_the_unit_that_it_says(name, text, option, value):
    assert as_option(name, text) == (option, value)


@cases("name", SPELLINGS)
def test_every_spelling_stands_for_a_declared_option_and_for_nothing_else(name):
    assert TABLE_OPTIONS[SPELLINGS[name].option.name] is SPELLINGS[name].option
    assert name not in TABLE_OPTIONS
    assert name not in REFUSED
    assert not is_free(name)


@cases(
    ("name", "text"),
    [
        ("log.retention.hours", "a while"),
        ("log.retention.hours", "-2"),
        ("log.segment.bytes", "10"),
        ("log.segment.bytes", "-1"),
        ("log.compaction.min.cleanable.ratio", "1.5"),
        ("log.compaction.enabled", "1"),
        ("table.row.ttl", "3600"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_under_the_name_that_was_written(name, text):
    with pytest.raises(InvalidOptionError, match=f"'{name}' cannot be '{text}'") as refused:
        as_option(name, text)

    assert refused.value.hint.startswith("Expected")


@cases("name", REFUSED)
def test_a_name_that_cannot_work_is_refused_with_what_to_use(name):
    with pytest.raises(InvalidOptionError) as refused:
        as_option(name, "1")

    assert refused.value.hint == REFUSED[name]


@cases(
    ("name", "hint"),
    [
        ("log.retention.hour", "'log.retention.hours'"),
        ("table.log.tll", "'table.log.ttl'"),
        ("merge-engine", "'table.merge-engine'"),
        ("auto-partition.enabled", "'table.auto-partition.enabled'"),
        ("bucket.number", "'bucket.num'"),
        ("x", "begin with 'custom.'"),
        ("entirely.other", "reference of table options"),
    ],
)
def test_a_name_that_nobody_knows_is_refused_with_the_nearest(name, hint):
    with pytest.raises(InvalidOptionError, match="There is no table option") as refused:
        as_option(name, "1")

    assert hint in refused.value.hint


@cases("name", [*FREE_NAMES, *(f"{prefix}anything" for prefix in FREE_PREFIXES)])
def test_free_names_are_kept_as_they_are(name):
    assert declared(custom_properties={name: ""}).custom_properties == {name: ""}


def test_options_are_properties_wherever_they_are_written():
    table = declared(
        properties={"table.log.format": "arrow"},
        custom_properties={"log.roll.hours": "2", "table.log.ttl": "1 d", "scan.startup.mode": "x"},
    )

    assert table.properties == {
        "table.log.format": "arrow",
        "table.log.roll": "2 h",
        "table.log.ttl": "1 d",
    }
    assert table.custom_properties == {"scan.startup.mode": "x"}


def test_two_names_of_one_option_must_agree():
    same = declared(custom_properties={"log.retention.ms": "5", "retention.ms": "5"})

    assert same.properties == {"table.log.ttl": "5 ms"}
    with pytest.raises(InvalidOptionError, match=r"both set 'table.log.ttl'"):
        declared(custom_properties={"log.retention.hours": "1", "retention.ms": "5"})


@cases("name", ["bucket.num", "bucket-num", "bucket"])
def test_the_number_of_buckets_is_taken_from_its_option(name):
    assert declared(custom_properties={name: "4"}).bucket_count == 4
    assert declared(custom_properties={name: "4"}).custom_properties == {}
    assert declared(custom_properties={name: "4"}, bucket_count=4).bucket_count == 4
    with pytest.raises(InvalidOptionError, match="but the table has 3 buckets"):
        declared(custom_properties={name: "4"}, bucket_count=3)
    with pytest.raises(InvalidOptionError, match="cannot be 'many'"):
        declared(custom_properties={name: "many"})


def test_the_bucket_key_and_the_auto_increment_column_are_taken_from_their_options():
    table = declared(custom_properties={"bucket.key": "id", "auto-increment.fields": "id"})

    assert table.bucket_keys == ("id",)
    assert table.schema.auto_increment == ("id",)
    with pytest.raises(InvalidOptionError, match="but the table has buckets by id"):
        declared(custom_properties={"bucket.key": "other"}, bucket_keys=("id",))


def test_what_has_no_effect_is_told_with_the_reason():
    table = TableDescriptor(
        schema=SCHEMA,
        properties={"table.log.ttl": "1 d", "table.log.local-ttl": "1 h"},
        custom_properties={"log.retention.hours": "0", "custom.a": "b", "remote.data.dir": "s3://"},
    )

    told = without_effect(table)

    assert list(told) == ["log.retention.hours", "remote.data.dir", "table.log.local-ttl"]
    assert "'table.log.ttl' is the option" in told["log.retention.hours"]
    assert told["remote.data.dir"] == REFUSED["remote.data.dir"]
    assert told["table.log.local-ttl"] == NO_EFFECT["table.log.local-ttl"]
