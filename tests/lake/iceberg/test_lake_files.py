"""What is said of data files that others wrote, and of tables from before columns were kept."""

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.errors import UnsupportedError
from headwater.lake.iceberg.layout import COLUMN_IDS
from headwater.model.types import BigIntType, DoubleType, IntType, StringType, TimeType
from tests.lake.contract.changes import added, dropped
from tests.lake.contract.engine import check_bounds, whole_file
from tests.lake.lake_table import LakeTable

COLUMNS = {"id": BigIntType(), "name": StringType(), "score": DoubleType()}
SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "score": pa.float64()})


def rows(*scores: float) -> pa.Table:
    columns = [list(range(len(scores))), ["x" * 40] * len(scores), list(scores)]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)


def files_of(table):
    splits = table.source.plan(table.source.snapshot().snapshot_id)
    return [file for split in splits for file in split.files]


def test_times_that_are_finer_than_literals_lie_between_their_bounds(tables):
    table = tables.make({"id": BigIntType(), "at": TimeType(precision=6)})
    table.tier([{"id": 1, "at": 1_500}, {"id": 2, "at": 7_001}])

    (file,) = files_of(table)

    assert [(each.lower, each.upper) for each in file.bounds if each.column_id == 1] == [(1, 8)]


def test_a_file_of_others_is_named_by_the_only_schema(tables, foreign):
    table = tables.make(COLUMNS)

    foreign(table.spec).append(rows(1.0, math.nan))

    (file,) = files_of(table)
    assert file.is_native
    check_bounds(file, whole_file(file, table.spec.schema), table.spec.schema)
    known = {each.column_id: each for each in file.bounds}
    assert known[1].lower == "x" * 16
    assert known[1].upper == "x" * 15 + "y"
    assert (known[2].lower, known[2].upper) == (None, None)


def test_a_file_of_others_is_not_named_once_there_were_several_schemas(tables, foreign):
    table = tables.make(COLUMNS)
    foreign(table.spec).append(rows(1.0))
    table = table.evolved(added(table.spec, "more", IntType()))
    table.tier([{"id": 7, "name": "y", "score": 1.0, "more": 1}])

    files = files_of(table)

    assert sorted(file.is_native for file in files) == [False, True]
    assert all(each.bounds for each in files)
    assert [row["more"] for row in table.values()] == [None, 1]


def test_a_file_of_others_is_not_named_where_they_change_names(tables, foreign):
    table = tables.make({"id": BigIntType(), "two words": StringType()})

    foreign(table.spec).append(pa.table({"id": [1], "two words": ["x"]}))

    (file,) = files_of(table)
    assert not file.is_native
    assert table.values() == [{"id": 1, "two words": "x"}]


def test_a_file_whose_columns_have_no_ids_is_refused_and_not_read_as_nulls(tables, foreign):
    table = tables.make(COLUMNS)
    seen = foreign(table.spec)
    place = f"{seen.location().removeprefix('file://')}/plain.parquet"
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows(1.0), place)
    seen.add_files([f"file://{place}"])

    with pytest.raises(UnsupportedError, match="no field ids"):
        table.values()


def test_a_column_dropped_before_this_was_kept_is_found_by_its_former_name(tables, foreign):
    table = tables.make(COLUMNS)
    table.tier([{"id": 1, "name": "a", "score": 1.5}])
    table.evolved(dropped(table.spec, "score"))
    seen = foreign(table.spec)
    ids = json.loads(seen.properties[COLUMN_IDS])
    assert ids.pop("dropped") == {"2": 3}
    with seen.transaction() as changed:
        changed.set_properties({COLUMN_IDS: json.dumps(ids)})

    older = LakeTable(table.lake, table.spec)

    assert older.values() == [{"id": 1, "name": "a", "score": 1.5}]
