import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptFileError
from headwater.model.boundary import LakeBucket
from headwater.server.catalog.lake_entries import TieredOffsets, offsets_from_json
from tests.cases import cases

LONGS = st.integers(0, 2**63 - 1)
ENDS = st.one_of(
    st.dictionaries(st.builds(LakeBucket, st.none(), st.integers(0, 9)), LONGS),
    st.dictionaries(st.builds(LakeBucket, st.integers(0, 99), st.integers(0, 9)), LONGS),
)


@given(st.builds(TieredOffsets, table_id=LONGS, ends=ENDS, replaces=st.booleans()))
def test_offsets_are_read_as_they_were_written(offsets):
    assert offsets_from_json(offsets.to_json()) == offsets


def test_offsets_of_a_table_look_as_fluss_writes_them():
    ends = {LakeBucket(None, 0): 1234, LakeBucket(None, 2): 1992}

    written = TieredOffsets(table_id=7, ends=ends).to_json()

    assert json.loads(written) == {"version": 1, "table_id": 7, "bucket_offsets": [1234, -1, 1992]}


def test_offsets_of_partitions_look_as_fluss_writes_them():
    ends = {LakeBucket(3002, 1): 5, LakeBucket(3001, 0): 9}

    written = TieredOffsets(table_id=7, ends=ends).to_json()

    assert json.loads(written) == {
        "version": 1,
        "table_id": 7,
        "partition_offsets": [
            {"partition_id": 3001, "bucket_offsets": [9]},
            {"partition_id": 3002, "bucket_offsets": [-1, 5]},
        ],
    }


@cases(
    "text",
    [
        "",
        "[]",
        '{"version": 2, "table_id": 1}',
        '{"version": 1}',
        '{"version": 1, "table_id": 1, "bucket_offsets": ["1"]}',
        '{"version": 1, "table_id": 1, "bucket_offsets": [-2]}',
        '{"version": 1, "table_id": 1, "partition_offsets": [{"bucket_offsets": [1]}]}',
    ],
)
def test_offsets_that_make_no_sense_are_refused(text):
    with pytest.raises(CorruptFileError):
        offsets_from_json(text)
