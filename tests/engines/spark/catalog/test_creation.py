"""What CREATE TABLE asks for, by clauses and by TBLPROPERTIES."""

import pytest

from headwater.engines.spark.catalog.definition import Clauses, creation_of, read_clauses
from headwater.errors import InvalidTableError
from tests.engines.spark.catalog.java_fakes import Change, Field, Value

CLAUSES = Clauses()


def test_properties_say_keys_and_buckets_as_those_of_fluss_do():
    properties = {
        "primary.key": "a, b",
        "Bucket.Num": "4",
        "bucket.key": "a",
        "comment": "all of them",
        "table.log.ttl": "7 d",
        "team": "red",
        "owner": "me",
        "option.team": "red",
        "provider": "headwater",
    }

    asked = creation_of(properties, CLAUSES)

    assert (asked.primary_key, asked.bucket_by, asked.buckets) == (("a", "b"), ("a",), 4)
    assert asked.comment == "all of them"
    assert asked.options == {"table.log.ttl": "7 d", "team": "red"}


def test_clauses_say_the_same():
    transforms = [
        Change("x", name="identity", references=[Field("day")]),
        Change("x", name="bucket", references=[Field("id")], arguments=[Value(8)]),
    ]
    key = Change("PrimaryKey", columns=[Field("id"), Field("day")])

    asked = creation_of({}, read_clauses(transforms, [key]))

    assert asked.partition_by == ("day",)
    assert (asked.bucket_by, asked.buckets) == (("id",), 8)
    assert asked.primary_key == ("id", "day")


def test_a_key_may_be_said_twice_but_not_in_two_ways():
    clauses = Clauses(primary_key=("a",))

    assert creation_of({"primary.key": "a"}, clauses).primary_key == ("a",)
    with pytest.raises(InvalidTableError, match="Remove one of them"):
        creation_of({"primary.key": "b"}, clauses)


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"provider": "parquet"}, "USING parquet"),
        ({"location": "/data"}, "location"),
        ({"bucket.num": "many"}, "whole number"),
    ],
)
def test_what_a_table_cannot_be_is_refused(properties, complaint):
    with pytest.raises(InvalidTableError, match=complaint):
        creation_of(properties, CLAUSES)


def test_partitions_by_a_function_are_refused():
    with pytest.raises(InvalidTableError, match=r"days\(…\)"):
        read_clauses([Change("x", name="days")], [])


def test_other_constraints_are_refused():
    check = Change("Check", toDDL="CHECK (a > 0)")

    with pytest.raises(InvalidTableError, match=r"CHECK \(a > 0\)"):
        read_clauses([], [check])
