"""Rows that `datagen` makes: a function of their numbers, at the pace that was asked for."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType

from headwater.errors import InvalidOptionError
from headwater.pipelines.connectors.datagen import (
    DATAGEN,
    ROWS_PER_BATCH,
    DatagenStream,
    GeneratorPlan,
    rows_between,
)
from headwater.pipelines.connectors.spi import ConnectorTable
from tests.choices import examples

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "small": pa.int8(),
        "price": pa.float64(),
        "amount": pa.decimal128(12, 2),
        "name": pa.string(),
        "raw": pa.binary(),
        "is_new": pa.bool_(),
        "at": pa.timestamp("us"),
        "day": pa.date32(),
    }
)
OPTIONS = {
    "fields.id.kind": "sequence",
    "fields.id.start": "100",
    "fields.id.end": "200000",
    "fields.small.min": "-3",
    "fields.small.max": "3",
    "fields.amount.min": "1",
    "fields.amount.max": "2.5",
    "fields.name.length": "20",
    "fields.name.var-len": "true",
    "fields.price.null-rate": "0.5",
    "fields.at.max-past": "1 min",
    "rows-per-second": "1000",
}
PLAN = GeneratorPlan.of(OPTIONS, SCHEMA.names)


def made(start, end, plan=PLAN, schema=SCHEMA) -> pa.Table:
    batches = rows_between(plan, schema, start=start, end=end, begin_ms=1_700_000_000_000)
    return pa.Table.from_batches(batches, schema)


@given(start=st.integers(0, 10**9), sizes=st.tuples(st.integers(0, 300), st.integers(0, 300)))
@settings(max_examples=examples(100), deadline=None)
def test_a_row_depends_on_its_number_only(start, sizes):
    middle, end = start + sizes[0], start + sum(sizes)

    parts = pa.concat_tables([made(start, middle), made(middle, end)])

    assert parts.equals(made(start, end))


def test_rows_of_several_batches_are_the_same_as_one_by_one():
    whole = made(0, ROWS_PER_BATCH + 10)

    assert whole.num_rows == ROWS_PER_BATCH + 10
    assert whole.slice(ROWS_PER_BATCH - 1, 2).equals(made(ROWS_PER_BATCH - 1, ROWS_PER_BATCH + 1))


def test_values_keep_to_their_options():
    rows = made(0, 5_000)

    columns = {name: rows.column(name).to_pylist() for name in rows.column_names}
    assert columns["id"] == list(range(100, 5_100))
    assert set(columns["small"]) == set(range(-3, 4))
    assert all(Decimal(1) <= each <= Decimal("2.5") for each in columns["amount"])
    assert {len(each) for each in columns["name"]} == set(range(1, 21))
    assert 2_000 < columns["price"].count(None) < 3_000
    assert len(set(columns["raw"])) == 5_000
    assert set(columns["is_new"]) == {True, False}


def test_times_go_on_with_the_rows():
    times = made(0, 3_000, GeneratorPlan.of({"rows-per-second": "1000"}, SCHEMA.names))

    first, last = times["at"][0].as_py(), times["at"][-1].as_py()
    assert (last - first).total_seconds() == pytest.approx(2.999)


def test_the_shortest_sequence_ends_the_rows():
    sequence = {f"fields.a.{each}": "5" for each in ("start", "end")} | {
        "fields.a.kind": "sequence"
    }

    plan = GeneratorPlan.of({**sequence, "number-of-rows": "7"}, ["a"])

    assert plan.rows == 1


@pytest.mark.parametrize(
    "options",
    [
        {"fields.a.kind": "sequence", "fields.a.start": "1"},
        {"fields.a.kind": "sequence", "fields.a.start": "2", "fields.a.end": "1"},
        {"fields.a.min": "2", "fields.a.max": "1"},
    ],
)
def test_contradicting_options_are_refused(options):
    with pytest.raises(InvalidOptionError, match=r"fields\.a\.|column 'a'"):
        GeneratorPlan.of(options, ["a"])


def test_a_table_without_an_end_is_not_read_in_a_batch():
    table = ConnectorTable(name="t", schema=StructType([StructField("a", LongType())]))

    assert DATAGEN.read is not None
    with pytest.raises(InvalidOptionError, match="no end"):
        DATAGEN.read(None, table)


class HandClock:
    """A clock that is set by hand, and that a sleep moves on."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def stream_of(clock, **options) -> DatagenStream:
    plan = GeneratorPlan.of({name.replace("_", "-"): text for name, text in options.items()}, ["a"])
    return DatagenStream(plan, StructType([StructField("a", LongType())]), clock=clock)


def test_a_stream_makes_as_many_rows_as_time_has_passed():
    clock = HandClock()
    stream = stream_of(clock, rows_per_second="10")
    start = stream.initialOffset()
    stream.latestOffset(start, ReadAllAvailable())

    clock.seconds += 2.5
    end = stream.latestOffset(start, ReadAllAvailable())

    assert end == {"rows": 26, "begin_ms": 1_000_000}


def test_a_stream_goes_on_where_it_was_and_does_not_make_up_for_a_pause():
    clock = HandClock()
    stream = stream_of(clock, rows_per_second="10")

    end = stream.latestOffset({"rows": 50, "begin_ms": 5}, ReadAllAvailable())

    assert end == {"rows": 51, "begin_ms": 5}


def test_a_stream_that_ends_makes_every_row_at_its_pace():
    clock = HandClock()
    stream = stream_of(clock, rows_per_second="4", number_of_rows="10")
    stream.prepareForTriggerAvailableNow()

    places = [stream.initialOffset()]
    while (end := stream.latestOffset(places[-1], ReadAllAvailable())) != places[-1]:
        places.append(end)

    assert [each["rows"] for each in places] == list(range(11))
    assert clock.seconds == pytest.approx(1_000 + 10 / 4)
