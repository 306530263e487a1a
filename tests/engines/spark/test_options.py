"""Options of the Spark source and sink: what they mean, and what is refused with which words."""

import pytest
from pyspark.sql.types import StructType

from headwater.engines.spark.options import SINK_OPTIONS, SOURCE_OPTIONS, StartupMode
from headwater.engines.spark.sink_columns import SinkOptions
from headwater.engines.spark.source import HeadwaterSource
from headwater.engines.spark.source_options import SourceOptions, check_batch
from headwater.errors import InvalidOptionError
from tests.cases import cases

TABLE = {"table": "shop.orders"}


def test_a_read_of_a_table_has_sensible_defaults():
    options = SourceOptions.of(TABLE)

    assert options.connection.servers == ("localhost:9123",)
    assert options.mode is StartupMode.FULL
    assert options.columns is options.where is options.limit is options.partitions is None
    assert options.fails_on_loss
    assert options.connection.deadline_s == 120


def test_options_are_read_whatever_their_case():
    options = SourceOptions.of(TABLE | {"MAXROWSPERTRIGGER": "10", "failondataloss": "FALSE"})

    assert options.rows_max == 10
    assert not options.fails_on_loss


def test_load_and_save_take_the_table_as_their_path():
    assert SourceOptions.of({"path": "shop.orders"}).table == "shop.orders"
    assert SinkOptions.of({"path": "shop.orders"}).table == "shop.orders"


def test_the_option_table_goes_before_the_path():
    assert SourceOptions.of({"path": "a.b", "table": "c.d"}).table == "c.d"


@cases("read", [SourceOptions.of, SinkOptions.of])
def test_a_table_must_be_named(read):
    with pytest.raises(InvalidOptionError, match="No table is given") as caught:
        read({})

    assert "database.table" in str(caught.value.hint)


@cases(
    ("typed", "meant"),
    [
        ("scan.startup.mod", "scan.startup.mode"),
        ("bootstrap.server", "bootstrap.servers"),
        ("maxRowsPerTriger", "maxRowsPerTrigger"),
        ("scan.partition.discovery-interval", "scan.partition.discovery.interval"),
    ],
)
def test_a_typing_error_is_answered_with_the_nearest_name(typed, meant):
    with pytest.raises(InvalidOptionError) as caught:
        SourceOptions.of(TABLE | {typed: "1"})

    assert caught.value.hint == f"Did you mean '{meant}'?"


def test_an_option_of_the_sink_is_none_of_the_source():
    with pytest.raises(InvalidOptionError, match=r"sink\.ignore-delete"):
        SourceOptions.of(TABLE | {"sink.ignore-delete": "true"})


def test_a_name_far_from_all_is_answered_with_all():
    with pytest.raises(InvalidOptionError) as caught:
        SinkOptions.of(TABLE | {"zzz": "1"})

    assert "sink.partial-update" in str(caught.value.hint)


def test_options_of_spark_itself_are_left_to_it():
    options = SinkOptions.of(TABLE | {"checkpointLocation": "/c", "spark.x": "1", "__i": "2"})

    assert options.table == "shop.orders"


@cases(
    ("mode", "option", "text"),
    [
        ("timestamp", "scan.startup.timestamp", "1700000000000"),
        ("offsets", "scan.startup.offsets", '{"0": 5}'),
        ("cursor", "scan.startup.cursor", "billing"),
    ],
)
def test_a_start_and_the_mode_that_uses_it_are_given_together(mode, option, text):
    SourceOptions.of(TABLE | {"scan.startup.mode": mode, option: text})

    with pytest.raises(InvalidOptionError, match="is missing"):
        SourceOptions.of(TABLE | {"scan.startup.mode": mode})
    with pytest.raises(InvalidOptionError) as caught:
        SourceOptions.of(TABLE | {option: text})
    assert f"'{mode}'" in str(caught.value.hint)


def test_a_group_id_is_the_cursor_to_begin_at():
    options = SourceOptions.of(TABLE | {"properties.group.id": "billing"})

    assert (options.mode, options.cursor) == (StartupMode.CURSOR, "billing")
    with pytest.raises(InvalidOptionError, match=r"scan\.startup\.cursor"):
        SourceOptions.of(TABLE | {"properties.group.id": "a", "scan.startup.cursor": "b"})
    with pytest.raises(InvalidOptionError, match=r"'scan\.startup\.mode' is earliest"):
        SourceOptions.of(TABLE | {"properties.group.id": "a", "scan.startup.mode": "earliest"})
    with pytest.raises(InvalidOptionError, match="is for streams"):
        check_batch(options)


@cases(
    ("text", "millis"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("1970-01-01 00:00:01", 1000),
        ("1970-01-01T02:00:00+02:00", 0),
    ],
)
def test_a_moment_is_milliseconds_or_a_time_in_utc(text, millis):
    options = SourceOptions.of(TABLE | {"scan.timestamp-millis": text})

    assert options.as_of_ms == millis


@cases("text", ["", "{}", "[1]", '{"0": -1}', '{"0": true}', '{"0": "x"}', "x"])
def test_offsets_that_are_none_are_refused(text):
    with pytest.raises(InvalidOptionError, match=r"scan\.startup\.offsets"):
        SourceOptions.of(TABLE | {"scan.startup.mode": "offsets", "scan.startup.offsets": text})


def test_a_filter_is_json():
    options = SourceOptions.of(TABLE | {"scan.filter": '[["a", ">", 1]]'})

    assert options.where == [["a", ">", 1]]
    with pytest.raises(InvalidOptionError, match="not JSON"):
        SourceOptions.of(TABLE | {"scan.filter": "a > 1"})


def test_changes_are_read_by_option_or_by_suffix():
    by_option = SourceOptions.of(TABLE | {"scan.changelog": "true"})
    by_suffix = SourceOptions.of({"table": "shop.orders$changelog", "scan.changelog": "true"})

    assert by_option.table == by_suffix.table == "shop.orders$changelog"
    assert by_option.path == "shop.orders"
    assert by_option.virtual == "changelog"


@cases(
    ("option", "text", "field", "value"),
    [
        ("scan.snapshot-id", "7", "snapshot_id", 7),
        ("scan.token", "hw1.abc", "token", "hw1.abc"),
        ("scan.offsets", '{"0": 5}', "ends", {"0": 5}),
        ("scan.mode", "LAKE", "mode", "lake"),
    ],
)
def test_a_position_needs_a_view_of_lake_and_log(option, text, field, value):
    position = SourceOptions.of(TABLE | {option: text}).position

    assert getattr(position, field) == value
    assert position.needs_view
    assert not position.is_latest


def test_one_position_is_named():
    with pytest.raises(InvalidOptionError, match=r"scan\.token.*scan\.timestamp-millis"):
        SourceOptions.of(TABLE | {"scan.token": "hw1.a", "scan.timestamp-millis": "1"})


def test_changes_are_not_read_by_a_position_of_the_lake():
    with pytest.raises(InvalidOptionError, match="its changes") as caught:
        SourceOptions.of({"table": "shop.orders$changelog", "scan.snapshot-id": "7"})

    assert "shop.orders" in str(caught.value.hint)


def test_options_of_the_lake_are_json_and_not_shown():
    text = '{"fs.s3.accessKeySecret": "secret"}'
    options = SourceOptions.of(TABLE | {"lake.options": text})

    assert options.connection.lake == (("fs.s3.accessKeySecret", "secret"),)
    assert "secret" not in repr(options)
    with pytest.raises(InvalidOptionError, match=r"lake\.options"):
        SourceOptions.of(TABLE | {"lake.options": "secret"})


def test_a_password_is_not_shown():
    options = SinkOptions.of(
        TABLE | {"client.security.sasl.username": "ann", "client.security.sasl.password": "secret"}
    )

    assert options.connection.password == "secret"
    assert "secret" not in repr(options)


@cases("option", [*SOURCE_OPTIONS, *SINK_OPTIONS])
def test_every_option_says_what_it_means_in_a_sentence(option):
    assert option.description.endswith(".")
    assert option.default is None or option.read(option.default) is not None


@cases(
    "given",
    [{"scan.startup.mode": "latest"}, {"maxRowsPerTrigger": "5"}, {"maxBytesPerTrigger": "5 mb"}],
)
def test_a_batch_refuses_what_only_streams_heed(given):
    with pytest.raises(InvalidOptionError, match="is for streams, but this is a batch read"):
        HeadwaterSource(TABLE | given).reader(StructType([]))
