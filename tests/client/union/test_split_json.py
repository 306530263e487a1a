"""Splits as documents."""

import json
import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import RequestError
from headwater.lake.split import ColumnBounds, LakeFile, LakeSplit
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.read.filters import Filter
from headwater.read.offsets import Place
from headwater.read.plan import ReadSelection, plan_read
from headwater.read.split import (
    Hybrid,
    LakeFiles,
    LogRange,
    StateAt,
    UnionSplit,
    known_splits,
    plan_document,
    split_document,
    split_of_document,
)
from headwater.read.token import token_text
from tests.cases import cases
from tests.client.union.values import split, view

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "split-json.md"

EXAMPLE = Hybrid(
    files=LakeSplit(
        format="iceberg",
        snapshot_id=6718234523457109823,
        bucket=2,
        partition=(("day", "2026-11-16"),),
        files=(
            LakeFile(
                path="s3://lake/shop.db/orders/data/00000-2.parquet",
                row_count=3871,
                byte_count=90112,
                is_plain=False,
                stands_alone=True,
                names=((0, "id"), (1, "day"), (2, "price")),
                deletes=("s3://lake/shop.db/orders/data/00001-2-deletes.parquet",),
                bounds=(
                    ColumnBounds(column_id=0, lower=17, upper=98231, null_count=0),
                    ColumnBounds(column_id=2, lower=3.0, upper=98.5),
                ),
                payload=b"\x00\x01",
            ),
        ),
        payload=b"{}",
    ),
    tail=LogRange.of(Place("2026-11-16", 2), LakeBucket(8, 2), OffsetRange(4000, 4523)),
)

NUMBERS = st.integers(0, 2**63 - 1)
LITERALS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False),
)
BOUNDS = st.builds(
    ColumnBounds, column_id=NUMBERS, lower=LITERALS, upper=LITERALS, null_count=st.none() | NUMBERS
)
FILES = st.builds(
    LakeFile,
    path=st.text(),
    row_count=NUMBERS,
    byte_count=NUMBERS,
    is_plain=st.booleans(),
    format=st.sampled_from(["parquet", "orc"]),
    names=st.none() | st.lists(st.tuples(NUMBERS, st.text())).map(tuple),
    stands_alone=st.booleans(),
    deletes=st.lists(st.text()).map(tuple),
    bounds=st.lists(BOUNDS, max_size=3).map(tuple),
    payload=st.binary(),
)
LAKES = st.builds(
    LakeSplit,
    format=st.text(),
    snapshot_id=NUMBERS,
    bucket=st.integers(-1, 10),
    partition=st.lists(st.tuples(st.text(), st.text()), max_size=2).map(tuple),
    files=st.lists(FILES, max_size=3).map(tuple),
    payload=st.binary(),
)


PLACES = st.builds(Place, st.none() | st.text(), st.integers(-1, 10))
RANGES = st.tuples(NUMBERS, NUMBERS).map(lambda both: OffsetRange(*sorted(both)))


@st.composite
def logs(draw):
    place = draw(PLACES)
    bucket = LakeBucket(draw(st.none() | NUMBERS), place.bucket)
    if draw(st.booleans()):
        return StateAt.of(place, bucket, draw(NUMBERS))
    return LogRange.of(place, bucket, draw(RANGES))


@st.composite
def files(draw):
    place = draw(PLACES)
    return LakeFiles(partition=place.partition, bucket=place.bucket, files=draw(LAKES))


SPLITS = logs() | files() | st.builds(Hybrid, files=LAKES, tail=logs())


@given(SPLITS)
def test_a_split_is_read_as_it_was_written(given_split):
    text = json.dumps(split_document(given_split), allow_nan=False)

    assert split_of_document(json.loads(text)) == given_split


@given(SPLITS)
def test_a_split_pickles(given_split):
    assert pickle.loads(pickle.dumps(given_split)) == given_split


@given(SPLITS)
def test_every_kind_tells_what_it_reads(given_split):
    document = given_split.to_json()

    assert isinstance(given_split, UnionSplit)
    assert document["tier"] == given_split.tier
    assert (document["partition"], document["bucket"]) == (
        given_split.partition,
        given_split.bucket,
    )
    assert (document["lake"] is None) == (given_split.lake is None)
    if given_split.log is None:
        assert document["log"] is given_split.log_bucket is None
    else:
        assert document["log"] == {
            "partition_id": given_split.log_bucket.partition_id,
            "bucket": given_split.log_bucket.bucket,
            "start": given_split.log.start,
            "end": given_split.log.end,
            "reads_state": given_split.reads_state,
        }


def test_what_is_no_kind_of_split_is_refused():
    with pytest.raises(RequestError, match="'bucket 0' is not a split"):
        known_splits(["bucket 0"])


def test_the_page_shows_a_split_as_it_is():
    (shown,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)

    assert json.loads(shown) == split_document(EXAMPLE)
    assert split_of_document(json.loads(shown)) == EXAMPLE


def test_the_page_tells_of_every_field():
    page = PAGE.read_text(encoding="utf-8")
    document = plan_document(view({0: (0, 9)}), plan_read(view({0: (0, 9)}), [], ReadSelection()))
    written = split_document(EXAMPLE)
    file = written["lake"]["files"][0]

    for field in [
        *document,
        *written,
        *written["lake"],
        *written["log"],
        *file,
        *file["bounds"][0],
    ]:
        assert f"`{field}`" in page, field


def test_a_plan_says_what_workers_have_to_know():
    seen = view({0: (0, 9)}, {0: (0, 4)})
    wanted = Filter.of(("id", ">", 5), seen.table.schema)
    plan = plan_read(seen, [split(0)], ReadSelection(filter=wanted))

    document = plan_document(seen, plan, columns=["id"], wanted=wanted)

    assert document["token"] == token_text(seen)
    assert document["columns"] == [{"id": 0, "name": "id", "type": {"type": "BIGINT"}}]
    assert document["filter"] == "id > 5"
    assert [each["tier"] for each in document["splits"]] == ["LAKE_ONLY", "LOG_ONLY"]


def test_fields_that_nobody_knows_are_passed_over():
    assert split_of_document({**split_document(EXAMPLE), "color": "red"}) == EXAMPLE


@cases(
    ("changes", "said"),
    [
        ({"version": 2}, "has version 2"),
        ({"tier": "WARM"}, "'WARM' is not a valid Tier"),
        ({"tier": "LOG_ONLY"}, "not those of a LOG_ONLY split"),
        ({"log": None}, "not those of a HYBRID split"),
        ({"log": {"bucket": 0, "start": 5, "end": 4}}, "5 to 4 are not offsets"),
        ({"log": {"bucket": 0, "start": 4, "end": 5}}, "bucket is 2, but the log is of bucket 0"),
        ({"lake": {"format": "iceberg"}}, "'snapshot_id'"),
        ({"bucket": "x"}, "'bucket'"),
    ],
)
def test_what_is_no_split_is_refused(changes, said):
    with pytest.raises(RequestError, match=said):
        split_of_document({**split_document(EXAMPLE), **changes})


def test_what_is_no_document_is_refused():
    with pytest.raises(RequestError, match="must be a JSON object"):
        split_of_document([])
