"""Splits as documents."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.client.reading.filters import Filter
from headwater.client.union.plan import Selection, plan_read
from headwater.client.union.split import Tier, UnionSplit
from headwater.client.union.split_json import plan_document, split_document, split_of_document
from headwater.client.union.token import token_text
from headwater.errors import RequestError
from headwater.lake.split import ColumnBounds, LakeFile, LakeSplit
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from tests.client.union.values import split, view

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "split-json.md"

EXAMPLE = UnionSplit(
    tier=Tier.HYBRID,
    partition="2026-11-16",
    bucket=2,
    lake=LakeSplit(
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
    log_bucket=LakeBucket(8, 2),
    log=OffsetRange(4000, 4523),
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


@st.composite
def splits(draw):
    tier = draw(st.sampled_from(Tier))
    start, end = sorted((draw(NUMBERS), draw(NUMBERS)))
    has_log = tier is not Tier.LAKE_ONLY
    return UnionSplit(
        tier=tier,
        partition=draw(st.none() | st.text()),
        bucket=draw(st.integers(-1, 10)),
        lake=None if tier is Tier.LOG_ONLY else draw(LAKES),
        log_bucket=LakeBucket(draw(st.none() | NUMBERS), draw(NUMBERS)) if has_log else None,
        log=OffsetRange(start, end) if has_log else None,
        reads_state=has_log and draw(st.booleans()),
    )


@given(splits())
def test_a_split_is_read_as_it_was_written(given_split):
    text = json.dumps(split_document(given_split), allow_nan=False)

    assert split_of_document(json.loads(text)) == given_split


def test_the_page_shows_a_split_as_it_is():
    (shown,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)

    assert json.loads(shown) == split_document(EXAMPLE)
    assert split_of_document(json.loads(shown)) == EXAMPLE


def test_the_page_tells_of_every_field():
    page = PAGE.read_text(encoding="utf-8")
    document = plan_document(view({0: (0, 9)}), plan_read(view({0: (0, 9)}), [], Selection()))
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
    plan = plan_read(seen, [split(0)], Selection(filter=wanted))

    document = plan_document(seen, plan, columns=["id"], wanted=wanted)

    assert document["token"] == token_text(seen)
    assert document["columns"] == [{"id": 0, "name": "id", "type": {"type": "BIGINT"}}]
    assert document["filter"] == "id > 5"
    assert [each["tier"] for each in document["splits"]] == ["LAKE_ONLY", "LOG_ONLY"]


def test_fields_that_nobody_knows_are_passed_over():
    assert split_of_document({**split_document(EXAMPLE), "color": "red"}) == EXAMPLE


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": 2}, "has version 2"),
        ({"tier": "WARM"}, "'WARM' is not a valid Tier"),
        ({"tier": "LOG_ONLY"}, "not those of a LOG_ONLY split"),
        ({"log": None}, "not those of a HYBRID split"),
        ({"log": {"bucket": 0, "start": 5, "end": 4}}, "5 to 4 are no offsets"),
        ({"lake": {"format": "iceberg"}}, "'snapshot_id'"),
        ({"bucket": "x"}, "'bucket'"),
    ],
)
def test_what_is_no_split_is_refused(changes, said):
    with pytest.raises(RequestError, match=said):
        split_of_document({**split_document(EXAMPLE), **changes})


def test_what_is_no_document_is_refused():
    with pytest.raises(RequestError, match="Expected a JSON object"):
        split_of_document([])
