"""The SQL of plans, run on files that the tests wrote."""

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.engines.duckdb.sql import StreamNumbers, rendered
from headwater.lake.split import LakeFile
from headwater.model.schema import Column, Schema
from headwater.model.types import BigIntType, StringType
from headwater.read.split import FileGroup, NativePlan

SCHEMA = Schema(
    columns=(
        Column(name="id", type=BigIntType(nullable=False), column_id=0),
        Column(name="new", type=StringType(), column_id=1),
        Column(name="none", type=StringType(), column_id=2),
    ),
    primary_key=("id",),
)
NAMES = ((0, "id"), (1, "old"))
STREAMS = StreamNumbers(relation="streams", marker="__stream", rows=1, keys=2)


@pytest.fixture
def con():
    with duckdb.connect() as con:
        con.execute("CREATE TABLE streams (id BIGINT, new VARCHAR, none VARCHAR, __stream BIGINT)")
        con.execute("INSERT INTO streams VALUES (2, 'tail', 'x', 1), (2, NULL, NULL, 2)")
        yield con


def file_of(path, ids, *, deletes=()) -> LakeFile:
    table = pa.table({"old": [f"f{each}" for each in ids], "id": pa.array(ids, pa.int32())})
    pq.write_table(table, path)
    return LakeFile(
        path=f"file://{path}",
        row_count=len(ids),
        byte_count=1,
        is_plain=False,
        names=NAMES,
        stands_alone=True,
        deletes=deletes,
    )


def rows(con, *groups) -> list[tuple]:
    plan = NativePlan(groups=groups, tail=(), key=("id",))
    return sorted(con.execute(rendered(SCHEMA, plan, STREAMS)).fetchall())


def test_columns_are_renamed_cast_and_null_where_they_are_missing(con, tmp_path):
    group = FileGroup(files=(file_of(tmp_path / "a.parquet", [1, 3]),), is_touched=False)

    assert rows(con, group) == [(1, "f1", None), (2, "tail", "x"), (3, "f3", None)]


def test_changed_keys_are_left_out_of_touched_files_only(con, tmp_path):
    touched = FileGroup(files=(file_of(tmp_path / "a.parquet", [1, 2]),), is_touched=True)
    other = FileGroup(files=(file_of(tmp_path / "b.parquet", [7]),), is_touched=False)

    assert [row[:2] for row in rows(con, touched, other)] == [(1, "f1"), (2, "tail"), (7, "f7")]


@pytest.mark.parametrize("is_touched", [False, True])
def test_positions_are_deleted_in_the_file_that_they_name(con, tmp_path, is_touched):
    deletes = tmp_path / "it's.parquet"
    paths = [f"file://{tmp_path / name}" for name in ("b.parquet", "a.parquet", "z.parquet")]
    pq.write_table(pa.table({"file_path": paths, "pos": [0, 1, 0]}), deletes)
    files = tuple(
        file_of(tmp_path / name, ids, deletes=(str(deletes),))
        for name, ids in (("a.parquet", [10, 11, 12]), ("b.parquet", [20, 21]))
    )

    found = rows(con, FileGroup(files=files, is_touched=is_touched))

    assert [row[0] for row in found] == [2, 10, 12, 21]


def test_groups_that_the_same_sql_reads_are_one_scan(tmp_path):
    groups = tuple(
        FileGroup(files=(file_of(tmp_path / f"{at}.parquet", [at]),), is_touched=True, bucket=at)
        for at in range(5)
    )

    sql = rendered(SCHEMA, NativePlan(groups=groups, tail=(), key=("id",)), STREAMS)

    assert sql.count("read_parquet") == 1


def test_a_plan_of_nothing_has_columns_and_no_rows(con):
    streams = StreamNumbers(relation="streams", marker="__stream")

    found = con.execute(rendered(SCHEMA, NativePlan(groups=(), tail=()), streams))

    assert [name for name, *_ in found.description] == ["id", "new", "none"]
    assert found.fetchall() == []
