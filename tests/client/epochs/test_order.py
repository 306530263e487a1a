"""Rows have one order, however they come."""

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cluster.schema_in import schema_of
from headwater.epochs import batches as order
from headwater.epochs.batches import ContentOrder, KeyOrder
from headwater.kv.hashes import hash_keys
from headwater.model.arrow import arrow_schema
from headwater.rows.compacted.coders import KeyEncoder, RowEncoder

SCHEMA = schema_of(
    {
        "city": "STRING",
        "at": "TIMESTAMP(3)",
        "x": "DOUBLE",
        "tags": "ARRAY<INT>",
        "is_new": "BOOLEAN",
        "id": "BIGINT",
    }
)
NOT_A_NUMBER = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_0001))[0]
floats = st.sampled_from([None, 0.0, -0.0, 1.5, float("nan"), NOT_A_NUMBER, float("inf")])
rows = st.fixed_dictionaries(
    {
        "city": st.sampled_from([None, "", "Ulm", "Bonn"]),
        "at": st.sampled_from([None, 0, 1]),
        "x": floats,
        "tags": st.sampled_from([None, [], [1], [1, None]]),
        "is_new": st.sampled_from([None, True]),
        "id": st.sampled_from([None, 1]),
    }
)


def batch(listed):
    return pa.RecordBatch.from_pylist(listed, arrow_schema(SCHEMA))


def sequence(chunks, found):
    """Return the bytes of rows in order."""
    table = pa.Table.from_batches(chunks).combine_chunks().take(pa.array(found))
    columns = [column.combine_chunks() for column in table.columns]
    encoder = RowEncoder.of([column.type for column in SCHEMA.columns])
    return encoder.encode(columns).to_list()


@given(st.lists(rows, min_size=1, max_size=25), st.randoms(use_true_random=False))
def test_rows_of_a_log_come_in_one_order_however_they_are_mixed(listed, chance):
    mixed = chance.sample(listed, len(listed))
    at = chance.randrange(len(listed))
    chunks = [batch(mixed[:at]), batch(mixed[at:])]

    first = sequence([batch(listed)], ContentOrder(SCHEMA).of([batch(listed)]).places)
    second = sequence(chunks, ContentOrder(SCHEMA).of(chunks).places)

    assert first == second


def test_rows_stay_near_the_order_of_their_time():
    listed = [{"city": str(9 - number), "at": number, "id": 7} for number in range(10)]

    found = ContentOrder(SCHEMA).of([batch(listed[::-1])]).places

    assert found.tolist() == list(range(9, -1, -1))


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 30)), min_size=2, max_size=20),
    st.integers(1, 19),
    st.randoms(use_true_random=False),
)
def test_rows_that_come_in_their_order_have_the_same_as_any_others(times, cut, chance):
    times = sorted(times, key=lambda each: (each is None, each or 0))
    listed = [{"city": str(chance.random()), "at": each} for each in times]
    mixed = chance.sample(listed, len(listed))
    in_order = [batch(listed[:cut]), batch(listed[cut:])]

    first = sequence(in_order, ContentOrder(SCHEMA).of(in_order).places)
    second = sequence([batch(mixed)], ContentOrder(SCHEMA).of([batch(mixed)]).places)

    assert first == second


def test_chunks_that_are_in_order_only_within_themselves_are_sorted():
    later, earlier = (batch([{"at": at}, {"at": at + 1}]) for at in (5, 1))

    assert ContentOrder(SCHEMA).of([later, earlier]).places.tolist() == [2, 3, 0, 1]


def test_rows_that_cannot_be_compared_are_ordered_by_their_bytes():
    schema = schema_of({"tags": "ARRAY<INT>"})
    listed = [{"tags": [3]}, {"tags": None}, {"tags": [1, 2]}]
    chunks = [
        pa.RecordBatch.from_pylist(each, arrow_schema(schema)) for each in (listed, listed[::-1])
    ]

    first, second = (
        chunk.take(pa.array(ContentOrder(schema).of([chunk]).places)).to_pylist()
        for chunk in chunks
    )

    assert first == second


KEYED = pa.schema([("id", pa.string()), ("number", pa.int64())])


def keyed(listed):
    return pa.RecordBatch.from_pylist(
        [{"id": key, "number": number} for number, key in enumerate(listed)], KEYED
    )


def key_order():
    return KeyOrder(["id"], KeyEncoder.of([schema_of({"id": "STRING NOT NULL"}).columns[0].type]))


@given(st.lists(st.text(max_size=3), min_size=1, max_size=40))
def test_rows_of_one_key_keep_their_order(listed):
    chunk = keyed(listed)

    found = chunk.take(
        pa.array(key_order().of([chunk.slice(0, 5), chunk.slice(5)]).places)
    ).to_pylist()

    for key in set(listed):
        numbers = [row["number"] for row in found if row["id"] == key]
        assert numbers == [number for number, each in enumerate(listed) if each == key]


@pytest.mark.parametrize("collides", [False, True])
def test_keys_come_in_one_order_even_if_their_hashes_collide(monkeypatch, collides):
    def hashed(keys, *, seed):
        hashes = hash_keys(keys, seed=seed)
        return hashes % np.uint64(2) if collides and not seed else hashes

    monkeypatch.setattr(order, "hash_keys", hashed)
    listed = [f"key-{number}" for number in range(50)]

    first, second = (
        keyed(each).take(pa.array(key_order().of([keyed(each)]).places)).column("id").to_pylist()
        for each in (listed, listed[::-1])
    )

    assert first == second
    assert sorted(first) == sorted(listed)
    assert key_order().of([keyed(listed)]).starts.all()
