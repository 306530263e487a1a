"""The messages of the replication stream: written by hand as PostgreSQL does, and decoded."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import StorageError
from headwater.pipelines.ingest.postgres import pgoutput
from headwater.pipelines.ingest.postgres.pgoutput import UNCHANGED, RelationColumn, decode

VALUES = st.one_of(st.none(), st.just(UNCHANGED), st.binary(max_size=20))
ROWS = st.lists(VALUES, max_size=6).map(tuple)
IDS = st.integers(0, 2**32 - 1)
LSNS = st.integers(0, 2**63 - 1)
NAMES = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1)


def written(row) -> bytes:
    parts = [struct.pack(">H", len(row))]
    for value in row:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            parts.append(b"t" + struct.pack(">i", len(value)) + value)
    return b"".join(parts)


@given(IDS, ROWS)
def test_inserts_and_deletes_come_back(relation_id, row):
    head = struct.pack(">I", relation_id)

    assert decode(b"I" + head + b"N" + written(row)) == pgoutput.InsertedRow(relation_id, row)
    assert decode(b"D" + head + b"K" + written(row)) == pgoutput.DeletedRow(relation_id, row)


@given(IDS, ROWS, st.none() | ROWS)
def test_updates_come_back_with_and_without_the_row_that_was(relation_id, row, old):
    before = b"" if old is None else b"O" + written(old)

    found = decode(b"U" + struct.pack(">I", relation_id) + before + b"N" + written(row))

    assert found == pgoutput.UpdatedRow(relation_id, row, old)


@given(IDS, NAMES, st.lists(st.tuples(NAMES, IDS, st.integers(-1, 2**31 - 1), st.booleans())))
def test_relations_come_back(relation_id, name, columns):
    parts = [b"R", struct.pack(">I", relation_id), b"public\0", name.encode(), b"\0d"]
    parts.append(struct.pack(">H", len(columns)))
    for column, type_id, modifier, is_key in columns:
        head = bytes([is_key]) + column.encode() + b"\0"
        parts.append(head + struct.pack(">Ii", type_id, modifier))

    found = decode(b"".join(parts))

    assert isinstance(found, pgoutput.RelationMessage)
    assert (found.schema, found.name) == ("public", name)
    assert found.columns == tuple(RelationColumn(*each) for each in columns)


@given(LSNS, LSNS, IDS)
def test_transactions_come_back(lsn, end, xid):
    assert decode(b"B" + struct.pack(">qqI", lsn, 7, xid)) == pgoutput.TxnBegin(lsn, 7, xid)
    assert decode(b"C\0" + struct.pack(">qqq", lsn, end, 7)) == pgoutput.TxnCommit(lsn, end, 7)


@given(st.lists(IDS))
def test_truncates_come_back(ids):
    payload = b"T" + struct.pack(">IB", len(ids), 0) + struct.pack(f">{len(ids)}I", *ids)

    assert decode(payload) == pgoutput.TruncatedTables(tuple(ids))


@given(st.binary())
def test_any_bytes_are_decoded_or_refused(payload):
    try:
        decode(payload)
    except StorageError as fault:
        assert "cannot be decoded" in str(fault)


@given(ROWS)
def test_a_message_that_is_cut_or_too_long_is_refused(row):
    whole = b"I" + struct.pack(">I", 1) + b"N" + written(row)

    for broken in (whole[:-1], whole + b"x"):
        with pytest.raises(StorageError, match="cannot be decoded"):
            decode(broken)
