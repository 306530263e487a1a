"""A split comes back from its bytes as it was, and other bytes are refused."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptFileError
from headwater.lake.split import LakeFile, LakeSplit, split_from_bytes

TEXTS = st.text(max_size=20)
COUNTS = st.integers(0, 2**62)
FILES = st.builds(LakeFile, path=TEXTS, row_count=COUNTS, byte_count=COUNTS, is_plain=st.booleans())
SPLITS = st.builds(
    LakeSplit,
    format=TEXTS,
    snapshot_id=st.integers(-(2**63), 2**63 - 1),
    bucket=st.integers(-1, 2**31 - 1),
    partition=st.lists(st.tuples(TEXTS, TEXTS), max_size=3).map(tuple),
    files=st.lists(FILES, max_size=3).map(tuple),
    payload=st.binary(max_size=40),
)


@given(SPLITS)
def test_a_split_comes_back_as_it_was(split):
    assert split_from_bytes(split.to_bytes()) == split
    assert pickle.loads(pickle.dumps(split)) == split


@given(SPLITS)
def test_a_split_counts_the_rows_of_its_files(split):
    assert split.row_count == sum(file.row_count for file in split.files)


def changed(**parts: object) -> bytes:
    split = LakeSplit(format="plain", snapshot_id=1, bucket=0, partition=(), files=(), payload=b"p")
    return json.dumps({**json.loads(split.to_bytes()), **parts}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        changed(format=3),
        changed(bucket="0"),
        changed(partition=[["only a key"]]),
        changed(files=[["path", 1, 2]]),
        changed(payload="not base64 !"),
    ],
)
def test_bytes_that_make_no_split_are_refused(data):
    with pytest.raises(CorruptFileError):
        split_from_bytes(data)


def test_a_split_of_a_later_version_says_so():
    with pytest.raises(CorruptFileError, match="version 2"):
        split_from_bytes(changed(version=2))
