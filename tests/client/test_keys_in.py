from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from headwater.errors import InvalidValueError
from headwater.write.rows_in import keys_in, record_batches
from tests.cases import cases

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("day", pa.date32())])


def taken(keys, names=("id",)) -> list[tuple]:
    batches = record_batches(keys_in(keys, names), SCHEMA, columns=names)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@cases("key", [7, np.int64(7), (7,), {"id": 7}, {"id": [7]}, [7], [(7,)]])
def test_a_key_of_one_column_is_given_as_it_is(key):
    assert taken(key) == [(7,)]


@cases(
    "keys",
    [
        [1, 2],
        (1, 2),
        range(1, 3),
        iter([1, 2]),
        np.array([1, 2]),
        pa.array([1, 2]),
        pa.chunked_array([[1], [2]]),
        pd.Series([1, 2]),
        pl.Series([1, 2]),
        [{"id": 1}, {"id": 2}],
        iter([{"id": 1}, {"id": 2}]),
        pa.table({"id": [1, 2]}),
        pd.DataFrame({"id": [1, 2]}),
    ],
)
def test_keys_of_one_column_come_in_every_form(keys):
    assert taken(keys) == [(1,), (2,)]


def test_moments_and_texts_are_keys_as_well():
    assert taken(date(2024, 5, 1), ("day",)) == [(date(2024, 5, 1),)]
    assert keys_in("ab", ("name",)) == {"name": ["ab"]}


def test_no_keys_are_no_keys():
    assert taken([]) == []


@cases("keys", [1, (1, date(2024, 5, 1)), [1], pa.array([1]), iter([1])])
def test_values_of_a_key_of_several_columns_are_refused_with_advice(keys):
    with pytest.raises(InvalidValueError, match="Wrap a single tuple in a list"):
        taken(keys, ("id", "day"))
