"""The declared options and their typed form."""

import pytest

from headwater.config.options import (
    ALTERABLE_NAMES,
    TABLE_OPTIONS,
    ArrowCompression,
    LogFormat,
    TimeUnit,
)
from headwater.config.table_options import TableOptions
from headwater.config.values import Option
from headwater.errors import InvalidOptionError
from tests.cases import cases


@cases("option", TABLE_OPTIONS.values())
def test_every_option_has_a_sentence_and_a_default_of_its_kind(option: Option[object]):
    assert option.name.startswith("table.")
    assert option.description.endswith(".")
    assert option.default is None or option.kind.read(option.default) is not None


def test_the_options_that_can_change_are_those_of_fluss_and_some_of_ours():
    assert ALTERABLE_NAMES == (
        "table.auto-partition.enabled",
        "table.auto-partition.num-precreate",
        "table.auto-partition.num-retention",
        "table.datalake.auto-compaction",
        "table.datalake.auto-expire-snapshot",
        "table.datalake.enabled",
        "table.datalake.freshness",
        "table.datalake.historical-partition.enabled",
        "table.kv.compaction.dirty-ratio",
        "table.kv.compaction.enabled",
        "table.kv.compaction.interval",
        "table.kv.standby-replica.enabled",
        "table.log.delete-delay",
        "table.log.local-ttl",
        "table.log.retention.bytes",
        "table.log.roll",
        "table.log.segment.bytes",
        "table.log.tiered.local-segments",
        "table.log.ttl",
        "table.statistics.columns",
    )


def test_a_table_without_properties_has_the_defaults():
    options = TableOptions.of({})

    assert options.log_ttl_ms == options.local_ttl_ms == 7 * 86_400_000
    assert options.log_format is LogFormat.ARROW
    assert options.compression is ArrowCompression.ZSTD
    assert options.compression_zstd_level == 3
    assert options.retention_bytes is None
    assert options.statistics_columns == ()
    assert not options.auto_partition.enabled
    assert options.auto_partition.time_unit is TimeUnit.DAY
    assert options.auto_partition.precreate_count == 2
    assert options.auto_partition.retention_count == 7
    assert options.kv.delete_behavior is None
    assert options.kv.ttl_time_column is None
    assert options.lake.freshness_ms == 180_000


def test_given_values_replace_the_defaults():
    options = TableOptions.of(
        {
            "table.log.ttl": "0ms",
            "table.log.retention.bytes": "1 gb",
            "table.log.arrow.compression.type": "LZ4_FRAME",
            "table.statistics.columns": "a, b",
            "table.auto-partition.time-unit": "HOUR",
        }
    )

    assert options.log_ttl_ms == 0
    assert options.retention_bytes == 1 << 30
    assert options.compression is ArrowCompression.LZ4_FRAME
    assert options.statistics_columns == ("a", "b")
    assert options.auto_partition.time_format.pattern == "yyyyMMddHH"


def test_an_unknown_option_is_named_with_the_one_that_was_meant():
    with pytest.raises(InvalidOptionError, match=r"table.log.tll.*Did you mean 'table.log.ttl'"):
        TableOptions.of({"table.log.tll": "1 d"})


@cases("name", ["", "bucket.num", "x" * 10_000, "table", "table.", "table.\0"])
def test_a_property_that_is_no_option_is_refused(name):
    with pytest.raises(InvalidOptionError) as caught:
        TableOptions.of({name: "1"})

    assert len(str(caught.value)) < 300


@cases(
    ("name", "value", "expected"),
    [
        ("table.log.ttl", "7", "a duration"),
        ("table.log.arrow.compression.zstd.level", "23", "from 1 to 22"),
        ("table.auto-partition.enabled", "yes", "true or false"),
        ("table.auto-partition.time-zone", "Mars", "a zone"),
        ("table.log.arrow.compression.type", "gzip", "none, lz4_frame, zstd"),
        ("table.auto-partition.num-precreate", "1001", "from 0 to 1000"),
    ],
)
def test_a_malformed_value_is_told_with_option_value_and_expectation(name, value, expected):
    with pytest.raises(InvalidOptionError) as caught:
        TableOptions.of({name: value})

    assert name in str(caught.value)
    assert repr(value) in str(caught.value)
    assert expected in str(caught.value)


def test_local_segments_cannot_outlive_the_log():
    with pytest.raises(InvalidOptionError, match="local-ttl"):
        TableOptions.of({"table.log.ttl": "1 d", "table.log.local-ttl": "2 d"})


def test_local_segments_may_outlive_nothing_when_the_log_is_kept_for_ever():
    options = TableOptions.of({"table.log.ttl": "0 ms", "table.log.local-ttl": "2 d"})

    assert options.local_ttl_ms == 2 * 86_400_000
