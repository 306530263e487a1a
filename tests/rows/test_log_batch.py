import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatchError
from headwater.rows.log_batch import (
    HEADER_BYTES,
    build_batch,
    check_crc,
    iterate,
    read_header,
    read_sections,
    stamped,
)
from tests.cases import cases

PLAIN = build_batch(b"message", schema_id=3, record_count=2, writer_id=5, sequence=6)


@given(
    message=st.binary(max_size=40),
    statistics=st.none() | st.binary(max_size=20),
    with_changes=st.booleans(),
    count=st.integers(1, 9),
    writer_id=st.integers(-1, 2**63 - 1),
)
def test_a_batch_reads_back(message, statistics, with_changes, count, writer_id):
    changes = bytes(count) if with_changes else None

    data = build_batch(
        message,
        schema_id=1,
        record_count=count,
        writer_id=writer_id,
        statistics=statistics,
        changes=changes,
    )

    header = read_header(data)
    sections = read_sections(data, header)
    check_crc(data, header)
    assert (header.size, header.record_count, header.writer_id) == (len(data), count, writer_id)
    assert data[sections.statistics_start : sections.statistics_end] == (statistics or b"")
    assert data[sections.statistics_end : sections.changes_end] == (changes or b"")
    assert data[sections.changes_end :] == message


@given(base_offset=st.integers(0, 2**62), timestamp_ms=st.integers(0, 2**62))
def test_a_stamp_leaves_the_checksum_valid(base_offset, timestamp_ms):
    data = b"".join(stamped(PLAIN, base_offset=base_offset, timestamp_ms=timestamp_ms))

    header = read_header(data)
    check_crc(data, header)
    assert (header.base_offset, header.commit_timestamp) == (base_offset, timestamp_ms)
    assert header.end_offset == base_offset + 2


def test_batches_follow_each_other():
    positions = [position for _, position in iterate(PLAIN * 3)]

    assert positions == [0, len(PLAIN), 2 * len(PLAIN)]


@cases("cut", [1, HEADER_BYTES - 1, HEADER_BYTES, len(PLAIN) - 1])
def test_a_truncated_batch_is_refused(cut):
    with pytest.raises(CorruptBatchError):
        list(iterate(PLAIN + PLAIN[:cut]))


@given(at=st.integers(25, len(PLAIN) - 1), bit=st.integers(0, 7))
def test_any_flipped_bit_behind_the_checksum_is_noticed(at, bit):
    data = bytearray(PLAIN)
    data[at] ^= 1 << bit

    with pytest.raises(CorruptBatchError):
        check_crc(bytes(data), read_header(bytes(data)))


@cases(
    ("at", "value", "reason"),
    [
        (8, struct.pack("<i", -1), "has 11 bytes"),
        (12, b"\2", "version 2"),
        (44, struct.pack("<i", -1), "has -1 records"),
        (28, struct.pack("<i", 5), "last offset delta of 5"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(at, value, reason):
    data = PLAIN[:at] + value + PLAIN[at + len(value) :]

    with pytest.raises(CorruptBatchError, match=reason):
        read_header(data)


@cases("length", [-1, 8])
def test_statistics_longer_than_the_batch_are_refused(length):
    data = build_batch(b"message", schema_id=1, record_count=1, statistics=b"")
    data = data[:48] + struct.pack("<i", length) + data[52:]

    with pytest.raises(CorruptBatchError, match="bytes of statistics"):
        read_sections(data, read_header(data))


def test_change_types_longer_than_the_batch_are_refused():
    data = build_batch(b"", schema_id=1, record_count=9, changes=bytes(3))

    with pytest.raises(CorruptBatchError, match="inside its change types"):
        read_sections(data, read_header(data))
