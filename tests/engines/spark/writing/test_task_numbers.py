"""The task of each row: one for all rows of a bucket, whatever the batches."""

import pickle

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.cluster.router import Router
from headwater.engines.spark.by_bucket import TaskNumbers
from tests.engines.spark.writing.tables import described

BY_KEY = described(key=("id",), bucket_count=5).descriptor
BY_DAY = described(
    {"day": "STRING", "id": "BIGINT"},
    key=("day", "id"),
    partition_keys=("day",),
    bucket_count=3,
).descriptor
IDS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40)


@given(IDS, st.integers(1, 9))
def test_rows_of_one_bucket_have_one_task(ids, count):
    batch = pa.record_batch({"id": pa.array(ids, pa.int64())})

    tasks = TaskNumbers(BY_KEY, count).of(batch["id"]).to_pylist()

    for share in Router.of(BY_KEY).route(batch):
        places = range(len(ids)) if share.rows is None else share.rows.tolist()
        assert {tasks[place] for place in places} == {share.bucket % count}


@given(IDS)
def test_the_task_of_a_row_does_not_depend_on_the_others(ids):
    numbers = TaskNumbers(BY_DAY, 4)
    days = [f"2026-11-{abs(each) % 28 + 1:02}" for each in ids]

    together = numbers.of(pa.array(days), pa.array(ids, pa.int64())).to_pylist()

    alone = [
        numbers.of(pa.array([day]), pa.array([each], pa.int64()))[0].as_py()
        for day, each in zip(days, ids, strict=True)
    ]
    assert together == alone


def test_the_partition_comes_before_the_bucket_key():
    assert TaskNumbers(BY_DAY, 1).names == ("day", "id")


def test_a_table_without_a_bucket_key_names_no_columns():
    assert TaskNumbers(described(bucket_count=4).descriptor, 4).names == ()


def test_values_are_cast_before_they_are_hashed():
    numbers = TaskNumbers(BY_KEY, 5)

    assert numbers.of(pa.array([7, 8], pa.int32())) == numbers.of(pa.array([7, 8], pa.int64()))


def test_numbers_travel_to_workers():
    numbers = TaskNumbers(BY_DAY, 4)

    copied = pickle.loads(pickle.dumps(numbers.of))

    assert copied(pa.array(["d"]), pa.array([3])) == numbers.of(pa.array(["d"]), pa.array([3]))
