"""What splits say of their files is true: engines that read files by themselves rely on it."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.lake.split import LakeSplit
from headwater.model.arrow import arrow_schema, arrow_type
from headwater.model.types import (
    ArrayType,
    BigIntType,
    DoubleType,
    FloatType,
    IntType,
    RowField,
    RowType,
    StringType,
)
from tests.lake.contract.changes import added, dropped, renamed
from tests.lake.contract.engine import check_bounds, check_split, whole_file
from tests.lake.contract.samples import SAMPLES

pytestmark = pytest.mark.usefixtures("lake_directory")

KINDS = {f"c{at}": kind for at, kind in enumerate(SAMPLES)}
FLOATS = (FloatType(), DoubleType())
COLUMNS = {
    "id": BigIntType(nullable=False),
    **KINDS,
    "list": ArrayType(element=StringType()),
    "row": RowType(fields=(RowField(name="x", type=IntType(), field_id=90),)),
}
NESTED = {"list": [["a", None], None, []], "row": [{"x": 1}, {"x": None}, None]}


def rows_of(table, seeds: list[int]) -> pa.RecordBatch:
    """Return a row for each seed, with values that differ from row to row."""
    columns = []
    for at, (name, kind) in enumerate(COLUMNS.items()):
        held = NESTED.get(name) or SAMPLES.get(kind) or range(10)
        values = [held[(seed + at) % len(held)] for seed in seeds]
        if kind in FLOATS and seeds[0] % 4 == 0:
            values[0] = float("nan")
        columns.append(pa.array(values, arrow_type(kind)))
    schema = pa.schema([pa.field(n, arrow_type(k)) for n, k in COLUMNS.items()])
    whole = pa.record_batch(columns, schema=schema)
    found = [
        whole[column.name] if column.name in COLUMNS else pa.array(seeds).cast(pa.string())
        for column in table.spec.schema.columns
    ]
    return pa.RecordBatch.from_arrays(found, schema=arrow_schema(table.spec.schema))


def plan_of(table) -> tuple[object, list[LakeSplit]]:
    source = table.source
    return source, source.plan(table.head().snapshot_id)


CHANGES = st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=8)
STEPS = st.lists(st.one_of(CHANGES, st.sampled_from(["add", "rename", "drop"])), max_size=5)


def evolved(table, step: str, turn: int):
    """Return the table with other columns, as far as it still has the one to change."""
    names = table.spec.schema.names
    if step == "add":
        return table.evolved(added(table.spec, f"n{turn}"))
    at = 3 if step == "drop" else len(names) - 1
    if step == "drop" and "c5" in names:
        return table.evolved(dropped(table.spec, "c5"))
    if step == "rename" and names[at] not in COLUMNS:
        return table.evolved(renamed(table.spec, names[at], f"r{turn}"))
    return table


@pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "keyed"])
@settings(max_examples=8)
@given(first=CHANGES, steps=STEPS)
def test_an_engine_that_knows_only_splits_reads_the_rows_of_the_table(tables, key, first, steps):
    table = tables.make(COLUMNS, key=key, bucket_keys=("id",), bucket_count=2)
    for turn, step in enumerate([first, *steps]):
        if isinstance(step, str):
            table = evolved(table, step, turn)
            continue
        deleted = [gone for _, gone in step] if key else None
        table.tier(rows_of(table, [seed for seed, _ in step]), deleted=deleted)

    source, splits = plan_of(table)

    assert key or all(file.is_native for split in splits for file in split.files)
    for split in splits:
        check_split(source, split, table.spec.schema)


@pytest.mark.parametrize("kind", SAMPLES, ids=str)
def test_bounds_of_every_type_are_told_in_the_form_of_literals(tables, kind, lake_format):
    table = tables.make({"id": BigIntType(nullable=False), "value": kind})
    values = pa.array(SAMPLES[kind], arrow_type(kind))
    ids = pa.array(range(len(values)), pa.int64())

    is_long = any(len(each) > 128 for each in SAMPLES[kind] if isinstance(each, str | bytes))

    table.tier(pa.record_batch([ids, values], schema=table.schema))

    _, (split,) = plan_of(table)
    (file,) = split.files
    check_bounds(file, whole_file(file, table.spec.schema), table.spec.schema)
    known = {bounds.column_id: bounds for bounds in file.bounds}
    assert (known[0].lower, known[0].upper, known[0].null_count) == (0, len(values) - 1, 0)
    if lake_format != "plain" and kind not in FLOATS and not is_long:
        assert known[1].lower is not None
        assert known[1].upper is not None


@pytest.mark.parametrize("kind", FLOATS, ids=str)
def test_floats_among_which_one_is_no_number_have_no_bounds(tables, kind):
    table = tables.make({"id": BigIntType(nullable=False), "value": kind})

    table.tier([{"id": 1, "value": float("nan")}, {"id": 2, "value": 1.5}])

    _, (split,) = plan_of(table)
    (file,) = split.files
    assert [(each.lower, each.upper) for each in file.bounds if each.column_id == 1] in (
        [],
        [(None, None)],
    )


def test_a_bucket_of_rows_by_key_is_one_split(tables):
    table = tables.keyed(bucket_count=2)
    for turn in range(3):
        table.tier([{"id": turn * 10 + at, "name": "x"} for at in range(10)])

    _, splits = plan_of(table)

    assert len({split.bucket for split in splits}) == len(splits)
    assert sum(len(split.files) for split in splits) == 6


def test_files_that_stand_alone_can_be_left_out(tables):
    table = tables.keyed()
    for turn in range(3):
        table.tier([{"id": turn * 10 + at, "name": f"{turn}"} for at in range(10)])
    source, (split,) = plan_of(table)

    alone = [file for file in split.files if file.stands_alone]

    for left_out in alone:
        kept = tuple(file for file in split.files if file is not left_out)
        batches = list(source.read(replace(split, files=kept)))
        ids = {each for batch in batches for each in batch["id"].to_pylist()}
        gone = whole_file(left_out, table.spec.schema)["id"].to_pylist()
        assert ids == set(range(30)) - set(gone)


def test_files_of_rows_that_others_replace_stand_alone_only_with_their_deletes(tables):
    table = tables.keyed()
    table.tier([{"id": at, "name": "old"} for at in range(10)])
    table.tier([{"id": 3, "name": "new"}, {"id": 4, "name": "?"}], deleted=[False, True])

    source, (split,) = plan_of(table)

    check_split(source, split, table.spec.schema)
    oldest = max(split.files, key=lambda file: file.row_count)
    assert oldest.deletes if oldest.stands_alone else not oldest.deletes
    assert not oldest.is_plain
