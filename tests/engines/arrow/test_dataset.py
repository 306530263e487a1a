"""Datasets of rows: they read what is asked for, and give exactly what is wanted."""

from collections.abc import Sequence

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from headwater.engines.arrow import RowsDataset

TABLE = pa.table({"id": [1, 2, 3, 4], "city": ["Ulm", None, "Bonn", "Ulm"], "x": [0.5] * 4})


class Recorded:
    """Be rows in memory, in two parts, and remember which columns were read."""

    def __init__(self, table: pa.Table = TABLE) -> None:
        self.table = table
        self.schema = table.schema
        self.read_columns: list[Sequence[str]] = []

    def read(self, columns, condition):
        self.read_columns.append(columns)
        yield from self.table.select(columns).to_batches()

    def parts(self, condition):
        return [Recorded(self.table.slice(0, 2)), Recorded(self.table.slice(2))]


@pytest.fixture
def rows() -> Recorded:
    return Recorded()


@pytest.fixture
def dataset(rows) -> RowsDataset:
    return RowsDataset(rows)


def test_all_rows_are_read(dataset):
    assert dataset.to_table() == TABLE


def test_only_the_columns_that_are_asked_for_are_read(dataset, rows):
    assert dataset.to_table(columns=["x"]).column_names == ["x"]
    assert rows.read_columns == [["x"]]


def test_columns_come_in_the_order_in_which_they_are_asked_for(dataset):
    assert dataset.to_table(columns=["x", "id"]).column_names == ["x", "id"]


def test_a_filter_is_applied_exactly_and_its_columns_are_read(dataset, rows):
    found = dataset.to_table(
        columns=["x"], filter=(pc.field("city") == "Ulm") & (pc.field("id") > 1)
    )

    assert found == TABLE.select(["x"]).slice(3)
    assert rows.read_columns == [["id", "city", "x"]]


def test_a_filter_may_look_into_nulls(dataset):
    found = dataset.to_table(columns=["id"], filter=pc.field("city").is_null())

    assert found.to_pydict() == {"id": [2]}


def test_columns_may_be_computed(dataset, rows):
    found = dataset.to_table(columns={"twice": pc.field("id") * 2})

    assert found.to_pydict() == {"twice": [2, 4, 6, 8]}
    assert rows.read_columns == [["id"]]


def test_a_field_of_a_row_is_read_with_its_column():
    rows = Recorded(pa.table({"id": [1], "st": [{"a": 1, "b": "x"}]}))

    found = RowsDataset(rows).to_table(columns={"b": pc.field("st", "b")})

    assert found.to_pydict() == {"b": ["x"]}
    assert rows.read_columns == [["st"]]


def test_rows_are_counted_by_a_narrow_column(dataset, rows):
    assert dataset.count_rows() == 4
    assert dataset.count_rows(filter=pc.field("city") == "Ulm") == 2
    assert rows.read_columns == [["id"], ["city"]]


def test_no_column_at_all_still_has_its_rows(dataset):
    assert dataset.to_table(columns=[]).num_rows == 4


def test_the_first_rows_can_be_taken(dataset):
    assert dataset.head(2, columns=["id"]).to_pydict() == {"id": [1, 2]}
    assert dataset.take(pa.array([3]), columns=["id"]).to_pydict() == {"id": [4]}


def test_a_column_that_is_not_there_is_named(dataset):
    with pytest.raises((pa.ArrowInvalid, KeyError), match="nothing"):
        dataset.to_table(columns=["nothing"])
    with pytest.raises(pa.ArrowInvalid, match="nothing"):
        dataset.to_table(filter=pc.field("nothing") == 1)


def test_filters_of_a_dataset_add_up(dataset, rows):
    narrowed = dataset.filter(pc.field("id") > 1).filter(pc.field("city") == "Ulm")

    assert narrowed.to_table(columns=["x"]).num_rows == 1
    assert narrowed.count_rows() == 1
    assert [part.to_table().num_rows for part in narrowed.get_fragments()] == [0, 1]


def test_parts_make_up_the_whole(dataset):
    parts = list(dataset.get_fragments())

    assert pa.concat_tables(part.to_table() for part in parts) == TABLE
    assert [
        part.to_table(columns=["id"], filter=pc.field("id") > 3).num_rows for part in parts
    ] == [
        0,
        1,
    ]
    assert next(parts[0].to_batches()).schema == parts[0].physical_schema


def test_datasets_can_be_sorted_and_joined(dataset):
    other = RowsDataset(Recorded(pa.table({"id": [2, 3], "y": ["a", "b"]})))

    joined = dataset.join(other, "id", join_type="inner").to_table()

    assert joined.sort_by("id").column("y").to_pylist() == ["a", "b"]
    assert dataset.sort_by([("id", "descending")]).head(1, columns=["id"]).to_pydict() == {
        "id": [4]
    }


def test_other_readers_of_datasets_take_it(dataset, tmp_path):
    ds.write_dataset(dataset, tmp_path, format="parquet")

    assert ds.dataset(tmp_path).to_table() == TABLE
    assert duckdb.from_arrow(dataset).filter("id > 2").project("id").fetchall() == [(3,), (4,)]
    assert pl.scan_pyarrow_dataset(dataset).filter(pl.col("id") == 3).collect().height == 1
    assert dataset.to_table().to_pandas()["city"].tolist() == ["Ulm", None, "Bonn", "Ulm"]
