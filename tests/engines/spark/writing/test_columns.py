"""Columns of data frames against those of tables: what fits, and what is said of the rest."""

import pytest
from pyspark.sql.types import StructType

from headwater.engines.spark.sink_columns import TASK_COLUMN, sink_columns
from headwater.engines.spark.types import spark_schema
from headwater.errors import (
    InvalidTargetColumnError,
    InvalidValueError,
    NotPrimaryKeyTableError,
)
from headwater.model.arrow import arrow_schema
from tests.cases import cases
from tests.engines.spark.writing.tables import described, frame, options

CHANGES = "_change_type string, _log_offset bigint, _commit_timestamp timestamp"
ALL_TYPES = {
    "a": "BOOLEAN",
    "b": "TINYINT",
    "c": "SMALLINT",
    "d": "FLOAT",
    "e": "DOUBLE",
    "f": "DECIMAL(10, 2)",
    "g": "CHAR(3)",
    "h": "BINARY(4)",
    "i": "BYTES",
    "j": "DATE",
    "k": "TIME(3)",
    "l": "TIMESTAMP(3)",
    "m": "TIMESTAMP_LTZ(6)",
    "n": "ARRAY<INT>",
    "o": "MAP<STRING, DOUBLE>",
    "p": "ROW<x INT, y ARRAY<STRING>>",
}


def test_columns_are_matched_by_name_in_any_order():
    columns = sink_columns(frame("amount int, id bigint, city string"), described(), options())

    assert columns.names == ("id", "city", "amount")
    assert columns.targets is columns.change is None
    assert not columns.has_task


def test_types_of_every_kind_fit_those_that_spark_has_for_them():
    table = described(ALL_TYPES)
    given = spark_schema(arrow_schema(table.schema), columns=None, path="")

    columns = sink_columns(given, table, options())

    assert columns.names == tuple(ALL_TYPES)


def test_what_a_changelog_tells_of_its_rows_is_set_aside():
    given = frame(f"{CHANGES}, id bigint, city string, amount int")

    columns = sink_columns(given, described(key=("id",)), options())

    assert columns.names == ("id", "city", "amount")
    assert columns.change == "_change_type"


def test_a_table_may_have_a_column_of_that_name_itself():
    table = described({"id": "BIGINT", "_change_type": "STRING"})

    columns = sink_columns(frame("id bigint, _change_type string"), table, options())

    assert columns.names == ("id", "_change_type")
    assert columns.change is None


def test_the_change_column_holds_text():
    given = frame("id bigint, city string, amount int, op int")

    with pytest.raises(InvalidValueError, match="The column 'op' is int"):
        sink_columns(given, described(key=("id",)), options(change_column="op"))


def test_the_column_of_the_shuffle_is_set_aside():
    given = frame(f"id bigint, city string, amount int, {TASK_COLUMN} int")

    columns = sink_columns(given, described(), options())

    assert columns.has_task
    assert columns.names == ("id", "city", "amount")


def test_an_unknown_column_is_answered_with_the_nearest_name():
    given = frame("id bigint, City string, amount int")

    with pytest.raises(InvalidValueError, match=r"shop\.orders has no column 'City'") as caught:
        sink_columns(given, described(), options())

    assert caught.value.hint.startswith("Did you mean 'city'?")


def test_a_column_unlike_any_other_is_answered_with_what_there_is():
    given = frame("id bigint, city string, amount int, zzz int")

    with pytest.raises(InvalidValueError) as caught:
        sink_columns(given, described(), options())

    assert caught.value.hint == "Drop it; the table has id, city, amount."


def test_a_missing_column_is_named_with_what_to_add():
    with pytest.raises(InvalidValueError, match="no column 'city'") as caught:
        sink_columns(frame("id bigint, amount int"), described(), options())

    assert ".withColumn('city', F.lit(None).cast('string'))" in caught.value.hint
    assert "partial-update" not in caught.value.hint


def test_a_column_that_comes_twice_is_refused():
    given = StructType([*frame("id bigint, city string, amount int"), frame("id bigint")[0]])

    with pytest.raises(InvalidValueError, match="two columns 'id'"):
        sink_columns(given, described(), options())


@cases(
    ("columns", "said"),
    [
        ("id string, city string, amount int", "'id' is string, but shop.orders has bigint"),
        ("id bigint, city int, amount int", "'city' is int, but shop.orders has string"),
        ("id bigint, city string, amount double", None),
        ("id bigint, city string, amount bigint", None),
        ("id bigint, city string, amount months", "'amount' is interval"),
        ("id bigint, city string, amount variant", "'amount' is variant"),
        ("id void, city string, amount int", "'id' contains only nulls"),
        ("id bigint, city void, amount void", None),
    ],
)
def test_types_that_cannot_be_cast_without_loss_are_refused(columns, said):
    if said is None:
        sink_columns(frame(columns), described(), options())
        return

    with pytest.raises(InvalidValueError, match=said.replace(".", r"\.")):
        sink_columns(frame(columns), described(), options())


def test_wall_clock_times_are_not_taken_for_instants():
    table = described({"at": "TIMESTAMP_LTZ(6)"})

    with pytest.raises(InvalidValueError, match="is timestamp_ntz, but") as caught:
        sink_columns(frame("at timestamp_ntz"), table, options())

    assert ".cast('timestamp')" in caught.value.hint


def test_a_partial_update_names_the_columns_that_it_writes():
    table = described(key=("id",))

    columns = sink_columns(frame("amount int, id bigint"), table, options(updates_partially=True))

    assert columns.names == columns.targets == ("id", "amount")


@cases(
    ("table", "columns", "error", "said"),
    [
        (described(), "id bigint", NotPrimaryKeyTableError, "has no primary key"),
        (described(key=("id",)), "amount int", InvalidTargetColumnError, "the key of shop"),
        (
            described({"id": "INT", "at": "DATE NOT NULL"}, key=("id",)),
            "id int, at date",
            InvalidTargetColumnError,
            "'at' of shop.orders is NOT NULL",
        ),
    ],
)
def test_a_partial_update_needs_a_key_and_columns_that_may_be_null(table, columns, error, said):
    with pytest.raises(error, match=said):
        sink_columns(frame(columns), table, options(updates_partially=True))


def test_columns_that_the_server_numbers_are_left_out():
    table = described({"id": "BIGINT", "number": "INT"}, key=("id",), auto_increment=("number",))

    assert sink_columns(frame("id bigint"), table, options()).names == ("id",)
    with pytest.raises(InvalidTargetColumnError, match="numbered by the server"):
        sink_columns(frame("id bigint, number int"), table, options())


def test_rows_that_are_written_in_part_cannot_be_deleted():
    table, given = described(key=("id",)), frame("id bigint, _change_type string")

    with pytest.raises(InvalidTargetColumnError, match="may ask for deletes") as caught:
        sink_columns(given, table, options(updates_partially=True))

    assert "sink.ignore-delete" in caught.value.hint
    assert sink_columns(given, table, options(updates_partially=True, ignores_deletes=True)).change
