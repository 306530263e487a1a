"""Our own small files round-trip, and nothing damaged passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptFileError
from headwater.log.segment import Mark, SegmentName, segment_names, torn_name
from headwater.log.small_files import (
    Checkpoint,
    decode_checkpoint,
    decode_index,
    encode_checkpoint,
    encode_index,
)
from headwater.log.writers import KeptBatch
from tests.cases import cases

numbers = st.integers(0, 2**63 - 1)
marks = st.builds(Mark, numbers, numbers, numbers, st.integers(0, 2**32 - 1))
mark_lists = st.lists(marks, min_size=1, max_size=20).map(tuple)
kept = st.builds(KeptBatch, st.integers(0, 2**31 - 1), numbers, numbers, numbers)
writers = st.dictionaries(numbers, st.lists(kept, min_size=1, max_size=5).map(tuple), max_size=4)
checkpoints = st.builds(Checkpoint, numbers, mark_lists, writers)


@given(mark_lists)
def test_an_index_round_trips(expected):
    assert decode_index(encode_index(expected)) == expected


@given(checkpoints)
def test_a_checkpoint_round_trips(expected):
    assert decode_checkpoint(encode_checkpoint(expected)) == expected


@cases(
    ("content", "decode"),
    [
        (encode_index([Mark(0, 0, 0), Mark(5, 100, 7, 9)]), decode_index),
        (
            encode_checkpoint(Checkpoint(0, (Mark(3, 9, 1),), {7: (KeptBatch(1, 2, 3, 4),)})),
            decode_checkpoint,
        ),
    ],
)
def test_any_flipped_bit_and_any_cut_are_noticed(content, decode):
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 1 << (position % 8)

        with pytest.raises(CorruptFileError):
            decode(bytes(flipped))
        with pytest.raises(CorruptFileError):
            decode(content[:position])


def test_segments_are_told_from_other_files():
    names = ["checkpoint", f"{7:020}.log", f"{7:020}.index", f"{3:020}.log.damaged", "3.log"]

    found = segment_names([*names, f"{7:020}.log.torn-1", f"x{7:020}.log"])

    assert found == [SegmentName(3, is_damaged=True), SegmentName(7, is_damaged=False)]
    assert [str(name) for name in found] == [f"{3:020}.log.damaged", f"{7:020}.log"]


def test_torn_bytes_never_overwrite_older_ones():
    first = torn_name(7, [])

    assert first == f"{7:020}.log.torn-1"
    assert torn_name(7, [first]) == f"{7:020}.log.torn-2"
