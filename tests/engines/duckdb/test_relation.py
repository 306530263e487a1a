"""The relation of streams: the number in the filter decides, and nothing else does."""

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from headwater.engines.duckdb.streams import NumberedStreams, RowStream, StreamRelation
from headwater.errors import PositionMissingError, UnsupportedError

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
HERE = ds.field("__stream")


def stream_of(rows: dict) -> RowStream:
    batch = pa.record_batch(rows, schema=SCHEMA)
    return RowStream(("id", "name"), lambda columns: iter([batch.select(list(columns))]))


@pytest.fixture
def streams():
    return NumberedStreams(streams_max=2)


@pytest.fixture
def relation(streams):
    streams.add(stream_of({"id": [1, 2], "name": ["a", "b"]}))
    streams.add(stream_of({"id": [3], "name": ["(__stream == 1)"]}))
    return StreamRelation(SCHEMA, marker="__stream", streams=streams)


def test_the_stream_of_the_number_is_read(relation):
    found = relation.scanner(columns=["name"], filter=HERE == 2).to_table()

    assert found.to_pydict() == {"name": ["(__stream == 1)"]}


def test_filters_are_applied_and_may_look_at_columns_that_are_not_given_back(relation):
    filter_ = (HERE == 1) & (ds.field("id") > 1)

    assert relation.scanner(["name"], filter_).to_table().to_pydict() == {"name": ["b"]}


def test_a_literal_that_reads_like_a_number_of_a_stream_is_none(relation):
    filter_ = (ds.field("name") == "(__stream == 1)") & (HERE == 2)

    assert relation.scanner(["id"], filter_).to_table().to_pydict() == {"id": [3]}


def test_rows_can_be_counted_by_the_marker_alone(relation):
    assert relation.scanner(["__stream"], HERE == 1).to_table().num_rows == 2


@pytest.mark.parametrize(
    "filter_",
    [
        None,
        ds.field("id") == 1,
        ds.field("name") == "(__stream == 1)",
        (HERE == 1) | (HERE == 2),
        (HERE == 1) | (ds.field("id") == 3),
    ],
    ids=str,
)
def test_a_filter_that_names_no_single_stream_is_refused(relation, filter_):
    with pytest.raises(UnsupportedError, match="optimizer"):
        relation.scanner(["id"], filter_)


def test_a_stream_that_was_given_up_is_told_and_never_another_one_read(relation, streams):
    streams.add(stream_of({"id": [9], "name": ["z"]}))

    with pytest.raises(PositionMissingError, match="Run it again"):
        relation.scanner(["id"], HERE == 1)
