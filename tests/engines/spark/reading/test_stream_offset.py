"""How far a stream has read, in JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.engines.spark.read.selection import (
    partition_of,
    partition_text,
    place_of,
    place_text,
)
from headwater.engines.spark.read.stream_offset import (
    FirstView,
    StreamOffset,
    offset_document,
    read_offset,
)
from headwater.errors import InvalidPartitionError, RequestError
from headwater.model.bucket import TableBucket
from headwater.model.path import TablePath
from headwater.model.schema import Column, Schema, with_column_ids
from headwater.model.table import TableDescriptor, TableInfo
from headwater.model.types import StringType
from headwater.read.offsets import Place
from tests.cases import cases

values = st.text("abc019-_", min_size=1, max_size=5).filter(lambda text: text[:2] != "__")


def table_of(*partition_keys: str, table_id: int = 3) -> TableInfo:
    columns = tuple(Column(name=name, type=StringType()) for name in ("v", *partition_keys))
    descriptor = TableDescriptor(
        schema=with_column_ids(Schema(columns=columns)), partition_keys=partition_keys
    )
    return TableInfo(
        path=TablePath("shop", "orders"),
        table_id=table_id,
        schema_id=1,
        descriptor=descriptor,
        created_ms=0,
        modified_ms=0,
    )


partitions = st.tuples(values, values).map("$".join)
offsets = st.dictionaries(
    st.builds(Place, partitions, st.integers(0, 9)), st.none() | st.integers(0, 2**62)
).map(
    lambda positions: StreamOffset(
        positions=positions,
        partition_ids={place.partition: n for n, place in enumerate(positions)},
    )
)


@given(offsets)
def test_an_offset_is_read_as_it_was_written(offset):
    table = table_of("day", "zone")

    document = json.loads(json.dumps(offset_document(offset, table)))

    assert read_offset(document, table) == offset
    assert json.dumps(offset_document(read_offset(document, table), table)) == json.dumps(document)


def test_an_offset_can_be_read_by_people():
    places = {Place("2026-11-16", 1): None, Place("2026-11-16", 0): 120}
    offset = StreamOffset(positions=places, partition_ids={"2026-11-16": 7}, state_ms=5)

    assert offset_document(offset, table_of("day")) == {
        "table": "shop.orders",
        "table_id": 3,
        "offsets": {"day=2026-11-16/0": 120, "day=2026-11-16/1": "state"},
        "partitions": {"day=2026-11-16": 7},
        "state_read_ms": 5,
    }


def test_buckets_are_in_the_order_of_their_numbers():
    offset = StreamOffset(positions={Place(None, number): 1 for number in (10, 2, 0)})

    assert list(offset_document(offset, table_of())["offsets"]) == ["0", "2", "10"]


def test_a_checkpoint_of_a_table_that_was_created_anew_is_refused():
    document = offset_document(StreamOffset(positions={Place(None, 0): 1}), table_of())

    with pytest.raises(RequestError, match=r"recreated.*new checkpoint location"):
        read_offset(document, table_of(table_id=4))


@cases("broken", [{"offsets": {"0": "x"}}, {"offsets": 5}, {"offsets": {"z": 1}}])
def test_an_offset_that_makes_no_sense_is_refused(broken):
    with pytest.raises(RequestError):
        read_offset({"table_id": 3} | broken, table_of())


def test_a_bucket_of_a_partition_that_was_made_anew_is_read_from_its_first_row():
    place = Place("a", 0)
    offset = StreamOffset(positions={place: 9}, partition_ids={"a": 1})

    assert offset.position(place, TableBucket(3, 0, 1)) == 9
    assert offset.position(place, TableBucket(3, 0, 2)) == 0
    assert offset.bucket(place, 3) == TableBucket(3, 0, 1)


@given(values, values, st.integers(0, 99))
def test_names_of_buckets_and_partitions_are_read_as_they_were_written(day, zone, number):
    keys, place = ("day", "zone"), Place(f"{day}${zone}", number)

    assert place_of(place_text(place, keys), keys) == place
    assert partition_of(partition_text(f"{day}${zone}", keys), keys) == f"{day}${zone}"


@cases("text", ["", "x", "day=1", "1/0", "day=1/zone=2", "day=1/x=2/0"])
def test_a_text_that_names_no_bucket_is_refused_with_an_example(text):
    with pytest.raises((RequestError, InvalidPartitionError), match=r"day"):
        place_of(text, ("day", "zone"))


def test_a_table_without_partitions_has_buckets_by_number_only():
    assert place_of("3", ()) == Place(None, 3)
    with pytest.raises(RequestError, match="names no bucket"):
        place_of("day=1/3", ())
    with pytest.raises(RequestError, match="has no partitions"):
        partition_of("day=1", ())


def test_a_view_that_comes_first_is_told_in_words_and_by_its_token():
    before = StreamOffset(positions={}, is_before_view=True)
    after = StreamOffset(positions={Place(None, 0): 7}, view=FirstView("hw1.abc", 42))
    table = table_of()

    documents = [offset_document(each, table) for each in (before, after)]

    assert documents[0] == {"table": "shop.orders", "table_id": 3, "offsets": {}, "view": "next"}
    assert documents[1]["view"] == {"snapshot": 42, "token": "hw1.abc"}
    assert [read_offset(each, table) for each in documents] == [before, after]


def test_a_view_is_read_by_the_micro_batch_that_ends_with_it():
    before = StreamOffset(positions={}, is_before_view=True)
    after = StreamOffset(positions={Place(None, 0): 7}, view=FirstView("hw1.abc"))
    later = StreamOffset(positions={Place(None, 0): 9})

    assert after.view_since(before) == after.view_since(later) == FirstView("hw1.abc")
    assert after.view_since(after) is later.view_since(after) is None


def test_a_view_that_is_none_is_refused():
    with pytest.raises(RequestError, match="not an offset"):
        read_offset({"table_id": 3, "offsets": {}, "view": 5}, table_of())
