"""A snapshot is read back as it was written, or not at all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptFileError
from headwater.kv import store as module
from headwater.kv.store import IdRange, SegmentFile, Snapshot, decode_snapshot, encode_snapshot

longs = st.integers(0, 2**62)
words = st.lists(st.integers(0, 2**64 - 1), max_size=6)
segments = st.builds(SegmentFile, longs, longs, longs, longs, longs, longs, longs)


@st.composite
def snapshots(draw):
    hashes, prefixes = draw(words), draw(st.none() | words)
    return Snapshot(
        draw(longs),
        draw(st.integers(0, 2**64 - 1)),
        tuple(draw(st.lists(segments, max_size=3))),
        np.array(hashes, np.uint64),
        np.arange(len(hashes), dtype=np.int64) * 2**60,
        draw(st.dictionaries(st.binary(max_size=9), longs, max_size=3)),
        None if prefixes is None else (np.array(prefixes, np.uint64),) * 2,
        draw(st.none() | st.builds(IdRange, longs, longs)),
    )


def plain(snapshot):
    """Return everything a snapshot holds as something that can be compared."""
    arrays = [snapshot.hashes, snapshot.locations, *(snapshot.prefixes or ())]
    return (
        (snapshot.offset, snapshot.seed, snapshot.segments, snapshot.collided, snapshot.ids),
        [(array.dtype, array.tolist()) for array in arrays],
        snapshot.prefixes is None,
    )


SAMPLE = Snapshot(
    7,
    8,
    (SegmentFile(1, 2, 3, 4, 5, 6, 7),),
    np.array([1, 2], np.uint64),
    np.array([3, 4], np.int64),
    {b"key": 9},
    (np.array([1], np.uint64), np.array([2], np.uint64)),
    IdRange(1, 2),
)


@given(snapshots())
def test_a_snapshot_is_read_back_as_it_was_written(snapshot):
    assert plain(decode_snapshot(encode_snapshot(snapshot))) == plain(snapshot)


def test_a_byte_that_changed_is_noticed_wherever_it_is():
    content = encode_snapshot(SAMPLE)

    for position in range(len(content)):
        for bits in (1, 0x80, 0xFF):
            damaged = bytearray(content)
            damaged[position] ^= bits
            with pytest.raises(CorruptFileError):
                decode_snapshot(bytes(damaged))


def test_a_snapshot_that_is_cut_off_is_noticed_wherever_that_is():
    content = encode_snapshot(SAMPLE)

    for length in range(len(content)):
        with pytest.raises(CorruptFileError):
            decode_snapshot(content[:length])


@given(st.binary(max_size=200))
def test_any_other_bytes_are_no_snapshot(content):
    with pytest.raises(CorruptFileError):
        decode_snapshot(content)


def test_a_snapshot_of_a_later_version_is_refused(monkeypatch):
    monkeypatch.setattr(module, "VERSION", 2)
    content = encode_snapshot(SAMPLE)
    monkeypatch.undo()

    with pytest.raises(CorruptFileError, match="version 2"):
        decode_snapshot(content)
