"""A split comes back from its bytes as it was, and other bytes are refused."""

import json
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptFileError
from headwater.lake.split import ColumnBounds, LakeFile, LakeSplit, split_from_bytes, split_to_bytes
from tests.cases import cases

TEXTS = st.text(max_size=20)
COUNTS = st.integers(0, 2**62)
IDS = st.integers(-(2**31), 2**31 - 1)
LITERALS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    TEXTS,
    st.binary(max_size=9),
    st.decimals(allow_nan=False),
)
BOUNDS = st.builds(
    ColumnBounds,
    column_id=IDS,
    lower=LITERALS,
    upper=LITERALS,
    null_count=st.none() | COUNTS,
)
FILES = st.builds(
    LakeFile,
    path=TEXTS,
    row_count=COUNTS,
    byte_count=COUNTS,
    is_plain=st.booleans(),
    format=TEXTS,
    names=st.none() | st.lists(st.tuples(IDS, TEXTS), max_size=3).map(tuple),
    stands_alone=st.booleans(),
    deletes=st.lists(TEXTS, max_size=2).map(tuple),
    bounds=st.lists(BOUNDS, max_size=3).map(tuple),
    payload=st.binary(max_size=20),
)
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
    assert split_from_bytes(split_to_bytes(split)) == split
    assert pickle.loads(pickle.dumps(split)) == split


@given(SPLITS)
def test_a_split_counts_the_rows_of_its_files(split):
    assert split.row_count == sum(file.row_count for file in split.files)


@given(SPLITS)
def test_literals_of_bounds_keep_their_types_and_signs(split):
    came_back = split_from_bytes(split_to_bytes(split))

    assert repr(came_back) == repr(split)


def test_a_bound_that_is_no_number_comes_back():
    bounds = ColumnBounds(column_id=1, lower=math.nan, upper=-math.inf)
    file = LakeFile(path="f", row_count=1, byte_count=2, is_plain=True, bounds=(bounds,))
    split = LakeSplit(format="f", snapshot_id=1, bucket=0, partition=(), files=(file,), payload=b"")

    assert repr(split_from_bytes(split_to_bytes(split))) == repr(split)


def changed(**parts: object) -> bytes:
    split = LakeSplit(format="plain", snapshot_id=1, bucket=0, partition=(), files=(), payload=b"p")
    return json.dumps({**json.loads(split_to_bytes(split)), **parts}).encode()


def written(file: LakeFile) -> dict[str, object]:
    split = LakeSplit(format="f", snapshot_id=1, bucket=0, partition=(), files=(file,), payload=b"")
    return json.loads(split_to_bytes(split))["files"][0]


FILE = written(LakeFile(path="f", row_count=1, byte_count=2, is_plain=True))
BOUND = {"column_id": 1, "lower": None, "upper": None, "nulls": None}


@cases(
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
        changed(files=[{**FILE, "is_plain": 1}]),
        changed(files=[{**FILE, "deletes": [7]}]),
        changed(files=[{**FILE, "names": [["a", 1]]}]),
        changed(files=[{**FILE, "bounds": [{**BOUND, "nulls": "x"}]}]),
        changed(files=[{**FILE, "bounds": [{**BOUND, "lower": {"decimal": "x"}}]}]),
        changed(files=[{**FILE, "bounds": [{**BOUND, "lower": {"float": "x"}}]}]),
        changed(files=[{**FILE, "bounds": [{**BOUND, "lower": []}]}]),
        changed(payload="not base64 !"),
    ],
)
def test_bytes_that_make_no_split_are_refused(data):
    with pytest.raises(CorruptFileError):
        split_from_bytes(data)


def test_a_split_of_a_later_version_says_so():
    with pytest.raises(CorruptFileError, match="version 3"):
        split_from_bytes(changed(version=3))
