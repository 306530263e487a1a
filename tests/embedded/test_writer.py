"""A writer gathers rows that come one by one."""

import threading
from pathlib import Path
from typing import NamedTuple

import pytest

import headwater
from headwater import aio, errors
from headwater.config.client import ClientSettings
from headwater.rows.log_batch import iterate

SCHEMA = {"id": "BIGINT", "text": "STRING", "count": "TINYINT", "tags": "ARRAY<STRING>"}
# Nothing is cut by time, so that tests decide what is.
PATIENT = ClientSettings(batch_timeout_ms=3_600_000)


@pytest.fixture
def hw(tmp_path):
    with headwater.open(tmp_path / "data", settings=PATIENT) as client:
        yield client


class Named(NamedTuple):
    text: str
    id: int


def ids(table) -> list[int]:
    return table.scan(columns="id").to_arrow()["id"].to_pylist()


def batch_rows(directory: Path) -> list[int]:
    """Return how many rows each stored batch of the only table has."""
    (log,) = (directory / "data" / "log").glob("*/0/*.log")
    return [header.record_count for header, _ in iterate(log.read_bytes())]


def test_rows_that_come_one_by_one_are_stored_as_one_batch(hw, tmp_path):
    table = hw.create_table("t", SCHEMA, buckets=1)

    with table.writer() as writer:
        for number in range(1000):
            writer.append({"id": number})
        receipt = writer.flush()

    assert receipt.rows == 1000
    assert ids(table) == list(range(1000))
    assert batch_rows(tmp_path) == [1000]


def test_a_batch_is_cut_by_rows_and_by_bytes(tmp_path):
    settings = ClientSettings(batch_timeout_ms=3_600_000, batch_rows_max=10, batch_bytes_max=10_000)
    with headwater.open(tmp_path / "data", settings=settings) as hw:
        table = hw.create_table("t", SCHEMA, buckets=1)
        with table.writer() as writer:
            for number in range(25):
                writer.append({"id": number})
            writer.flush()
            for number in range(25, 31):
                writer.append({"id": number, "text": "x" * 4_000})

        assert batch_rows(tmp_path) == [10, 10, 5, 2, 2, 2]
        assert ids(table) == list(range(31))


def test_a_row_is_written_after_a_while_though_nobody_flushes(tmp_path):
    with headwater.open(tmp_path / "data") as hw:
        table = hw.create_table("t", SCHEMA, buckets=1)
        with table.tail() as tail, table.writer() as writer:
            for number in range(3):
                writer.append({"id": number})
                rows = [row for batch in tail.poll(60.0) for row in batch.rows.to_pylist()]

                assert [row["id"] for row in rows] == [number]


def test_closing_the_client_writes_what_a_writer_holds(tmp_path):
    with headwater.open(tmp_path / "data", settings=PATIENT) as hw:
        writer = hw.create_table("t", SCHEMA, buckets=1).writer()
        for number in range(3):
            writer.append({"id": number})

    with pytest.raises(errors.ClosedError):
        writer.append({"id": 3})
    with headwater.open(tmp_path / "data") as hw:
        assert ids(hw.table("t")) == [0, 1, 2]


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"id": "one"}, "'id'"),
        ({"id": 1, "txt": "a"}, "Did you mean 'text'"),
        ({"id": 1, "text": 5}, "'text'"),
        ((1, "a"), "2 values"),
        (5, "neither rows nor columns"),
    ],
)
def test_what_can_never_fit_is_refused_at_the_call_and_nothing_else(hw, row, fault):
    table = hw.create_table("t", SCHEMA, buckets=1)

    with table.writer() as writer:
        for number in range(2):
            writer.append({"id": number})
            with pytest.raises(errors.InvalidValueError, match=fault):
                writer.append(row)

    assert ids(table) == [0, 1]


def test_a_value_that_does_not_fit_is_named_with_its_row_and_all_before_it_is_written(hw):
    table = hw.create_table("t", SCHEMA, buckets=1)
    writer = table.writer()
    for number in range(1000):
        writer.append({"id": number, "count": 300 if number >= 700 else 1})

    with pytest.raises(errors.InvalidValueError) as told:
        writer.flush()

    assert "Row 701 that this writer took, {'id': 700" in str(told.value)
    assert "'count'" in str(told.value)
    assert "700 of 1000 rows that were sent are written" in str(told.value)
    assert ids(table) == list(range(700))
    writer.append({"id": 1000})
    assert writer.flush().rows == 1
    assert ids(table) == [*range(700), 1000]


def test_what_failed_is_told_by_the_next_call_too(tmp_path):
    settings = ClientSettings(batch_timeout_ms=3_600_000, batch_rows_max=10)
    with headwater.open(tmp_path / "data", settings=settings) as hw:
        writer = hw.create_table("t", SCHEMA, buckets=1).writer()
        for number in range(10):
            writer.append({"id": number, "count": 1000 if number == 5 else 1})

        # The tenth row filled the batch, so the eleventh cuts it; what is wrong is found then.
        with pytest.raises(errors.InvalidValueError, match=r"Row 6 .*5 of 10 rows"):
            writer.append({"id": 10})
        writer.append({"id": 11})
        assert writer.flush().rows == 1


def test_the_fault_of_a_writer_does_not_hide_that_of_its_block(hw):
    table = hw.create_table("t", SCHEMA, buckets=1)

    def write() -> None:
        with table.writer() as writer:
            for count in (1, 2, 1000):
                writer.append({"id": count, "count": count})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as told:
        write()

    assert "Row 3" in told.value.__notes__[0]
    assert ids(table) == [1, 2]


def test_what_the_caller_changes_later_is_written_as_it_was(hw):
    table = hw.create_table("t", SCHEMA, buckets=1)
    row, tags = {"id": 0, "text": "a", "count": 1, "tags": None}, []

    with table.writer() as writer:
        for number in range(4):
            row["id"] = number
            row["tags"] = tags if number else None
            writer.append(row)
            tags.append(str(number))

    assert ids(table) == [0, 1, 2, 3]
    found = table.scan(columns="tags").to_arrow()["tags"].to_pylist()
    assert found == [None, ["0"], ["0", "1"], ["0", "1", "2"]]


def test_rows_columns_and_tuples_keep_their_order(hw):
    table = hw.create_table("t", {"id": "BIGINT", "text": "STRING"}, buckets=1)

    with table.writer() as writer:
        writer.append({"id": 0, "text": "a"})
        writer.append((1, "b"))
        writer.append(Named("c", 2))
        writer.append([{"id": 3}, {"id": 4}])
        writer.append({"id": 5})
        writer.append({"id": [6, 7]})
        writer.append(({"id": 8}, {"id": 9}))
        writer.append({"id": number} for number in (10, 11))
        writer.append({"id": 12})

    assert ids(table) == list(range(13))


def test_upserts_and_deletes_of_single_rows_keep_their_order(hw):
    table = hw.create_table("t", {"id": "BIGINT", "text": "STRING"}, primary_key="id", buckets=1)

    with table.writer() as writer:
        for number in range(300):
            writer.upsert({"id": number % 10, "text": str(number)})
            if number % 7 == 0:
                writer.delete({"id": number % 10})
            if number % 11 == 0:
                writer.delete(number % 10)

    last = {n % 10: (n % 7 == 0 or n % 11 == 0, str(n)) for n in range(300)}
    expected = {key: text for key, (gone, text) in last.items() if not gone}
    assert {row["id"]: row["text"] for row in table.scan().to_arrow().to_pylist()} == expected


def test_a_writer_refuses_the_other_kind_of_table(hw):
    log = hw.create_table("l", SCHEMA, buckets=1)
    keyed = hw.create_table("k", {"id": "BIGINT"}, primary_key="id", buckets=1)

    with keyed.writer() as writer, pytest.raises(errors.RequestError, match="upsert"):
        writer.append({"id": 1})
    with log.writer() as writer:
        with pytest.raises(errors.NotPrimaryKeyTableError):
            writer.upsert({"id": 1})
        with pytest.raises(errors.NotPrimaryKeyTableError):
            writer.delete({"id": 1})


def test_threads_share_a_writer(tmp_path):
    with headwater.open(tmp_path / "data") as hw:
        table = hw.create_table("t", SCHEMA, buckets=1)
        with table.writer() as writer:

            def write(first: int) -> None:
                for number in range(first, first + 2000):
                    writer.append({"id": number})

            threads = [threading.Thread(target=write, args=(n * 2000,)) for n in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        found = ids(table)
        assert sorted(found) == list(range(6000))
        for first in (0, 2000, 4000):
            mine = [each for each in found if first <= each < first + 2000]
            assert mine == sorted(mine)


async def test_those_who_await_gather_rows_as_well(tmp_path):
    async with await aio.open(tmp_path / "data", settings=PATIENT) as hw:
        table = await hw.create_table("t", SCHEMA, buckets=1)
        async with table.writer() as writer:
            for number in range(1000):
                await writer.append({"id": number})

        found = await table.scan(columns="id").to_arrow()
        assert found["id"].to_pylist() == list(range(1000))
        assert batch_rows(tmp_path) == [1000]


def test_rows_and_deletes_that_alternate_are_one_batch(hw, tmp_path):
    columns = {"id": "BIGINT NOT NULL", "day": "STRING NOT NULL", "text": "STRING NOT NULL"}
    table = hw.create_table("t", columns, primary_key=["id", "day"], buckets=1)
    table.upsert([(n, "mo", "old") for n in range(100)])

    with table.writer() as writer:
        for number in range(100):
            if number % 2:
                writer.upsert({"id": number, "day": "mo", "text": "new"})
            else:
                writer.delete({"id": number, "day": "mo"})
        with pytest.raises(errors.InvalidValueError, match="text"):
            writer.upsert({"id": 1, "day": "mo", "text": None})

    rows = table.scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["text"]) for row in rows) == [
        (n, "new") for n in range(1, 100, 2)
    ]
    assert batch_rows(tmp_path) == [100, 150]
