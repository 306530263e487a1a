"""Rows cut to the size of batches."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.config.client import ClientSettings
from headwater.rows.row_bytes import RowBytes
from headwater.write.batches import BucketTurns, cut
from headwater.write.encode import KvRows, LogRows

SETTINGS = ClientSettings(batch_bytes_max=200, batch_rows_max=10)


def slice_log(rows, start, end):
    return LogRows.of(rows.batch.slice(start, end - start))


@given(st.lists(st.integers(0, 400), min_size=1, max_size=60))
def test_pieces_hold_all_rows_in_order_and_are_small(sizes):
    texts = [f"{number}" * (size // 2) for number, size in enumerate(sizes)]
    rows = LogRows.of(pa.record_batch({"text": texts}))

    pieces = list(cut(rows, SETTINGS, slice_of=slice_log))

    assert [text for piece in pieces for text in piece.batch["text"].to_pylist()] == texts
    assert all(piece.count <= 10 for piece in pieces)
    assert all(piece.count == 1 or piece.size_bytes <= 400 for piece in pieces)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=40))
def test_keys_stay_with_their_rows(values):
    keys = RowBytes.of([f"{number}".encode() for number in range(len(values))])
    rows = KvRows.of(keys, RowBytes.of(values))

    pieces = list(cut(rows, SETTINGS, slice_of=lambda all_, low, high: all_.take(slice(low, high))))

    found = [pair for each in pieces for pair in zip(each.keys.to_list(), each.rows.to_list())]  # noqa: B905
    assert found == list(zip(keys.to_list(), values, strict=True))
    assert sum(piece.size_bytes for piece in pieces) == rows.size_bytes


def test_buckets_take_turns_unless_the_last_one_has_room():
    turns = BucketTurns(3)

    chosen = [turns.choose(lambda _, room=room: room) for room in (False, True, False, False)]

    assert chosen[0] == chosen[1]
    assert len(set(chosen)) == 3
