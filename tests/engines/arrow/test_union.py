"""A table as a pyarrow dataset."""

import pyarrow.compute as pc
import pytest

import headwater
import headwater.arrow
from headwater.errors import RequestError, TableMissingError

ROWS = [{"id": number, "city": f"c{number % 3}", "x": number / 2} for number in range(20)]


@pytest.fixture(scope="module")
def hw(tmp_path_factory):
    with headwater.open(tmp_path_factory.mktemp("arrow") / "data") as client:
        yield client


@pytest.fixture(scope="module")
def table(hw):
    schema = {"id": "BIGINT", "city": "STRING", "x": "DOUBLE"}
    made = hw.create_table("t", schema, buckets=4, primary_key="id")
    made.upsert(ROWS)
    return made


def test_a_dataset_keeps_its_position(hw):
    table = hw.create_table("moving", {"id": "BIGINT"})
    table.append([{"id": 1}])
    dataset = headwater.arrow.dataset(table)

    table.append([{"id": 2}])

    assert dataset.to_table().to_pydict() == {"id": [1]}
    assert headwater.arrow.dataset(table).count_rows() == 2


def test_a_table_is_found_by_name(hw, table):
    assert headwater.arrow.dataset(hw, "t").count_rows() == 20


def test_one_value_of_the_key_leads_to_one_bucket(table):
    dataset = headwater.arrow.dataset(table)
    condition = (pc.field("id") == 7) & (pc.field("x") > 0)

    parts = list(dataset.get_fragments(filter=condition))

    assert len(parts) == 1
    assert dataset.to_table(filter=condition).to_pylist() == [ROWS[7]]
    assert len(list(dataset.get_fragments())) == 4


@pytest.mark.parametrize(
    "condition",
    [
        pc.field("id") == 7.5,
        pc.field("x") == 3.5,
        (pc.field("id") == 7) | (pc.field("city") == "c1"),
        ~(pc.field("id") == 7),
        pc.field("id").isin([1, 2, 99]),
        pc.starts_with(pc.field("city"), "c2"),
        (pc.field("id") == 7) & (pc.field("id") == 8),
        pc.field("city").is_null(),
    ],
)
def test_whatever_pyarrow_asks_is_answered_as_pyarrow_does(table, condition):
    whole = table.scan().to_arrow()

    found = headwater.arrow.dataset(table).to_table(filter=condition)

    assert found.sort_by("id") == whole.filter(condition).sort_by("id")


def test_what_cannot_be_read_is_said(hw, table):
    with pytest.raises(TableMissingError):
        headwater.arrow.dataset(hw, "nothing")
    with pytest.raises(RequestError, match="No table is given"):
        headwater.arrow.dataset(hw)
    with pytest.raises(RequestError, match="Two tables"):
        headwater.arrow.dataset(table, "t")
    with pytest.raises(RequestError, match="already has a table"):
        headwater.arrow.dataset(table.view(), mode="log")
