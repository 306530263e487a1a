"""The KV record batch that clients send."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError
from headwater.rows.kv_batch import (
    HEADER_BYTES,
    build_kv_batch,
    build_records,
    check_kv_crc,
    read_kv_header,
    read_kv_records,
)
from headwater.rows.row_bytes import PADDING, RowBytes
from tests.cases import cases
from tests.rows.compacted_reference import varint

pairs = st.lists(st.tuples(st.binary(max_size=200), st.binary(max_size=40)), max_size=12)


def record_of(key: bytes, row: bytes) -> bytes:
    body = varint(len(key)) + key + row
    return struct.pack("<i", len(body)) + body


def batch_of(*records: tuple[bytes, bytes], **fields) -> bytes:
    keys, rows = RowBytes.of([k for k, _ in records]), RowBytes.of([r for _, r in records])
    return build_kv_batch(keys, rows, schema_id=fields.pop("schema_id", 1), **fields)


def read(batch: bytes):
    view = memoryview(batch)
    header = read_kv_header(view)
    check_kv_crc(view, header)
    return read_kv_records(view, header)


@given(pairs)
def test_a_batch_holds_its_records_one_after_the_other(records):
    batch = batch_of(*records)

    assert batch[HEADER_BYTES:] == b"".join(record_of(*each) for each in records)


@given(pairs)
def test_a_batch_round_trips(records):
    found = read(batch_of(*records))

    assert found.keys.to_list() == [key for key, _ in records]
    assert found.rows.to_list() == [row for _, row in records]
    assert found.is_delete.tolist() == [row == b"" for _, row in records]


@given(pairs)
def test_records_start_where_they_say(records):
    keys, rows = RowBytes.of([k for k, _ in records]), RowBytes.of([r for _, r in records])

    data, starts = build_records(keys, rows)

    ends = [*starts.tolist()[1:], len(data) - PADDING]
    cut = [data[start:end].tobytes() for start, end in zip(starts.tolist(), ends)]  # noqa: B905
    assert cut == [record_of(*each) for each in records]
    assert not data[len(data) - PADDING :].any()


def test_a_header_is_laid_out_as_clients_write_it():
    batch = batch_of((b"k", b"row"), schema_id=3, writer_id=7, sequence=9)

    length, magic, crc, *rest = struct.unpack_from("<iBIhBqii", batch)
    header = read_kv_header(memoryview(batch))

    assert (length, magic, rest) == (len(batch) - 4, 0, [3, 0, 7, 9, 1])
    assert (header.size, header.crc, header.schema_id) == (len(batch), crc, 3)
    assert (header.writer_id, header.batch_sequence, header.record_count) == (7, 9, 1)


def test_a_row_that_deletes_is_left_out():
    rows = RowBytes.of([b"one", b"two"])
    batch = build_kv_batch(
        RowBytes.of([b"a", b"b"]), rows, schema_id=1, is_delete=np.array([True, False])
    )

    found = read(batch)

    assert found.rows.to_list() == [b"", b"two"]
    assert found.is_delete.tolist() == [True, False]


def test_records_start_at_their_length():
    found = read(batch_of((b"a", b"one"), (b"b", b"")))

    assert found.starts.tolist() == [HEADER_BYTES, HEADER_BYTES + 4 + 1 + 1 + 3]


def test_a_damaged_batch_fails_its_checksum():
    batch = bytearray(batch_of((b"a", b"one")))
    batch[-1] ^= 1

    with pytest.raises(CorruptBatchError, match="checksum"):
        read(bytes(batch))


def changed(batch: bytes, at: int, kind: str, value: int) -> bytes:
    damaged = bytearray(batch)
    struct.pack_into(kind, damaged, at, value)
    return bytes(damaged)


TWO = batch_of((b"a", b"one"), (b"bb", b"two"))


@cases(
    ("batch", "why"),
    [
        (TWO[: HEADER_BYTES - 1], "inside its header"),
        (changed(TWO, 4, "<B", 1), "version 1"),
        (changed(TWO, 0, "<i", len(TWO) - 3), "were sent"),
        (changed(TWO, 0, "<i", -1), "were sent"),
        (changed(TWO, 24, "<i", -1), "declares -1 records"),
        (changed(TWO, 24, "<i", 1000), "declares 1000 records"),
        (changed(TWO, 24, "<i", 1), "end at byte"),
        (changed(TWO, 24, "<i", 3), "too short|no record|end at byte"),
        (changed(TWO, 28, "<i", 0), "too short"),
        (changed(TWO, 28, "<i", -100), "too short|no record"),
        (changed(TWO, 28, "<i", 2**31 - 1), "no record"),
        (changed(TWO, 32, "<B", 99), "runs past the end"),
        (changed(TWO, 32, "<I", 2**32 - 1), "negative length"),
    ],
)
def test_a_malformed_batch_is_refused(batch, why):
    view = memoryview(batch)

    with pytest.raises(CorruptBatchError, match=why):
        read_kv_records(view, read_kv_header(view))


@given(pairs, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4))
def test_a_batch_of_noise_is_read_or_refused(records, changes):
    batch = bytearray(batch_of(*records))
    for place, value in changes:
        batch[place % len(batch)] = value
    view = memoryview(bytes(batch))

    try:
        found = read_kv_records(view, read_kv_header(view))
    except CorruptBatchError:
        return
    assert len(found.keys) == len(found.rows) == len(found.starts)
    assert all(length >= 0 for length in found.rows.lengths.tolist())
