"""Cursors: positions that are kept, and shared among readers."""

import pytest

from headwater import errors

PATIENCE_S = 30.0


@pytest.fixture
def numbers(client, name):
    table = client.create_table(name, {"id": "BIGINT"}, bucket_by="id", buckets=4)
    table.append([{"id": number} for number in range(100)])
    return table


def read(cursor, count):
    ids = []
    while len(ids) < count:
        batches = cursor.poll(PATIENCE_S)
        assert batches, f"only {len(ids)} of {count} rows came"
        ids += [each for batch in batches for each in batch.rows.column("id").to_pylist()]
    return sorted(ids)


def test_a_cursor_goes_on_where_it_was_left(numbers):
    with numbers.cursor("billing") as cursor:
        assert read(cursor, 100) == list(range(100))

    numbers.append({"id": 100})

    with numbers.cursor("billing") as cursor:
        assert read(cursor, 1) == [100]


def test_what_was_not_committed_comes_again(numbers):
    with numbers.cursor("billing", auto_commit=False) as cursor:
        read(cursor, 100)

    with numbers.cursor("billing", auto_commit=False) as cursor:
        assert read(cursor, 100) == list(range(100))
        cursor.commit()

    with numbers.cursor("billing") as cursor:
        assert cursor.poll(0.5) == []


def test_a_cursor_joins_and_leaves_without_a_block(numbers):
    cursor = numbers.cursor("billing")
    with pytest.raises(errors.ClosedError, match=r"call join\(\)"):
        cursor.poll(0.0)

    assert read(cursor.join(), 100) == list(range(100))
    cursor.leave()

    with numbers.cursor("billing") as again:
        assert again.poll(0.5) == []


def test_cursors_of_different_names_do_not_disturb_each_other(numbers):
    with numbers.cursor("billing") as billing, numbers.cursor("shipping") as shipping:
        assert read(billing, 100) == read(shipping, 100)


def test_a_cursor_begins_where_it_is_told(numbers):
    with numbers.cursor("late", start="latest") as cursor:
        assert cursor.poll(0.5) == []
        numbers.append({"id": 1000})
        assert read(cursor, 1) == [1000]


def test_two_readers_share_the_buckets(numbers):
    with numbers.cursor("shared", lease_s=2.0) as one, numbers.cursor("shared", lease_s=2.0) as two:
        while not (len(one.assigned) == len(two.assigned) == 2):
            one.poll(0.2)
            two.poll(0.2)

        assert not set(one.assigned) & set(two.assigned)


def test_a_cursor_is_described_and_reset(client, numbers, name):
    with numbers.cursor("billing") as cursor:
        read(cursor, 100)

    assert client.cursors.describe("billing", name).lag_rows == 0
    client.cursors.reset("billing", name, to="earliest")

    state = client.cursors.describe("billing", name)
    assert (state.lag_rows, state.members) == (100, ())
    assert state.lag_s > 0
    with numbers.cursor("billing") as cursor:
        assert read(cursor, 100) == list(range(100))


def test_a_deleted_cursor_begins_anew(client, numbers, name):
    with numbers.cursor("billing") as cursor:
        read(cursor, 100)

    client.cursors.delete("billing", name)

    with pytest.raises(errors.MissingError):
        client.cursors.describe("billing", name)
    with numbers.cursor("billing") as cursor:
        assert len(read(cursor, 100)) == 100


def test_a_tail_follows_from_the_positions_of_a_cursor(client, numbers, name):
    with numbers.cursor("billing") as cursor:
        read(cursor, 100)
    numbers.append({"id": 100})

    positions = client.cursors.describe("billing", name).positions
    with numbers.tail(positions) as tail:
        assert read(tail, 1) == [100]
